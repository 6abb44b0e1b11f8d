"""Collects the hooks of a session from all sources, with their states and the reasons."""

import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.config.documents import settings_document
from alhena.config.effective_settings import folder_trust
from alhena.config.extension_manifest import array_in
from alhena.config.home import (
    system_defaults_path,
    system_settings_path,
    trusted_hooks_path,
    user_settings_path,
    workspace_settings_path,
)
from alhena.config.settings import Settings
from alhena.errors import ConfigError
from alhena.hooks.load import HookDocument, HookProblem, HookProblemLevel, LoadedHooks, load_hooks
from alhena.hooks.model import HookDefinition, HookEvent, HookGroup, HookSource
from alhena.hooks.planning import Hooks
from alhena.values import Value

if TYPE_CHECKING:
    from alhena.config.extensions import Extension
    from alhena.events import Event
    from alhena.hooks.running import HookSurroundings
    from alhena.hooks.trust import PinnedFiles


class HookState(StrEnum):
    """The state of a hook."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    UNTRUSTED = "untrusted"


class HookEntry(Value, frozen=True, kw_only=True):
    """A configured hook with its group and its state; `why` is the reason why it does not run,
    `pinned` the files of the project that belong to it, for a project's hook."""

    group: HookGroup
    hook: HookDefinition
    state: HookState
    why: str = ""
    pinned: "PinnedFiles | None" = None


class HooksRequest(Value, frozen=True, kw_only=True):
    """A request for the hooks of a workspace at `cwd`, with these settings and variables. `program`
    is a document of the embedding program; `extensions` are those whose hooks run, too."""

    cwd: Path
    environ: Mapping[str, str]
    settings: Settings
    program: Mapping[str, Any] | None = None
    extensions: "tuple[Extension, ...]" = ()
    skip_trust: bool = False


class GatheredHooks(Value, frozen=True, kw_only=True):
    """The collected hooks. `unasked`: hooks of the project run without individual acceptance.
    `notes` are for diagnosis."""

    entries: tuple[HookEntry, ...] = ()
    unasked: bool = False
    problems: tuple[HookProblem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fatal(self) -> HookProblem | None:
        """The problem that prevents any run: fewer safeguards than configured."""
        return next((each for each in self.problems if each.weakens), None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for a person: problems, and hooks that are not trusted yet."""
        wrong = [
            f"hooks: {each}" for each in self.problems if each.level is not HookProblemLevel.NOTE
        ]
        waiting = sum(each.state is HookState.UNTRUSTED for each in self.entries)
        if waiting:
            wrong.append(
                f"hooks: {waiting} of this project {'is' if waiting == 1 else 'are'} not trusted "
                "and will not run; see `alhena hooks trust`."
            )
        if self.unasked:
            wrong.append(
                "hooks: those of this project run without being asked about, because "
                "security.folderTrust.enabled is false."
            )
        return tuple(wrong)

    def groups(self) -> tuple[HookGroup, ...]:
        """The hooks that run."""
        found: list[HookGroup] = []
        for group in dict.fromkeys(id(entry.group) for entry in self.entries):
            members = [entry for entry in self.entries if id(entry.group) == group]
            enabled = tuple(each.hook for each in members if each.state is HookState.ENABLED)
            if enabled:
                found.append(msgspec.structs.replace(members[0].group, hooks=enabled))
        return tuple(found)


def gather_hooks(request: HooksRequest) -> GatheredHooks:
    """Reads all sources. Errors in files are among the problems.

    Nothing of a workspace is read before its folder is trusted, and each of its hooks runs only
    after it was accepted in its current form; with `security.folderTrust.enabled: false` all of
    them run. Raises ConfigError for an unusable list of trusted folders or hooks.
    """
    notes: list[str] = []
    problems: list[HookProblem] = []
    project = _project_document(request, notes, problems)
    system = _system_documents(request)
    user = HookDocument(
        value={
            "hooks": request.settings.hooks,
            "hooksConfig": msgspec.to_builtins(request.settings.hooks_config),
        },
        file=str(user_settings_path(request.environ)),
        source=HookSource.USER,
    )
    program = HookDocument(
        value=request.program or {}, file="the program", source=HookSource.RUNTIME
    )
    extensions = (extension_document(each, request.cwd) for each in request.extensions)
    loaded = [
        (document, load_hooks(document))
        for document in (program, project, user, *system, *extensions)
        if document is not None
    ]
    accepted: frozenset[str] | None = None
    if request.settings.security.folder_trust.enabled:
        accepted = frozenset() if project is None else read_accepted_fingerprints(request)
    own = next(found for document, found in loaded if document is user)
    entries = [
        entry
        for document, found in loaded
        for entry in _entries(
            document, _add_fingerprints(document, found, request), own, accepted, str(request.cwd)
        )
    ]
    unasked = accepted is None and any(
        each.hook.source is HookSource.PROJECT and each.state is HookState.ENABLED
        for each in entries
    )
    for document, found in loaded:
        if _is_off(document, found, own):  # none of them would run
            problems += (msgspec.structs.replace(each, weakens=False) for each in found.problems)
        else:
            problems += found.problems
    return GatheredHooks(
        entries=tuple(entries), unasked=unasked, problems=tuple(problems), notes=tuple(notes)
    )


def open_hooks(
    gathered: GatheredHooks,
    surroundings: "HookSurroundings",
    emit: "Callable[[Event], None]",
    is_tool: Callable[[str], bool],
) -> Hooks:
    """The hooks of a session. Raises ConfigError when unreadable ones may have been meant to
    block."""
    if gathered.fatal is not None:
        raise ConfigError(
            f"the hooks cannot be used: {str(gathered.fatal).rstrip('.')}.",
            remedy="Until then nothing runs.",
            page="hooks",
        )
    return Hooks(gathered.groups(), surroundings, emit, is_tool)


def read_accepted_fingerprints(request: HooksRequest) -> frozenset[str]:
    """The accepted fingerprints of this project's hooks."""
    from alhena.hooks.trust import trusted_fingerprints

    return trusted_fingerprints(trusted_hooks_path(request.environ), str(request.cwd))


def _system_documents(request: HooksRequest) -> tuple[HookDocument, ...]:
    """The hooks in an administrator's settings. Raises ConfigError."""
    found: list[HookDocument] = []
    for path in (system_defaults_path(request.environ), system_settings_path(request.environ)):
        value = settings_document(path) if os.path.lexists(path) else None
        if isinstance(value, dict) and "hooks" in value:
            document = cast("dict[str, Any]", value)
            found.append(HookDocument(value=document, file=str(path), source=HookSource.SYSTEM))
    return tuple(found)


def extension_document(
    extension: "Extension", workspace: Path, place: Path | None = None
) -> HookDocument:
    """The hooks of an extension; `place` as in `Extension.hooks`."""
    value: Any = None
    unreadable = ""
    try:
        value = extension.hooks(workspace, place)
    except ConfigError as error:
        unreadable = error.message.removeprefix(f"{extension.hooks_file}: ")
    return HookDocument(
        value={} if value is None else _with_hooks_key(value),
        file=str(extension.hooks_file),
        source=HookSource.EXTENSION,
        extension=extension.name,
        environ=extension.environ,
        unreadable=unreadable,
    )


def _with_hooks_key(value: Any) -> Any:
    """A document whose events stand at its top, as one with the key `hooks`."""
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value)
    if "hooks" in members:
        return members
    events = {
        key: each for key, each in members.items() if key in list(HookEvent) or bool(array_in(each))
    }
    rest = {key: each for key, each in members.items() if key not in events}
    return {**rest, "hooks": events}


def _project_document(
    request: HooksRequest, notes: list[str], problems: list[HookProblem]
) -> HookDocument | None:
    path = workspace_settings_path(request.cwd)
    # In the home directory this is the user's own file, already loaded.
    same = os.path.realpath(path) == os.path.realpath(user_settings_path(request.environ))
    if same or not os.path.lexists(path):
        return None
    trust = folder_trust(
        request.cwd,
        request.environ,
        enabled=request.settings.security.folder_trust.enabled,
        skip=request.skip_trust,
    )
    if not trust.trusted:
        notes.append(f"{path} is not read: the folder is not trusted ({trust.reason}).")
        return None
    try:
        value = settings_document(path)
    except ConfigError as error:
        problems.append(_unreadable(str(path), error))
        return None
    return HookDocument(value=value or {}, file=str(path), source=HookSource.PROJECT)


def _unreadable(file: str, error: ConfigError) -> HookProblem:
    return HookProblem(file=file, path="", message=error.message, remedy=error.remedy or "")


def _add_fingerprints(
    document: HookDocument, found: LoadedHooks, request: HooksRequest
) -> LoadedHooks:
    asked = request.settings.security.folder_trust.enabled
    if document.source is not HookSource.PROJECT or not found.groups or not asked:
        return found
    from alhena.hooks.trust import with_fingerprints

    groups = with_fingerprints(found.groups, str(request.cwd))
    return msgspec.structs.replace(found, groups=groups)


def _entries(
    document: HookDocument,
    found: LoadedHooks,
    own: LoadedHooks,
    accepted: frozenset[str] | None,
    project: str,
) -> list[HookEntry]:
    """The hooks of a document with their states; `accepted` None: a project's hooks need no
    acceptance. The user's settings (`own`) can disable all but a system's and a program's; a
    document can disable its own."""
    ours = document.source is HookSource.PROJECT
    off = _is_off(document, found, own)
    deciding = _deciding(document, found, own)
    disabled = frozenset[str]().union(*(each.disabled for each in deciding))
    entries: list[HookEntry] = []
    for group in found.groups:
        for hook in group.hooks:
            state, why = HookState.ENABLED, ""
            if off:
                state, why = HookState.DISABLED, "hooksConfig.enabled is false"
            elif disabled & {hook.label, hook.command}:
                state, why = HookState.DISABLED, "hooksConfig.disabled names it"
            elif accepted is not None and ours and hook.fingerprint not in accepted:
                state = HookState.UNTRUSTED
                why = "new or changed; run alhena hooks trust"
            pinned: PinnedFiles | None = None
            if ours:
                from alhena.hooks.trust import pinned_files

                pinned = pinned_files(hook, project)
                if pinned.problem and state is HookState.UNTRUSTED:
                    why = f"it cannot be trusted: {pinned.problem}"
            entries.append(HookEntry(group=group, hook=hook, state=state, why=why, pinned=pinned))
    return entries


def _deciding(document: HookDocument, found: LoadedHooks, own: LoadedHooks) -> list[LoadedHooks]:
    """The documents that can disable the hooks of one."""
    alone = document.source in (HookSource.SYSTEM, HookSource.RUNTIME)
    return [found] if alone else [found, own]


def _is_off(document: HookDocument, found: LoadedHooks, own: LoadedHooks) -> bool:
    return any(not each.enabled for each in _deciding(document, found, own))
