"""Writes trust decisions on folders, and lists what in a folder needs trust."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.config.checking import renewed
from alhena.config.documents import settings_document, value_on
from alhena.config.effective_settings import (
    Place,
    TrustLevel,
    open_place,
    trust_entries,
)
from alhena.config.environment import has_secret_name, is_choosing
from alhena.config.home import (
    trusted_commands_path,
    trusted_folders_path,
    workspace_settings_path,
)
from alhena.config.jsonc import with_value, without_value
from alhena.config.pinned_entries import (
    MAX_TEXT,
    UNWATCHED,
    Bound,
    bound_entries,
    folder_key,
    read_accepted,
    runs_command,
    with_accepted,
    with_own_data,
    without_accepted,
)
from alhena.config.settings import EnvironmentRedaction
from alhena.display_text import exact, first_of, one_line
from alhena.errors import ConfigError
from alhena.frontends.files import change_json

_SAID = frozenset(
    {
        *("command", "args", "url", "httpUrl", "type", "trust", "timeout", "description"),
        *("includeTools", "excludeTools"),
    }
)
"""Members of a server's entry that are shown otherwise, or do not say what it is."""


def entry_lines(each: Bound, value: Any, redaction: EnvironmentRedaction) -> Iterator[str]:
    """An entry that is not accepted yet; `value` is what the settings say, `redaction` what
    the user's settings say of the environment of children."""
    name = one_line(each.label, 80)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        yield from (f"{name}: {_shown(words)}" for words in _server_words(fields))
        more = {key: member for key, member in fields.items() if key not in _SAID and member}
        if more:
            yield f"{name} with {_shown(msgspec.json.encode(more).decode('utf-8'))}"
    else:
        yield f"{name}: {_shown(value if isinstance(value, str) else '?')}"
    yield from _chosen(each)
    if each.files:
        yield f"{name} with what is now in {_shown(', '.join(each.files))}"
    elif runs_command(value):
        yield f"{name}: {UNWATCHED}"
    yield from _given(each, redaction)


def pending_lines(each: Bound, redaction: EnvironmentRedaction) -> Iterator[str]:
    """An entry that is held back: the reason, and its change as a unified diff, or the whole entry.
    Never shortened, since the reader is about to accept it."""
    yield f"{one_line(each.label, 80)}: {one_line(each.why, 600)}"
    new = each.before is None or max(len(each.before), len(each.text)) >= MAX_TEXT
    rows = each.text.split("\n") if new else _difference(each)
    yield from (f"    {exact(row)}" for row in rows)
    more = (*_doubted(each), *_chosen(each), *_given(each, redaction))
    yield from (f"    {row}" for row in more)


def _difference(each: Bound) -> list[str]:
    from difflib import unified_diff

    before, now = (each.before or "").split("\n"), each.text.split("\n")
    rows = [*unified_diff(before, now, lineterm="", n=2)][2:]
    found = [row for row in rows if not row.startswith("@@")]
    return found or ["(changed ones are not among those shown)"]


def _doubted(each: Bound) -> Iterator[str]:
    """The reason why a change of what may be data is asked about, and how to end that."""
    from shlex import quote

    for name in each.doubtful:
        yield _shown(
            f"{name} is watched, for it may say what is run; if this program writes it itself: "
            f"alhena trust --data {quote(name)}"
        )


def _chosen(each: Bound) -> Iterator[str]:
    """Variables of an entry that can make its command run another program."""
    told = [name for name in each.variables if is_choosing(name)]
    if told:
        yield (
            f"{one_line(each.label, 80)}: its variables choose the program, "
            f"its source or its server: {_shown(', '.join(told))}"
        )


def _given(each: Bound, redaction: EnvironmentRedaction) -> Iterator[str]:
    """The user's secrets an entry receives: variables it names, and those the user's settings pass
    to every child."""
    name = one_line(each.label, 80)
    key = "security.environmentVariableRedaction"
    if not each.server and not redaction.enabled:
        yield f"{name} is given all your variables, secrets too: {key}.enabled is false"
    elif redaction.allowed:
        allowed = ", ".join(one_line(variable, 80) for variable in redaction.allowed)
        yield f"{name} is given what {key}.allowed lets through: {allowed}"
    if each.given:
        told = (
            f"{name} (a secret by its name)" if has_secret_name(name) else name
            for name in each.given
        )
        yield f"{name} is given what these variables of yours hold: {', '.join(told)}"


def _server_words(members: dict[str, Any]) -> Iterator[str]:
    """All that a server may turn out to be: its command line, its URLs. Which of them it is can
    depend on what variables hold when it is started."""
    addresses = [str(members[key]) for key in ("httpUrl", "url") if members.get(key)]
    arguments = members.get("args")
    words: list[Any] = [members["command"]] if members.get("command") else []
    if isinstance(arguments, list):
        words += cast("list[Any]", arguments)
    elif arguments:
        words.append(arguments)
    if words or not addresses:
        yield " ".join(map(str, words)) or "?"
    for count, address in enumerate(addresses):
        if words and count == 0:
            yield f"it is connected to instead of run wherever this is not empty: {address}"
        elif count:
            yield f"or, where that is empty, it is connected to {address}"
        else:
            yield address


def _shown(text: str) -> str:
    told = exact(text)
    return one_line(told, len(told))


MAX_NAMED = 12
"""Most names of one kind that are listed."""
UNCHANGED = "what is trusted was not written down"
UNACCEPTED = "what was accepted was not written down"


class Waits:
    """Configuration that becomes active when a folder is trusted, in `lines`. `entries` are its
    servers and commands by their keys, each with the number of lines that show it in full."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.entries: dict[str, tuple[Bound, int]] = {}


def say_trust(environ: Mapping[str, str], folder: Path, level: TrustLevel) -> Path:
    """Writes down what the user says of a folder; returns the file. Everything else in it stays.
    What was accepted of one that is not trusted any more is forgotten. Raises ConfigError when it
    cannot be read or written, and, before anything is written, when the folder's own settings
    cannot be used: their effects could not be shown."""
    if level is not TrustLevel.DO_NOT_TRUST:
        open_place(folder, environ, skip_trust=True)
    file = trusted_folders_path(environ)
    names = [path for path, _ in trust_entries(file) if _same(path, folder)]

    def changed(text: str) -> str:
        for name in names or [os.path.realpath(folder)]:
            text = with_value(text, (name,), str(level))
        return text

    change_json(file, changed, UNCHANGED)
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


def what_waits(place: Place) -> Waits:
    """Collects the configuration that becomes active when a folder is trusted. Runs none of it; its
    text is made safe to print."""
    waits = Waits()
    for name in place.unread:
        if name == ".gemini/settings.json":
            _add_settings(waits, place, name)
        else:
            first, *rest = _details(place, name)
            waits.lines += (f"{one_line(name)}: {first}", *(f"    {each}" for each in rest))
    return waits


def accept_shown(before: Place, waits: Waits, lines: int | None = None) -> Place:
    """The user has just trusted the folder of `before` and has seen that many lines of its pending
    entries (None: all): accepts the servers and commands that were shown in full. Returns the
    folder as it is now; what is still pending there was not shown. Raises ConfigError."""
    after = open_place(before.cwd, os.environ)
    seen = {
        key: entry.parts
        for key, (entry, end) in waits.entries.items()
        if lines is None or end <= lines
    }
    accept(after, [each for each in after.pending if seen.get(each.key) == each.parts])
    return open_place(before.cwd, os.environ)


def accept(place: Place, entries: Collection[Bound]) -> Path | None:
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


def call_data(place: Place, path: str) -> tuple[Bound, ...]:
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
    ".gemini/commands": "custom commands",
    ".gemini/agents": "subagents",
    ".gemini/skills": "skills",
    ".agents/skills": "skills",
}


def _details(place: Place, name: str) -> Iterator[str]:
    if name.endswith(".env"):
        from alhena.config.env_files import read_env_file

        found = read_env_file(place.cwd / name, {}, (), local=True)
        yield f"variables {_some(list(found.variables)) or '(none)'}"
        if found.own:
            yield f"of these alhena itself takes {_some(list(found.own))}"
    elif name == ".gemini/policies":
        yield "rules that make the policy stricter"
    else:
        yield _KINDS.get(name, "context for the model")


def _add_settings(waits: Waits, place: Place, name: str) -> None:
    settings: dict[str, Any] = {}
    try:
        document = settings_document(workspace_settings_path(place.cwd))
        if isinstance(document, dict):
            settings, _ = renewed(cast("dict[str, Any]", document))
        said = _some(list(settings)) or "no settings"
        entries = bound_entries(settings, place.cwd, place.environ)
    except ConfigError as error:
        said, entries = one_line(error.message), ()
    except RecursionError:
        said, entries = "nested too deeply to be read", ()
    waits.lines.append(f"{name}: {said}")
    for each in entries:
        redaction = place.settings.security.environment_variable_redaction
        rows = entry_lines(each, value_on(settings, each.path), redaction)
        waits.lines += (f"    {row}" for row in rows)
        waits.entries[each.key] = (each, len(waits.lines))
    hooks = settings.get("hooks")
    if isinstance(hooks, dict) and hooks:
        events = _some(list(cast("dict[str, Any]", hooks)))
        waits.lines.append(f"    hooks of {events}; each needs approval (alhena hooks trust)")


def _some(names: list[str]) -> str:
    return first_of([one_line(name, 60) for name in names], MAX_NAMED)


def _same(path: str, folder: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(folder)
