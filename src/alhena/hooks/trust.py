"""Which hooks of a project the user has accepted: by what they are, not by where they stand.

`trusted_hooks.json` maps a project's directory to texts. Those that begin with "sha256:" are
fingerprints; what else is there belongs to other programs, and is kept.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from alhena.config.errors import ConfigError
from alhena.config.files import read_limited
from alhena.hooks.model import HookDefinition, HookEvent, HookGroup
from alhena.hooks.pinned import MAX_BYTES, pinned_files

_PREFIX = "sha256:"


def fingerprint(event: HookEvent, matcher: str, hook: HookDefinition, project: str) -> str:
    """A digest of a hook: when it runs, what it runs with, and the files of the project that it
    names. It changes when any of them does. "" for one that cannot be accepted, for its files
    cannot be held on to (`pinned_files` says why)."""
    pinned = pinned_files(hook, project)
    if pinned.problem:
        return ""
    try:
        files = [[name, path, _digest(path)] for name, path in pinned.files]
    except OSError:
        return ""
    root = os.path.realpath(project)
    parts = (
        event,
        matcher,
        hook.name,
        hook.command,
        hook.timeout_ms,
        hook.on_failure,
        sorted(hook.env.items()),
        pinned.folder,
        [[name, os.path.relpath(path, root), digest] for name, path, digest in files],
    )
    data = msgspec.json.encode(parts)
    return _PREFIX + hashlib.sha256(data).hexdigest()


def _digest(path: str) -> str:
    """The content of a file, and where it is: of a link, where it leads. Raises OSError."""
    return hashlib.sha256(read_limited(path, MAX_BYTES)).hexdigest()


def with_fingerprints(groups: Iterable[HookGroup], project: str) -> tuple[HookGroup, ...]:
    """`groups` with the fingerprint in each of their hooks."""
    return tuple(
        msgspec.structs.replace(
            group,
            hooks=tuple(
                msgspec.structs.replace(
                    hook, fingerprint=fingerprint(group.event, group.matcher, hook, project)
                )
                for hook in group.hooks
            ),
        )
        for group in groups
    )


def trusted_fingerprints(path: Path, project: str) -> frozenset[str]:
    """What the user has accepted of a project. Raises ConfigError when the file cannot be used."""
    entries = read_trusted(path).get(os.path.realpath(project), ())
    return frozenset(entry for entry in entries if entry.startswith(_PREFIX))


def read_trusted(path: Path) -> dict[str, list[str]]:
    """All of the file; nothing when it is not there. Raises ConfigError."""
    try:
        data = read_limited(path)
        return msgspec.json.decode(data, type=dict[str, list[str]]) if data.strip() else {}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(
            f"cannot read the trusted hooks in {path}: {error.strerror or error}.",
            remedy="Put a readable file there, or move it away.",
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{path}: the trusted hooks cannot be used: {str(error).replace('`', '')}.",
            remedy="It is a JSON object of directories, each with an array of texts; move it away "
            "to begin anew.",
        ) from error


def trust(path: Path, project: str, accepted: Iterable[str]) -> None:
    """Adds fingerprints to those of a project. What the project has no hooks for any more is
    forgotten. Raises ConfigError when the file cannot be read or written."""
    from alhena.hooks.user_files import change_file

    root = os.path.realpath(project)

    def changed(_data: bytes) -> bytes:
        entries = read_trusted(path)
        others = [entry for entry in entries.get(root, ()) if not entry.startswith(_PREFIX)]
        entries[root] = [*others, *sorted(set(accepted))]
        return msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n"

    change_file(path, changed, "the hooks were not trusted")
