"""Trust in a project's hooks: accepted with the files they run, and revoked when one changes.

`trusted_hooks.json` maps a project's directory to texts. Those that begin with "sha256:" are
fingerprints; others belong to other programs and are preserved.

A command is analysed generously: everything that might name a file counts as a name, however it is
quoted. Values unknown before it runs (a variable from elsewhere, the output of another command) may
be anything, so that all of `.gemini/hooks` is included.
"""

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice, product
from pathlib import Path

import msgspec

from alhena.config.documents import read_limited
from alhena.config.errors import ConfigError
from alhena.hooks.model import HookDefinition, HookEvent, HookGroup
from alhena.values import Value

HOOKS_FOLDER = ".gemini/hooks"
MAX_FILES = 512
MAX_BYTES = 64 << 20

_ROOT = "\1"
"""Replaces the project's directory, whose name may contain spaces, during the analysis."""

_ROOT_NAMES = ("PWD", "GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR", "GEMINI_CWD")
_MAX_DEPTH = 6
_MAX_WORDS = 4096
_MAX_PLACES = 64
_ANYTHING = "*"
_MODULES = (".py", "/__main__.py", ".js", ".mjs", ".cjs", "/index.js")
"""Possible files of a module name."""

_VARIABLE = re.compile(r"\$\{(\w+)(:?[-=+])?([^{}]*)\}|\$([A-Za-z_]\w*)|\$\d|\$[@*#?!$-]|\$|`")
_ASSIGNED = re.compile(r"(?<![\w$])([A-Za-z_]\w*)\+?=(\"[^\"]*\"|'[^']*'|[^\s;|&<>()\"'`]*)")
_LOOP = re.compile(r"\bfor\s+([A-Za-z_]\w*)\s+in\s+([^;\n]*)")
_CASE = re.compile(r"(\bin\b|;;&?|;&)\s*\(?[^();\n]*?\)")
_COMPARED = re.compile(r"(==|!=|=~)\s*[^\s;|&()]+")
_WRITTEN = re.compile(r">[>|]?\s*[^\s;|&<>()$`\"']+")
_BRACES = re.compile(r"\{([^{}\s]*,[^{}\s]*)\}")
_WILD = re.compile(r"[*?\[]")


class PinnedFiles(Value, frozen=True, kw_only=True):
    """`files` maps names within the project to real paths. `folder`: everything in the hooks folder
    is included, because the command cannot be fully analysed. `problem` is the reason why such a
    hook cannot be accepted; "" if it can."""

    files: tuple[tuple[str, str], ...] = ()
    folder: bool = False
    problem: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files."""
        return tuple(name for name, _ in self.files)


def pinned_files(hook: HookDefinition, project: str) -> PinnedFiles:
    """The files of a project that a hook uses."""
    root = os.path.realpath(project)
    reading = _Reading(hook)
    places = _Places(root, reading.words)
    found = places.named()
    folder = reading.unknown or places.unknown
    if folder:
        found |= _below(os.path.join(root, HOOKS_FOLDER), root)
    files = tuple(sorted(found.items()))
    return PinnedFiles(files=files, folder=folder, problem=_problem(files, reading))


def _problem(files: tuple[tuple[str, str], ...], reading: "_Reading") -> str:
    if reading.too_long:
        return "its command has more words than can be looked at"
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


class _Reading:
    """The possible words of a command and its variables. `unknown`: some words are unknown."""

    def __init__(self, hook: HookDefinition) -> None:
        self.words: dict[str, None] = {}
        self.unknown = False
        self.too_long = False
        command = hook.command.replace("\\\n", "")
        self._values: dict[str, set[str]] = {name: {_ROOT} for name in _ROOT_NAMES}
        for name, value in hook.env.items():
            self._values.setdefault(name, set()).add(value)
        bare = command.replace("\\", "")
        for text in (command, bare, bare.replace('"', "").replace("'", "")):
            for name, value in _ASSIGNED.findall(text):
                self._values.setdefault(name, set()).add(value.strip("\"'"))
            for name, listed in _LOOP.findall(text):
                self._values.setdefault(name, set()).update(listed.split())
        for text in (command, *hook.env.values()):
            self._take(_code(text), 0)

    def _take(self, text: str, depth: int) -> None:
        for word in _split(text):
            for expanded in self._expanded(word):
                if expanded in self.words:
                    continue
                if len(self.words) >= _MAX_WORDS:
                    self.too_long = True
                    return
                self.words[expanded] = None
                if expanded != text and re.search(r"[\s\"'\\;|&<>(){}$]", expanded):
                    if depth < _MAX_DEPTH:
                        self._take(expanded, depth + 1)
                    else:
                        self.unknown = True

    def _expanded(self, word: str) -> Iterator[str]:
        """The possible values of a word."""
        if word.startswith("~"):
            self.unknown = True
        pieces: list[list[str]] = []
        position = 0
        for found in _VARIABLE.finditer(word):
            pieces += [[word[position : found.start()]], self._meant(found)]
            position = found.end()
        pieces.append([word[position:]])
        for count, chosen in enumerate(product(*pieces)):
            if count >= _MAX_PLACES:
                self.too_long = True
                return
            yield from _alternatives("".join(chosen), self)

    def _meant(self, found: "re.Match[str]") -> list[str]:
        """The possible values of a variable."""
        braced, operator, rest, plain = found.groups()
        values = set(self._values.get(braced or plain or "", ()))
        if operator:
            values.add(rest)
        elif rest:  # part of its value, or derived from it
            values.clear()
        if not values:
            self.unknown = True
        return sorted(values) or [_ANYTHING]


def _alternatives(word: str, reading: _Reading) -> Iterator[str]:
    """Expands the braces of a word."""
    found = _BRACES.search(word)
    if found is None:
        if ".." in word and re.search(r"\{\w+\.\.\w+", word):
            reading.unknown = True
        yield word
        return
    for item in found.group(1).split(","):
        yield from _alternatives(word[: found.start()] + item + word[found.end() :], reading)


def _code(text: str) -> str:
    """A command without redirection targets and comparisons."""
    text = _LOOP.sub(lambda found: f" {found.group(2)} ", text)
    for pattern in (_CASE, _COMPARED, _WRITTEN):
        text = pattern.sub(" ", text)
    return text


def _split(text: str) -> Iterator[str]:
    """Splits a text into words in three ways: with shell quotes, without quotes, and with each
    quote as a space."""
    for mark in ";|&()<>`\n":
        text = text.replace(mark, " ` " if mark == "`" else " ")
    with suppress(ValueError):  # an unclosed quote
        yield from shlex.split(text)
    bare = text.replace("\\", "")
    yield from bare.replace('"', "").replace("'", "").split()
    yield from bare.replace('"', " ").replace("'", " ").split()


class _Places:
    """The paths in a project that words may name: relative to its directory and to named
    directories. `unknown`: a limit was exceeded."""

    def __init__(self, root: str, words: Iterable[str]) -> None:
        self._root = root
        self._words = list(dict.fromkeys(each for word in words for each in _names_in(word, root)))
        self._bases = [root]
        self.unknown = False
        for base in self._bases:  # grows during iteration: `cd a && cd b`
            for word in self._words:
                path = os.path.join(base, word)
                if os.path.isdir(path):
                    self._go(os.path.realpath(path))

    def _go(self, folder: str) -> None:
        if folder in self._bases or not self._inside(folder):
            return
        if len(self._bases) < _MAX_PLACES:
            self._bases.append(folder)
        else:
            self.unknown = True

    def named(self) -> dict[str, str]:
        """The named files, and those in named directories of `.gemini`."""
        found: dict[str, str] = {}
        for base in self._bases:
            for word in self._words:
                for path in self._matching(base, word):
                    self._add(path, found)
        for base in self._bases[1:]:
            if f"{base}/".startswith(f"{self._root}/.gemini/"):
                found |= _below(base, self._root)
        return found

    def _matching(self, base: str, word: str) -> Iterator[str]:
        yield os.path.join(base, word)
        if not _WILD.search(word) or not re.search(r"\w", word):
            return
        # In the project root a hook usually processes `*.py` rather than running it.
        if base == self._root and "/" not in word.removeprefix("./"):
            self.unknown = True
            return
        import glob

        found = glob.iglob(word, root_dir=base, recursive=True)
        yield from (os.path.join(base, each) for each in islice(found, MAX_FILES + 1))

    def _add(self, path: str, found: dict[str, str]) -> None:
        if not os.path.isfile(path):
            return
        place, real = os.path.normpath(path), os.path.realpath(path)
        # The target of a link out of the project can change.
        name = real if self._inside(real) else place if self._inside(place) else ""
        if name:
            found[os.path.relpath(name, self._root)] = real

    def _inside(self, path: str) -> bool:
        return path.startswith(f"{self._root}/")


def _names_in(word: str, root: str) -> Iterator[str]:
    """The possible paths in a word: the whole, the parts after an option or its `=`, the items of a
    list, a path that is only absolute because of an unknown prefix, and the files of a module."""
    if "\0" in word:
        return
    pieces = [word, *re.split(r"[=:,@]", word)]
    if word.startswith("-"):
        pieces.append(word[2:])
    for piece in dict.fromkeys(pieces):
        path = piece.replace(_ROOT, root).removeprefix(f"{root}/")
        if path in ("", ".", "..", root):
            continue
        yield path
        if path.startswith("/"):
            path = path.lstrip("/")
            yield path
        if re.fullmatch(r"[\w./-]+", path) and not path.startswith("-"):
            yield from (path + end for end in _MODULES)
            if re.fullmatch(r"\w+(\.\w+)+", path):
                yield from (path.replace(".", "/") + end for end in _MODULES[:2])


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
    except OSError as error:
        raise ConfigError(
            f"cannot read the trusted hooks in {path}: {error.strerror or error}.",
            remedy="Put a readable file there, or move it away.",
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{path}: the trusted hooks cannot be used: {str(error).replace('`', '')}.",
            remedy="It is a JSON object of directories, each with an array of texts; move it away "
            "to begin again.",
        ) from error


def trust(path: Path, project: str, accepted: Iterable[str]) -> None:
    """Adds fingerprints to those of a project. Fingerprints without a current hook are removed.
    Raises ConfigError when the file cannot be read or written."""
    from alhena.system.private_files import change_file

    root = os.path.realpath(project)

    def changed(_data: bytes) -> bytes:
        entries = read_trusted(path)
        others = [entry for entry in entries.get(root, ()) if not entry.startswith(_PREFIX)]
        entries[root] = [*others, *sorted(set(accepted))]
        return msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n"

    change_file(path, changed, "the hooks were not trusted")
