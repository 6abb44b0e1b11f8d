"""Loads the effective settings of a directory, for all commands and sessions, and decides if it is
trusted. Nothing in an untrusted workspace is interpreted."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.config.documents import settings_bytes
from alhena.config.home import (
    config_home,
    system_defaults_path,
    system_settings_path,
    user_settings_path,
    workspace_settings_path,
)
from alhena.config.settings import Settings

if TYPE_CHECKING:
    from alhena.config.env_files import FoundEnvFile
    from alhena.config.environment import SecretVariables
    from alhena.config.extensions import Extension
    from alhena.config.layers import Layer, LayerFile, MergedLayers
    from alhena.config.pinned_entries import Acceptance, BoundEntry
from enum import StrEnum

from alhena.config.documents import NotReadableError, read_limited
from alhena.config.home import trusted_folders_path
from alhena.errors import AlhenaError, ConfigError, DamagedError

_FORM = "It is a JSON object of paths, each with TRUST_FOLDER, TRUST_PARENT or DO_NOT_TRUST"


class TrustLevel(StrEnum):
    """The trust levels of trustedFolders.json."""

    TRUST_FOLDER = "TRUST_FOLDER"
    TRUST_PARENT = "TRUST_PARENT"
    DO_NOT_TRUST = "DO_NOT_TRUST"


class FolderTrust(msgspec.Struct, frozen=True):
    """True when a folder is trusted, with the reason in words. `known` is false without a decision.
    `lasting`: the decision was recorded for this folder, not for this run or for all folders."""

    trusted: bool
    reason: str
    known: bool = True
    lasting: bool = False


class UntrustedFolderError(AlhenaError):
    """An unattended run may not act without asking in a folder that is not trusted."""

    exit_code = 55
    kind = "untrusted"
    page = "trust"

    def __init__(self, folder: Path, mode: str, trust: FolderTrust) -> None:
        super().__init__(
            f"approval mode {mode} needs a trusted folder, and {folder} is not trusted "
            f"({trust.reason}).",
            remedy="If you trust it: --skip-trust, GEMINI_CLI_TRUST_WORKSPACE=true, or "
            "`alhena trust`.",
        )


def folder_trust(
    folder: Path, environ: Mapping[str, str], *, enabled: bool = True, skip: bool = False
) -> FolderTrust:
    """Decides if `folder` is trusted. `enabled` is `security.folderTrust.enabled`, `skip` is
    `--skip-trust`.

    The variables come first, then `skip` and the setting, then the list in trustedFolders.json,
    where the longest matching path decides. A folder without a decision is not trusted. Raises
    ConfigError when that list is unusable.
    """
    if environ.get("GEMINI_RESTRICTED_MODE") == "true":
        return FolderTrust(False, "GEMINI_RESTRICTED_MODE is true")
    variable = environ.get("GEMINI_CLI_TRUST_WORKSPACE")
    if variable == "false":
        return FolderTrust(False, "GEMINI_CLI_TRUST_WORKSPACE is false")
    if variable == "true":
        return FolderTrust(True, "GEMINI_CLI_TRUST_WORKSPACE is true")
    if skip:
        return FolderTrust(True, "--skip-trust was given")
    if not enabled:
        return FolderTrust(True, "security.folderTrust.enabled is false")
    return _read_trust(folder, trusted_folders_path(environ))


def _read_trust(folder: Path, file: Path) -> FolderTrust:
    found: tuple[int, bool, str] | None = None
    entries = trust_entries(file)
    place = Path(os.path.realpath(folder))
    # By identity, too: on a case-insensitive file system a folder has several paths.
    above = (*reversed(place.parents), place) if entries else ()
    depths = {_identity(each): len(each.parts) for each in above}
    depths.pop(None, None)
    for path, level in entries:
        named = Path(os.path.realpath(path))
        top = named.parent if level is TrustLevel.TRUST_PARENT else named
        inside = place.is_relative_to(top)
        depth = len(top.parts) if inside else depths.get(_identity(top))
        if depth is not None:
            # At the same depth, distrust wins.
            trusts = level is not TrustLevel.DO_NOT_TRUST
            found = min(filter(None, (found, (-depth, trusts, path))))
    if found is None:
        return FolderTrust(False, f"no decision on {folder} is recorded", known=False)
    _, trusted, path = found
    reason = f"{file} {'trusts' if trusted else 'does not trust'} {path}"
    return FolderTrust(trusted, reason, lasting=True)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def trust_entries(file: Path) -> tuple[tuple[str, TrustLevel], ...]:
    """The entries of a list of trusted folders, in order. Raises ConfigError: DamagedError for an
    invalid file."""
    try:
        data = read_limited(file)
    except FileNotFoundError:
        return ()
    except (NotReadableError, IsADirectoryError) as error:
        raise _damaged_file_error(file, error.strerror or str(error)) from error
    except OSError as error:
        raise ConfigError(
            f"cannot read the trusted folders in {file}: {error.strerror or error}.",
            remedy="Make the file readable.",
        ) from error
    if not data.strip():
        return ()
    from alhena.config.jsonc import strip_comments

    try:
        text = strip_comments(data.decode("utf-8-sig"))
        words = msgspec.json.decode(text.encode("utf-8"), type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged_file_error(file, str(error).replace("`", "")) from error
    try:
        levels = msgspec.convert(words, dict[str, TrustLevel])
    except msgspec.ValidationError as error:  # possibly from another program: ignored
        raise ConfigError(
            f"{file}: the trusted folders cannot be used: {str(error).replace('`', '')}.",
            remedy=f"{_FORM}; correct it.",
            page="trust",
        ) from error
    # Another program may resolve relative paths differently.
    return tuple((path, level) for path, level in levels.items() if os.path.isabs(path))


def _damaged_file_error(file: Path, why: str) -> DamagedError:
    return DamagedError(
        f"{file}: the trusted folders cannot be used: {why}.",
        remedy=f"{_FORM}; correct it, or begin a new one: alhena trust moves the file aside.",
        page="trust",
    )


_MAX_TOLD = 5
"""Maximum blocked entries named in one warning."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The effective settings of a directory. `environ` includes variables of .env files: the
    user's, and the project's for the agent itself. `unread` are files of the directory that are
    ignored because it is not trusted, and `notice` is the message about them; "" for none.
    `pending` are its servers and commands blocked because they differ from the accepted state;
    `acceptance` checks the others before each start, None if nothing can be blocked. `extensions`
    are those in use; `directories` belong to the workspace beside `cwd`; `skip_trust`: the folder
    is trusted for now. `warnings` are for people, `notes` for diagnosis.
    """

    cwd: Path
    settings: Settings
    environ: Mapping[str, str]
    trust: FolderTrust = FolderTrust(False, "it was not asked for", known=False)
    skip_trust: bool = False
    directories: tuple[str, ...] = ()
    layers: "tuple[Layer, ...]" = ()
    env_files: "tuple[FoundEnvFile, ...]" = ()
    unread: tuple[str, ...] = ()
    pending: "tuple[BoundEntry, ...]" = ()
    acceptance: "Acceptance | None" = None
    extensions: "tuple[Extension, ...]" = ()
    notice: str = ""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def told(self) -> tuple[str, ...]:
        """The messages for a person who starts a session here."""
        return (*self.warnings, self.notice) if self.notice else self.warnings

    @property
    def held_servers(self) -> Mapping[str, str]:
        """The blocked MCP servers, each with the reason."""
        if not self.pending:
            return {}
        from alhena.config.pinned_entries import blocked_entry_reason

        return {each.server: blocked_entry_reason(each) for each in self.pending if each.server}

    def name_secrets(self, path: tuple[str, ...], value: Any) -> Any:
        """A value at a path of the settings for display: values of secret variables are replaced by
        their names."""
        return self.secret_variables().name_secrets(path, value)

    def secret_variables(self) -> "SecretVariables":
        """The secret variables of the settings and .env files here."""
        from alhena.config.environment import SecretVariables

        return SecretVariables(
            self.settings.security.environment_variable_redaction,
            self.environ,
            (file.variables for file in self.env_files),
            (layer.written for layer in self.layers),
        )

    @property
    def idle(self) -> tuple[str, ...]:
        """The keys of the reference in the settings files that have no effect here."""
        return tuple(dict.fromkeys(key for layer in self.layers for key in layer.idle))

    @property
    def remarks(self) -> tuple[str, ...]:
        """Warnings on the settings files that no start repeats; `alhena settings check` does."""
        return tuple(each for layer in self.layers for each in layer.remarks)

    @property
    def undecided(self) -> bool:
        """True when the person should decide about trust, because files are ignored until then."""
        return bool(self.unread) and not self.trust.known


def open_place(
    cwd: Path,
    environ: Mapping[str, str],
    *,
    skip_trust: bool = False,
    env_files: bool = True,
    extensions: tuple[str, ...] | None = None,
) -> Place:
    """Loads the settings of a directory from all layers, and its variables (those of .env files
    only with `env_files`). `skip_trust` is `--skip-trust`, `extensions` the only ones to use.

    Raises ConfigError for an unusable file, with its line and the remedy.
    """
    own = _own_files(environ)
    base = _merge_files(own, environ, None)
    settings = Settings() if base is None else base.settings
    enabled = settings.security.folder_trust.enabled

    def trust_of(folder: Path) -> FolderTrust:
        return folder_trust(folder, environ, enabled=enabled, skip=skip_trust)

    trust = trust_of(cwd)
    unread: list[str] = []
    pending: tuple[BoundEntry, ...] = ()
    acceptance: Acceptance | None = None
    project = _projects_env(cwd, environ, settings, trust_of, unread) if env_files else None
    users = _users_env(environ, settings) if env_files else None
    of_user = environ
    if users is not None and users.variables:
        of_user = {**environ, **users.variables}
        base = _merge_files(own, of_user, None)
    variables, texts = _with(of_user, project)
    workspace = _workspace_file(cwd, environ, unread, trusted=trust.trusted)
    restricts = ""
    if workspace is not None and not trust.trusted:
        base, restricts = _with_restrictions(base, own, workspace, of_user)
    elif workspace is not None:
        base = _merge_files((*own, workspace), of_user, texts)
        if base is not None and trust.lasting:
            dotenv = {} if project is None else project.admitted
            acceptance = _acceptance(base, (cwd, environ), texts, dotenv)
            pending = () if acceptance is None else acceptance.pending
            if pending:
                held = frozenset(each.path for each in pending)
                base = _merge_files((*own, workspace), of_user, texts, held)
    if base is not None:
        settings = base.settings
    if not trust.trusted:
        unread += _others(cwd, environ, settings)
    layers = () if base is None else base.layers
    found = tuple(each for each in (project, users) if each is not None)
    warnings = [warning for each in (*layers, *found) for warning in each.warnings]
    place = Place(
        cwd=cwd,
        settings=settings,
        environ=variables,
        trust=trust,
        skip_trust=skip_trust,
        layers=layers,
        env_files=found,
        unread=tuple(dict.fromkeys(unread)),
        pending=pending,
        acceptance=acceptance,
        warnings=(*warnings, *_blocked_entry_warnings(pending)),
        notes=(*_notes_on(layers), *(note for each in found for note in each.notes)),
    )
    place = _with_extensions(place, of_user, extensions)
    return place if not place.unread else _with_trust_notice(place, restricts)


def _notes_on(layers: "Iterable[Layer]") -> Iterator[str]:
    """The lines on settings files that are for diagnosis."""
    for layer in layers:
        yield from layer.notes
    for layer in layers:
        if layer.idle:
            keys = ", ".join(layer.idle)
            yield f"{layer.path}: settings without effect in this version: {keys}."


def _with_restrictions(
    base: "MergedLayers | None",
    own: "tuple[LayerFile, ...]",
    workspace: "LayerFile",
    environ: Mapping[str, str],
) -> "tuple[MergedLayers | None, str]":
    """The settings with what an untrusted workspace's file can only restrict, and words on it; as
    they are where the file cannot be used."""
    from alhena.config.documents import parse_settings
    from alhena.config.reference_keys import rename_old_keys
    from alhena.config.workspace_layer import restricting

    try:
        document = parse_settings(workspace.path, workspace.data)
        if not isinstance(document, dict):
            return base, ""
        kept = restricting(rename_old_keys(cast("dict[str, Any]", document))[0])
        if not kept:
            return base, ""
        part = msgspec.structs.replace(workspace, data=msgspec.json.encode(kept))
        return _merge_files(
            (*own, part), environ, None
        ), " What settings.json only restricts holds."
    except ConfigError as error:
        return base, f" What it restricts is not known: {error.message}"


def _with_extensions(
    place: Place, environ: Mapping[str, str], chosen: tuple[str, ...] | None
) -> Place:
    """Adds the user's extensions. Nothing of them is imported where there are none."""
    if not os.path.isdir(config_home(environ) / "extensions") and not chosen:
        return place
    if not place.settings.experimental.extension_management:
        return place
    from alhena.config.extensions import load_extensions, with_extensions

    allowed = place.settings.security.allowed_extensions
    off = place.settings.extensions.disabled
    found = load_extensions(environ, place.cwd, chosen, allowed, disabled=off)
    return msgspec.structs.replace(
        place,
        extensions=found.used,
        settings=with_extensions(place.settings, found.used),
        warnings=(*place.warnings, *found.problems),
    )


def _with(
    environ: Mapping[str, str], found: "FoundEnvFile | None"
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The environment with variables from a project's .env file: for the agent, and for the texts
    of the workspace's settings."""
    if found is None or not found.variables:
        return environ, environ
    from alhena.config.environment import ProjectEnvironment

    return ProjectEnvironment(environ, found.own), ProjectEnvironment(environ, found.variables)


def _with_trust_notice(place: Place, restricts: str) -> Place:
    """Adds the notice about ignored files; `restricts` are words on restrictions that hold."""
    names = ", ".join(place.unread)
    if place.trust.known:
        note = f"not read in {place.cwd}: {names} ({place.trust.reason}).{restricts}"
        return msgspec.structs.replace(place, notes=(*place.notes, note))
    notice = (
        f"{place.cwd} is not trusted. Not read: {names}.{restricts} "
        "To trust it, run `alhena trust`; to hide this, `alhena trust --never`."
    )
    return msgspec.structs.replace(place, notice=notice)


def _own_files(environ: Mapping[str, str]) -> "tuple[LayerFile, ...]":
    """The existing settings files of the user and the administrator."""
    found = [
        (name, path, data)
        for name, path in (
            ("system defaults", system_defaults_path(environ)),
            ("user", user_settings_path(environ)),
            ("system", system_settings_path(environ)),
        )
        if (data := settings_bytes(path)) is not None
    ]
    if not found:
        return ()
    from alhena.config.layers import LayerFile, LayerKind

    return tuple(
        LayerFile(kind=LayerKind(name), path=path, data=data) for name, path, data in found
    )


def _merge_files(
    files: "tuple[LayerFile, ...]",
    environ: Mapping[str, str],
    workspace_environ: Mapping[str, str] | None,
    held: frozenset[tuple[str, ...]] = frozenset(),
) -> "MergedLayers | None":
    if not files:
        return None
    from alhena.config.layers import merge_layers

    return merge_layers(files, environ, workspace_environ, held)


def _acceptance(
    base: "MergedLayers",
    where: tuple[Path, Mapping[str, str]],
    variables: Mapping[str, str],
    dotenv: Mapping[str, str],
) -> "Acceptance | None":
    """The acceptance state of a workspace's commands and servers; None if it has none."""
    from alhena.config.layers import LayerKind

    layer = next(each for each in base.layers if each.kind is LayerKind.WORKSPACE)
    if not {"mcpServers", "mcp", "tools"} & layer.document.keys():
        return None
    from alhena.config.pinned_entries import Acceptance

    acceptance = Acceptance(layer, where, variables, dotenv)
    return acceptance if acceptance.entries else None


def _blocked_entry_warnings(pending: "tuple[BoundEntry, ...]") -> list[str]:
    """Warnings about blocked entries."""
    if not pending:
        return []
    unknown = pending[0].unknown
    told = [f"{each.label} ({each.why})" for each in pending[:_MAX_TOLD]]
    if unknown:
        told = [each.label for each in pending[:_MAX_TOLD]]
    more = len(pending) - _MAX_TOLD
    rest = f"; and {more} more" if more > 0 else ""
    rest += f"; it cannot be told what was accepted: {unknown}" if unknown else ""
    remedy = "alhena trust --status shows what it is now; alhena trust accepts it."
    doubtful = next((each for entry in pending for each in entry.doubtful), "")
    if doubtful:
        from shlex import quote

        remedy += f" If the server writes {doubtful} itself: alhena trust --data {quote(doubtful)}."
    return [f"held back of this workspace, not started: {'; '.join(told)}{rest}. {remedy}"]


def _workspace_file(
    cwd: Path, environ: Mapping[str, str], unread: list[str], *, trusted: bool
) -> "LayerFile | None":
    path = workspace_settings_path(cwd)
    # In the home directory this is the user's own file, already loaded.
    if not os.path.lexists(path) or _same(path, user_settings_path(environ)):
        return None
    if not trusted:
        unread.append(".gemini/settings.json")
    try:
        data = settings_bytes(path)
    except ConfigError:
        if trusted:
            raise
        return None
    if data is None:
        return None
    from alhena.config.layers import LayerFile, LayerKind

    return LayerFile(kind=LayerKind.WORKSPACE, path=path, data=data)


def _projects_env(
    cwd: Path,
    environ: Mapping[str, str],
    settings: Settings,
    trust_of: Callable[[Path], FolderTrust],
    unread: list[str],
) -> "FoundEnvFile | None":
    """The nearest .env file of a project. The parser is imported only if there is one."""
    home = config_home(environ)
    homes = (home.parent, Path(os.path.realpath(home.parent)))
    for folder in () if settings.advanced.ignore_local_env else (cwd, *cwd.parents):
        if folder in homes:
            break
        for path in (folder / ".gemini" / ".env", folder / ".env"):
            if not os.path.isfile(path):
                continue
            from alhena.config.env_files import is_ours, read_env_file

            trusted = trust_of(folder).trusted and (folder == cwd or is_ours(path))
            if trusted:
                return read_env_file(path, environ, settings.advanced.excluded_env_vars, local=True)
            if folder == cwd:
                unread.append(str(path.relative_to(cwd)))
    return None


def _users_env(environ: Mapping[str, str], settings: Settings) -> "FoundEnvFile | None":
    """The user's .env file."""
    home = config_home(environ)
    for path in (home / ".env", home.parent / ".env"):
        if os.path.isfile(path):
            from alhena.config.env_files import read_env_file

            return read_env_file(path, environ, settings.advanced.excluded_env_vars, local=False)
    return None


def _others(cwd: Path, environ: Mapping[str, str], settings: Settings) -> list[str]:
    """Other files of a directory that would be read if it were trusted."""
    names = settings.context.names_in(cwd)
    found = [name for name in names if os.path.lexists(cwd / name)]
    if not _same(cwd / ".gemini", config_home(environ)):
        names = ("policies", "commands", "agents", "skills")
        folders = (*(f".gemini/{name}" for name in names), ".agents/skills")
        found += [name for name in folders if os.path.lexists(cwd / name)]
    return found


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
