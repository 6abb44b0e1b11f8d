"""Writes trust decisions on folders, and lists what in a folder needs trust."""

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.agent.subagents.files import accept_agents, sources_of
from alhena.config.documents import settings_document, value_on
from alhena.config.effective_settings import (
    Place,
    TrustLevel,
    open_place,
    trust_entries,
)
from alhena.config.home import (
    trusted_commands_path,
    trusted_folders_path,
    workspace_settings_path,
)
from alhena.config.jsonc import with_value, without_value
from alhena.config.pinned_entries import (
    BoundEntry,
    bound_entries,
    folder_key,
    read_accepted,
    with_accepted,
    with_own_data,
    without_accepted,
)
from alhena.config.reference_keys import rename_old_keys
from alhena.errors import ConfigError
from alhena.frontends.shared.consent import INDENT, ConsentList
from alhena.frontends.shared.files import change_json
from alhena.hooks.load import HookDocument
from alhena.hooks.model import HookSource

UNCHANGED = "what is trusted was not written down"
UNACCEPTED = "what was accepted was not written down"


def write_trust(environ: Mapping[str, str], folder: Path, level: TrustLevel) -> Path:
    """Writes down what the user says of a folder; returns the file. Everything else in it stays.
    What was accepted of one that is not trusted any more is forgotten. Raises ConfigError when it
    cannot be read or written, and, before anything is written, when the folder's own settings
    cannot be used: their effects could not be shown."""
    if level is not TrustLevel.DO_NOT_TRUST:
        open_place(folder, environ, skip_trust=True)
    file = trusted_folders_path(environ)
    names = [path for path, _ in trust_entries(file) if _same(path, folder)]

    def with_level(text: str) -> str:
        for name in names or [os.path.realpath(folder)]:
            text = with_value(text, (name,), str(level))
        return text

    change_json(file, with_level, UNCHANGED)
    if level is TrustLevel.DO_NOT_TRUST:
        _forget_below(environ, folder)
    return file


def forget_trust(environ: Mapping[str, str], folder: Path) -> bool:
    """Takes back what the user has said of a folder, and all that was accepted of it and of those
    in it; whether there was anything. Raises ConfigError."""
    file = trusted_folders_path(environ)
    names = [path for path, _ in trust_entries(file) if _same(path, folder)]
    for name in names:
        change_json(file, lambda text, name=name: without_value(text, (name,)), UNCHANGED)
    return _forget_below(environ, folder) or bool(names)


def _forget_below(environ: Mapping[str, str], folder: Path) -> bool:
    root = folder_key(folder)
    below = f"{root.rstrip('/')}/"
    return forget_accepted(environ, lambda at, _key: at == root or at.startswith(below))


def set_aside(environ: Mapping[str, str]) -> tuple[tuple[Path, Path], ...]:
    """Puts those files aside that hold something else than what the user has said of folders, or
    what was accepted of them: where each was, and where it is now. Raises ConfigError."""
    from alhena.system.private_files import set_aside_damaged

    readers: dict[Path, Callable[[Path], object]] = {
        trusted_folders_path(environ): trust_entries,
        trusted_commands_path(environ): read_accepted,
    }
    found: list[tuple[Path, Path]] = []
    for path, read in readers.items():
        aside = set_aside_damaged(path, read, f"{path} could not be put aside")
        if aside is not None:
            found.append((path, aside))
    return tuple(found)


def aside_words(moved: tuple[Path, Path]) -> str:
    """Message about a file that was moved aside."""
    path, aside = moved
    return f"{path} could not be used, and is now {aside}: what it said does not count any more"


def find_waiting(place: Place) -> ConsentList:
    """Collects the configuration that becomes active when a folder is trusted. Runs none of it; its
    text is made safe to print."""
    waits = ConsentList(place.environ, place.settings.security.environment_variable_redaction)
    for name in place.unread:
        folder = place.cwd / name
        if name == ".gemini/settings.json":
            _add_settings(waits, place, name)
            continue
        waits.add(name, _KINDS.get(name, "context for the model"))
        if name.endswith(".env"):
            del waits.lines[-1]
            _add_variables(waits, name, folder)
        elif name == ".gemini/commands":
            waits.add_commands("workspace", folder, indent=INDENT)
        elif name == ".gemini/policies":
            waits.add_policies(folder, indent=INDENT)
        elif name == ".gemini/agents":
            (source,) = sources_of([("workspace", folder)], place.environ, place.cwd)
            waits.add_agents(source, place.cwd, given=False, indent=INDENT)
        elif name in _KINDS:
            waits.add_skills("workspace", folder, indent=INDENT)
    return waits


def accept_waiting(before: Place, waits: ConsentList) -> Place:
    """The user has just trusted the folder of `before` and has seen what waits there: accepts the
    servers, commands and agents that were shown, as they were. Returns the folder as it is now.
    Raises ConfigError and other AlhenaErrors when that cannot be written."""
    after = open_place(before.cwd, os.environ)
    shown = {key: entry.parts for key, entry in waits.entries.items()}
    accept(after, [each for each in after.pending if shown.get(each.key) == each.parts])
    if waits.agents:
        accept_agents(before.environ, before.cwd, waits.agents)
    return open_place(before.cwd, os.environ)


def accept(place: Place, entries: Collection[BoundEntry]) -> Path | None:
    """Writes down that a person has accepted these entries of a folder as they are given. A file
    that contains something else is put aside first; its new path then. Raises ConfigError."""
    if not entries:
        return None
    from alhena.system.private_files import change_file, set_aside_damaged

    path = trusted_commands_path(place.environ)
    aside = set_aside_damaged(path, read_accepted, UNACCEPTED)
    change_file(
        path,
        lambda data: with_accepted(path, data, place.cwd, entries),
        UNACCEPTED,
    )
    return aside


def call_data(place: Place, path: str) -> tuple[BoundEntry, ...]:
    """Writes down that a file is the own data of those servers and commands that name it, and may
    change unasked where they are accepted; gives these, none where the file is not one of theirs
    that can be. Nothing is accepted by that. `path` is from the folder. Raises ConfigError."""
    from alhena.system.private_files import change_file

    entries = () if place.acceptance is None else place.acceptance.entries
    wanted = os.path.realpath(place.cwd / path)
    found = tuple(
        msgspec.structs.replace(each, data=names)
        for each in entries
        if (names := tuple(n for n in each.loose if os.path.realpath(place.cwd / n) == wanted))
    )
    file = trusted_commands_path(place.environ)
    if found:
        change_file(file, lambda data: with_own_data(file, data, place.cwd, found), UNACCEPTED)
    return found


def forget_accepted(environ: Mapping[str, str], revoked: Callable[[str, str], bool]) -> bool:
    """Forgets all states of the entries that are `revoked`, who is given a folder as the file names
    it and the key of an entry; whether there were any. A file that contains something else is put
    aside and ignored. Raises ConfigError."""
    from alhena.system.private_files import change_file, set_aside_damaged

    path = trusted_commands_path(environ)
    failure = "what was accepted was not forgotten"
    set_aside_damaged(path, read_accepted, failure)
    known = ((folder, key) for folder, each in read_accepted(path).items() for key in each)
    found = any(revoked(folder, key) for folder, key in known)
    if found:
        change_file(path, lambda data: without_accepted(path, data, revoked), failure)
    return found


_KINDS = {
    ".gemini/policies": "rules that make the policy stricter",
    ".gemini/commands": "custom commands",
    ".gemini/agents": "subagents",
    ".gemini/skills": "skills",
    ".agents/skills": "skills",
}


def _add_variables(waits: ConsentList, name: str, path: Path) -> None:
    from alhena.config.env_files import read_env_file

    found = read_env_file(path, {}, (), local=True)
    waits.add(name, f"variables {', '.join(found.variables) or '(none)'}")
    if found.own:
        waits.add(f"of these alhena itself takes {', '.join(found.own)}", indent=INDENT)


def _add_settings(waits: ConsentList, place: Place, name: str) -> None:
    settings: dict[str, Any] = {}
    try:
        document = settings_document(workspace_settings_path(place.cwd))
        if isinstance(document, dict):
            settings, _ = rename_old_keys(cast("dict[str, Any]", document))
        said = ", ".join(settings) or "no settings"
        entries = bound_entries(settings, place.cwd, place.environ)
    except ConfigError as error:
        said, entries = error.message, ()
    except RecursionError:
        said, entries = "nested too deeply to be read", ()
    waits.add(name, said)
    for each in entries:
        waits.add_entry(each, value_on(settings, each.path), indent=INDENT)
        waits.entries[each.key] = each
    document = HookDocument(value=settings, file=name, source=HookSource.PROJECT)
    hooks = settings.get("hooks")
    if isinstance(hooks, dict) and hooks:
        events = ", ".join(cast("dict[str, Any]", hooks))
        waits.add(f"hooks of {events}; each needs approval (alhena hooks trust)", indent=INDENT)
        waits.add_hooks(document, indent=INDENT * 2)


def _same(path: str, folder: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(folder)
