"""Decides if a folder is trusted. Nothing in an untrusted workspace is interpreted."""

import os
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from alhena.config.documents import NotReadableError, read_limited
from alhena.config.home import trusted_folders_path
from alhena.errors import ConfigError, DamagedError


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
    return _listed(folder, trusted_folders_path(environ))


def _listed(folder: Path, file: Path) -> FolderTrust:
    found: tuple[int, bool, str] | None = None
    entries = trust_entries(file)
    above = _Above(folder if entries else Path("/"))
    for path, level in entries:
        named = Path(os.path.realpath(path))
        top = named.parent if level is TrustLevel.TRUST_PARENT else named
        depth = above.depth(top)
        if depth is not None:
            # At the same depth, distrust wins.
            trusts = level is not TrustLevel.DO_NOT_TRUST
            found = min(filter(None, (found, (-depth, trusts, path))))
    if found is None:
        return FolderTrust(False, f"no decision on {folder} is recorded", known=False)
    _, trusted, path = found
    reason = f"{file} {'trusts' if trusted else 'does not trust'} {path}"
    return FolderTrust(trusted, reason, lasting=True)


class _Above:
    """A folder and its parents, by path and by identity: on a case-insensitive file system a folder
    has several paths."""

    def __init__(self, folder: Path) -> None:
        self._place = Path(os.path.realpath(folder))
        self._depths: dict[tuple[int, int], int] = {}
        for each in (self._place, *self._place.parents):
            identity = _identity(each)
            if identity is not None:
                self._depths.setdefault(identity, len(each.parts))

    def depth(self, top: Path) -> int | None:
        """The depth of `top`, a real path, if it contains the folder; None otherwise."""
        if self._place.is_relative_to(top):
            return len(top.parts)
        identity = _identity(top)
        return None if identity is None else self._depths.get(identity)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def trust_entries(file: Path) -> tuple[tuple[str, TrustLevel], ...]:
    """The entries of a list of trusted folders, in order. Raises ConfigError: DamagedError for an
    invalid file."""
    return tuple(_entries(file))


def _entries(file: Path) -> Iterator[tuple[str, TrustLevel]]:
    try:
        data = read_limited(file)
    except FileNotFoundError:
        return
    except (NotReadableError, IsADirectoryError) as error:
        raise _damaged(file, error.strerror or str(error)) from error
    except OSError as error:
        raise ConfigError(
            f"cannot read the trusted folders in {file}: {error.strerror or error}.",
            remedy="Make the file readable.",
        ) from error
    if not data.strip():
        return
    from alhena.config.jsonc import strip_comments

    try:
        text = strip_comments(data.decode("utf-8-sig"))
        words = msgspec.json.decode(text.encode("utf-8"), type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(file, str(error).replace("`", "")) from error
    try:
        levels = msgspec.convert(words, dict[str, TrustLevel])
    except msgspec.ValidationError as error:  # possibly from another program: ignored
        raise ConfigError(
            f"{file}: the trusted folders cannot be used: {str(error).replace('`', '')}.",
            remedy="It is a JSON object of absolute paths, each with TRUST_FOLDER, TRUST_PARENT or "
            "DO_NOT_TRUST; correct it.",
        ) from error
    for path, level in levels.items():
        if os.path.isabs(path):  # another program may resolve relative paths differently
            yield path, level


def _damaged(file: Path, why: str) -> DamagedError:
    return DamagedError(
        f"{file}: the trusted folders cannot be used: {why}.",
        remedy="It is a JSON object of absolute paths, each with TRUST_FOLDER, TRUST_PARENT or "
        "DO_NOT_TRUST; correct it, or begin a new one: alhena trust moves the file aside.",
    )
