"""Trust in a project's hooks: accepted with the files they name, and revoked when one changes.

`trusted_hooks.json` maps a project's directory to texts. Those that begin with "sha256:" are
fingerprints; others belong to other programs and are preserved.

Each word of a command that is a file of the project counts, however it is quoted, as a path from
the project's directory. What those files run is not seen, except in `.gemini/hooks`: that whole
folder counts if the command mentions `.gemini`, or has words that are known only when it runs.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from alhena.config.documents import read_limited
from alhena.errors import ConfigError
from alhena.hooks.model import HookDefinition, HookEvent, HookGroup
from alhena.values import Value

HOOKS_FOLDER = ".gemini/hooks"
MAX_FILES = 512
MAX_BYTES = 64 << 20

_ROOT = "\1"
"""Replaces the project's directory, whose name may contain spaces, during the analysis."""
_ROOT_NAMES = re.compile(
    r"\$(?:\{)?(?:PWD|GEMINI_PROJECT_DIR|CLAUDE_PROJECT_DIR|GEMINI_CWD)\b(?:\})?"
)
_WRITTEN = re.compile(r">[>|]?\s*[^\s;|&<>()$`\"']+")
_BETWEEN_WORDS = re.compile(r"[\s;|&<>()`\"'=,:]+")
_FOLDER = re.compile(r"\.gemini|[$`*?~\[{]")


class PinnedFiles(Value, frozen=True, kw_only=True):
    """`files` maps names within the project to real paths. `folder`: everything in the hooks folder
    is included. `problem` is the reason why such a hook cannot be accepted; "" if it can."""

    files: tuple[tuple[str, str], ...] = ()
    folder: bool = False
    problem: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files."""
        return tuple(name for name, _ in self.files)


def pinned_files(hook: HookDefinition, project: str) -> PinnedFiles:
    """The files of a project that a hook names."""
    root = os.path.realpath(project)
    texts = [_ROOT_NAMES.sub(_ROOT, text) for text in (hook.command, *hook.env.values())]
    found = dict(_referenced_files(root, texts))
    folder = any(map(_FOLDER.search, texts))
    if folder:
        found |= _below(os.path.join(root, HOOKS_FOLDER), root)
    files = tuple(sorted(found.items()))
    return PinnedFiles(files=files, folder=folder, problem=_problem(files))


def _referenced_files(root: str, texts: list[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        text = _WRITTEN.sub(" ", text.replace("\\\n", ""))
        # Quotes join words, or are within one: both readings count.
        joined = re.sub(r"[\\\"']", "", text)
        for word in {*_BETWEEN_WORDS.split(text), *_BETWEEN_WORDS.split(joined), *text.split("'")}:
            if not word or "\0" in word:
                continue
            path = os.path.normpath(os.path.join(root, word.replace(_ROOT, root)))
            real = os.path.realpath(path)
            # The target of a link out of the project can change.
            inside = next((each for each in (real, path) if each.startswith(f"{root}/")), "")
            if inside and os.path.isfile(path):
                yield os.path.relpath(inside, root), real


def _problem(files: tuple[tuple[str, str], ...]) -> str:
    if len(files) > MAX_FILES:
        return f"it runs with more than {MAX_FILES} files of the project"
    size = 0
    for name, path in files:
        try:
            size += os.stat(path).st_size
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
        if not os.access(path, os.R_OK):
            return f"{name} cannot be read"
    if size > MAX_BYTES:
        return f"the files of the project that it runs with have more than {MAX_BYTES >> 20} MiB"
    return ""


def _below(folder: str, root: str) -> dict[str, str]:
    """Everything in a folder of the project, up to one more than the limit."""
    found: dict[str, str] = {}
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(parent, name)
            if os.path.isfile(path):
                found[os.path.relpath(path, root)] = os.path.realpath(path)
                if len(found) > MAX_FILES:
                    return found
    return found


_PREFIX = "sha256:"


def fingerprint(event: HookEvent, matcher: str, hook: HookDefinition, project: str) -> str:
    """A digest of a hook: its matcher, its command, and the files of the project it names. It
    changes when any of them does. "" for a hook that cannot be accepted, because its files cannot
    be determined (`pinned_files` gives the reason)."""
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
    """The content of a file and its location, for a link the target's. Raises OSError."""
    return hashlib.sha256(read_limited(path, MAX_BYTES)).hexdigest()


def with_fingerprints(groups: Iterable[HookGroup], project: str) -> tuple[HookGroup, ...]:
    """`groups` with the fingerprint in each hook."""
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
    """The accepted fingerprints of a project. Raises ConfigError for an unusable file."""
    entries = read_trusted(path).get(os.path.realpath(project), ())
    return frozenset(entry for entry in entries if entry.startswith(_PREFIX))


def read_trusted(path: Path) -> dict[str, list[str]]:
    """The whole file; empty if missing. Raises ConfigError."""
    try:
        data = read_limited(path)
        return msgspec.json.decode(data, type=dict[str, list[str]]) if data.strip() else {}
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{path}: the trusted hooks cannot be used: {str(error).replace('`', '')}.",
            remedy="It is a JSON object of directories, each with an array of texts; move it away "
            "to begin again.",
            page="hooks",
        ) from error


def trust(path: Path, project: str, accepted: Iterable[str]) -> None:
    """Adds fingerprints to those of a project. Fingerprints without a current hook are removed.
    Raises ConfigError when the file cannot be read or written."""
    from alhena.system.private_files import change_file

    root = os.path.realpath(project)

    def replace_entries(_data: bytes) -> bytes:
        entries = read_trusted(path)
        others = [entry for entry in entries.get(root, ()) if not entry.startswith(_PREFIX)]
        entries[root] = [*others, *sorted(set(accepted))]
        return msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n"

    change_file(path, replace_entries, "the hooks were not trusted")
