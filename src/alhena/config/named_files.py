"""Which files a command of a workspace names, as far as its words tell, and what is in them.

What a program reads by itself (modules that it imports, scripts of a package) is not among them.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from alhena.config.files import NotReadableError, read_limited

MAX_FILES = 256
MAX_FILE = 64 << 20
"""Files of a command, and bytes of one, that are read; others are known by size and time."""
MAX_LOOKUPS = 100_000
MAX_PLACES = 64
_MAX_STEPS = 3
"""Steps of paths that are looked at; directories that names may be meant from, and of these how
many one after the other."""
_MODULES = ("", ".py", "/__main__.py", ".js", ".mjs", ".cjs", "/index.js")
"""What the name of a module stands for."""
_BETWEEN = re.compile(r"[\s\"'=;|&<>()`,:]+")
_GLUED = re.compile(r"-[^-]|-+[\w-]*(?=[./])|@")
"""What of a word comes before a path without anything between."""


class TooManyWordsError(Exception):
    """A command has more words than can be looked at."""


class _Word(NamedTuple):
    """A word of a command. `command`: it is what is started; `given`: not by a variable."""

    text: str
    command: bool = False
    given: bool = True


def named_files(entry: Any, folder: Path) -> dict[str, str]:
    """The files that a command line, or the entry of a server, names by how they lie to a folder,
    or within it, but for its own data; each with a digest of its content. Raises
    TooManyWordsError."""
    root = os.path.realpath(folder)
    cwd, words = _words(entry)
    if not words:
        return {}
    search = _Search(root)
    search.places(cwd, words)
    search.files(words)
    made: dict[str, str] = {}
    for count, (path, real) in enumerate(sorted(search.found.items())):
        name = printable_path(path)
        digest = _digest(real, MAX_FILE if count < MAX_FILES else 0)
        # Names of odd bytes may look the same.
        made[name] = f"{made[name]} {digest}" if name in made else digest
    return made


def printable_path(path: str) -> str:
    """A path as a text that can be written down, whatever bytes are in it."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _words(entry: Any) -> tuple[str, list[_Word]]:
    """Where a command is started, and the words that it is given."""
    if isinstance(entry, str):
        first = entry.split(maxsplit=1)[:1]
        return "", _texts([*(_Word(text, command=True) for text in first), _Word(entry)])
    if not isinstance(entry, dict):
        return "", []
    members = cast("dict[str, Any]", entry)
    if members.get("httpUrl") or members.get("url"):
        return "", []
    command, cwd, env = members.get("command"), members.get("cwd"), members.get("env")
    arguments: object = members.get("args")
    words: list[_Word] = []
    if isinstance(command, str):
        words.append(_Word(command, command=True))
    if isinstance(arguments, list):
        words += (_Word(each) for each in cast("list[Any]", arguments) if isinstance(each, str))
    if isinstance(env, dict):
        table = cast("dict[str, Any]", env)
        words += (_Word(each, given=False) for each in table.values() if isinstance(each, str))
        places = table.get("PATH")
        if isinstance(places, str) and isinstance(command, str):
            words += (
                _Word(f"{place}/{command}", command=True) for place in places.split(os.pathsep)
            )
    return cwd if isinstance(cwd, str) and "\0" not in cwd else "", _texts(words)


def _texts(words: list[_Word]) -> list[_Word]:
    return [word for word in words if word.text and "\0" not in word.text]


def _pieces(word: str) -> Iterator[str]:
    """What of a word may name a file or a directory: a shell may read it, an option may end in it
    or be glued to it."""
    seen: set[str] = set()
    for piece in (word, *_BETWEEN.split(word)):
        glued = _GLUED.match(piece)
        for each in (piece, piece[glued.end() :] if glued else ""):
            if each and len(each) <= 4096 and each not in seen:
                seen.add(each)
                yield each


def _ends(piece: str) -> Iterator[str]:
    """The files that a piece may stand for."""
    if not piece.strip("./"):
        return
    for end in _MODULES:
        yield piece + end
    if re.fullmatch(r"\w+(\.\w+)+", piece):
        yield from (piece.replace(".", "/") + end for end in _MODULES[1:3])


def _meant(base: str, piece: str) -> tuple[str, ...]:
    """Which paths a name may mean: the kernel goes through links before it goes up, a shell's `cd`
    and some programs do not."""
    path = os.path.join(base, piece)
    return tuple(dict.fromkeys((path, os.path.normpath(path)))) if ".." in piece else (path,)


class _Search:
    """The search for what words name. `found` has the files by their path from `root`."""

    def __init__(self, root: str) -> None:
        from alhena.config.watched import Watching

        self.found: dict[str, str] = {}
        self._root = root
        self._bases: dict[str, None] = {}
        self._seen: set[tuple[str, bool]] = set()
        self._left = MAX_LOOKUPS
        self._watching = Watching()

    def places(self, cwd: str, words: list[_Word]) -> None:
        """Takes note of the directories that names may be meant from: where the command starts,
        and each that it names. Files are looked for in them that programs look for."""
        edge = self._with_base(self._root)
        for path in _meant(self._root, cwd) if cwd else ():
            if os.path.isdir(path):
                edge += self._with_base(path)
                if os.path.realpath(path) != self._root:
                    self._entries(path, cwd)
        pieces = {piece: word.given for word in reversed(words) for piece in _pieces(word.text)}
        for _ in range(_MAX_STEPS):
            reached: list[str] = []
            for base in edge:
                for piece, given in pieces.items():
                    reached += self._directory(base, piece, given=given)
            edge = reached

    def files(self, words: list[_Word]) -> None:
        """Takes note of the files that words name."""
        for word in words:
            for piece in _pieces(word.text):
                for end in _ends(piece):
                    for base in self._bases:
                        for path in _meant(base, end):
                            self._add(path, end, command=word.command)

    def _directory(self, base: str, piece: str, *, given: bool) -> list[str]:
        reached: list[str] = []
        for path in _meant(base, piece):
            self._look(piece)
            if os.path.isdir(path) and self._name(path, piece) is not None:
                reached += self._with_base(path)
                if given:
                    self._entries(path, piece)
        return reached

    def _with_base(self, path: str) -> list[str]:
        """The directories that are new with this one: as it is named, and as it is."""
        made: list[str] = []
        for each in (os.path.realpath(path), os.path.normpath(path)):
            if each not in self._bases and os.path.isdir(each):
                self._bases[each] = None
                made.append(each)
        if len(self._bases) > MAX_PLACES:
            raise TooManyWordsError
        return made

    def _entries(self, directory: str, piece: str) -> None:
        from alhena.config.watched import ENTRY_FILES

        for name in ENTRY_FILES:
            self._add(os.path.join(directory, name), piece, command=False)

    def _add(self, path: str, piece: str, *, command: bool) -> None:
        self._look(piece)
        if (path, command) in self._seen or not os.path.isfile(path):
            return
        self._seen.add((path, command))
        name = self._name(path, piece)
        if name is None or name in self.found:
            return
        real = os.path.realpath(path)
        if command or self._watching.watches(_lies(path), real):
            self.found[name] = real

    def _name(self, path: str, piece: str) -> str | None:
        """How what is named lies to the folder. What is elsewhere by its whole path is the
        user's."""
        real = os.path.realpath(path)
        within = f"{self._root.rstrip('/')}/"
        # A link of the folder's can be made to lead elsewhere.
        for each in (real, _lies(path)):
            if each == self._root or each.startswith(within):
                return os.path.relpath(each, self._root)
        if os.path.isabs(piece) and not path.startswith(within):
            return None
        return os.path.relpath(real if ".." in path else path, self._root)

    def _look(self, piece: str) -> None:
        self._left -= 1 + piece.count("/")
        if self._left < 0:
            raise TooManyWordsError


def _lies(path: str) -> str:
    """Where a name is itself, whatever it leads to."""
    directory, name = os.path.split(path)
    return os.path.join(os.path.realpath(directory), name)


def _digest(path: str, limit: int) -> str:
    from hashlib import sha256

    try:
        return sha256(read_limited(path, limit)).hexdigest()
    except NotReadableError:
        return _size(path)
    except OSError as error:
        return f"unreadable ({error.strerror})"


def _size(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError as error:
        return f"unreadable ({error.strerror})"
    return f"{found.st_size} bytes of {found.st_mtime_ns}"
