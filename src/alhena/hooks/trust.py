"""Which hooks of a project the user has accepted: by what they are, not by where they stand.

`trusted_hooks.json` maps a project's directory to texts. Those that begin with "sha256:" are
fingerprints; what else is there belongs to other programs, and is kept.
"""

import hashlib
import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import msgspec

from alhena.config.errors import ConfigError
from alhena.config.files import read_limited
from alhena.hooks.model import HookDefinition, HookEvent, HookGroup

_PREFIX = "sha256:"
_MAX_FILES = 32
_MAX_BYTES = 64 << 20


def fingerprint(event: HookEvent, matcher: str, hook: HookDefinition, project: str) -> str:
    """A digest of a hook: when it runs, what it runs with, and the files of the project that its
    command names. It changes when any of them does."""
    parts = (
        event,
        matcher,
        hook.name,
        hook.command,
        hook.timeout_ms,
        hook.on_failure,
        sorted(hook.env.items()),
        [[name, _digest(path)] for name, path in _named_files(hook.command, project)],
    )
    data = msgspec.json.encode(parts)
    return _PREFIX + hashlib.sha256(data).hexdigest()


def _named_files(command: str, project: str) -> list[tuple[str, str]]:
    """The words of a command that are files of the project, with their real paths."""
    root = os.path.realpath(project)
    found: dict[str, str] = {}
    for word in _words(command):
        for name in ("GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR", "GEMINI_CWD"):
            word = word.replace(f"${{{name}}}", root).replace(f"${name}", root)
        if "\0" in word:
            continue
        path = os.path.realpath(os.path.join(root, word))
        if path.startswith(root + os.sep) and os.path.isfile(path):
            found[os.path.relpath(path, root)] = path
    return sorted(found.items())[:_MAX_FILES]


def _words(command: str) -> list[str]:
    """The words of a command but for the files it writes to; those within quotes taken apart,
    too."""
    command = re.sub(r">[>|]?\s*[^\s;|&<>]+", " ", command)
    for mark in ";|&()<>`\n":
        command = command.replace(mark, " ")
    try:
        words = shlex.split(command)
    except ValueError:  # a quote without its other half
        words = command.replace("'", " ").replace('"', " ").split()
    return [*words, *(part for word in words if " " in word for part in word.split())]


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(read_limited(path, _MAX_BYTES)).hexdigest()
    except OSError as error:
        # Then it says the same whatever the file holds, until it can be read again.
        return f"not read: {error.strerror or error}"


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
