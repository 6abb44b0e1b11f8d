"""Which files a command of a workspace names, as far as its words tell, and what is in them.

What a program reads by itself (modules that it imports, scripts of a package) is not among them,
but for what runners look for in their directory.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.config.command_words import pieces
from alhena.config.documents import NotReadableError, read_limited
from alhena.config.entry_words import EntryWord, entry_words
from alhena.config.programs import ENTRY_FILES, PYTHON
from alhena.config.runners import sought

MAX_FILES = 256
MAX_FILE = 64 << 20
"""Files of a command, and bytes of one, that are read; others are known by size and time."""
MAX_READ = 256 << 20
MAX_LOOKUPS = 100_000
MAX_ENTRY_LOOKUPS = 50_000
"""Bytes that are read for all entries of a folder together; steps of paths that are looked at, for
all of them and for one."""
MAX_PLACES = 64
_MAX_OUTSIDE = 3
"""Directories that names may be meant from; how many one after the other where they are not in
the folder."""
_MODULES = ("", ".py", ".js", ".mjs", ".cjs")
_DIRECTORIES = ("/__main__.py", "/index.js", "/index.mjs", "/index.cjs")
"""What the name of a module stands for, and one that is a directory."""
_TOO_MANY = "it has more words than can be looked at"
_FOUND = 24
"""As how many steps a file counts that is there."""
_ENTRY = 40
"""The same of an entry, whatever it has."""
_MAX_PACKAGE = 1 << 20
_MAX_NAMES = 10_000
_UP = frozenset({"", ".", ".."})


class TooManyWordsError(Exception):
    """A command cannot be looked at; the text says why, as in "it cannot be accepted, for …"."""


class _Package(msgspec.Struct):
    name: object = None
    bin: object = None


class NamedFiles(dict[str, str]):
    """Files by how they lie to a folder, each with a digest of its content. `loose` are those of
    them that may be a program's own data: nothing but a person can tell."""

    loose: frozenset[str] = frozenset()


class Looks:
    """What is looked at for all entries of a folder together: there is an end to it, however many
    these are. `indexes` are those of repositories."""

    def __init__(self) -> None:
        from alhena.config.watched import Indexes

        self.indexes = Indexes()
        self._left = MAX_LOOKUPS
        self._unread = MAX_READ
        self._digests: dict[tuple[str, int], str] = {}

    def charge(self, count: int) -> None:
        """Takes note of so many steps. Raises TooManyWordsError."""
        self._left -= count
        if self._left < 0:
            raise TooManyWordsError("the entries have more words than can be looked at")

    def digest(self, path: str, limit: int) -> str:
        """The digest of a file; of one of more bytes than `limit` its size and time. Raises
        TooManyWordsError."""
        from hashlib import sha256

        if (path, limit) in self._digests:
            return self._digests[path, limit]
        try:
            data = read_limited(path, limit)
        except NotReadableError:
            made = _size(path)
        except OSError as error:
            made = f"unreadable ({error.strerror})"
        else:
            self._unread -= len(data)
            if self._unread < 0:
                raise TooManyWordsError("the files that the entries name are too large altogether")
            made = sha256(data).hexdigest()
        self._digests[path, limit] = made
        return made


def named_files(
    entry: Any, folder: Path, *, looks: Looks | None = None, path: str = ""
) -> NamedFiles:
    """The files that a command line, or the entry of a server, names by how they lie to a folder,
    or within it, but for its own data; each with a digest of its content. `looks` are shared by
    the entries of a folder; `path` is where programs are found (PATH) where the entry does not say.
    Raises TooManyWordsError."""
    looks = looks or Looks()
    looks.charge(_ENTRY)
    root = os.path.realpath(folder)
    named = entry_words(entry, path)
    made = NamedFiles()
    if not named.words:
        return made
    search = _Search(root, looks)
    search.places(named.cwd, named.words)
    places = named.path.split(os.pathsep) if named.path else []
    search.files(named.words, [place or "." for place in places])
    search.sought(named.cwd, named.commands)
    for count, (file, real) in enumerate(sorted(search.found.items())):
        name = printable_path(file)
        digest = looks.digest(real, MAX_FILE if count < MAX_FILES else 0)
        # Names of odd bytes may look the same.
        made[name] = f"{made[name]} {digest}" if name in made else digest
    strict = {printable_path(file) for file in search.found if file not in search.loose}
    made.loose = frozenset(printable_path(file) for file in search.loose) - strict
    return made


def printable_path(path: str) -> str:
    """A path as a text that can be written down, whatever bytes are in it."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _ends(piece: str, word: EntryWord) -> Iterator[str]:
    """The files that a piece of a word may stand for."""
    if not piece.strip("./"):
        return
    for end in (*_MODULES, *(_DIRECTORIES if word.chooses else ())):
        yield piece + end
    if re.fullmatch(r"\w+(\.\w+)+", piece):
        module = piece.replace(".", "/")
        yield from (module + _MODULES[1], *(f"{module}/{name}" for name in PYTHON))


def _meant(base: str, piece: str) -> tuple[str, ...]:
    """Which paths a name may mean: the kernel goes through links before it goes up, a shell's `cd`
    and some programs do not."""
    path = os.path.join(base, piece)
    return tuple(dict.fromkeys((path, os.path.normpath(path)))) if ".." in piece else (path,)


class _Search:
    """The search for what words name. `found` has the files by their path from `root`, `loose` the
    paths of those that may be a program's own data."""

    def __init__(self, root: str, looks: Looks) -> None:
        from alhena.config.watched import Watching

        self.found: dict[str, str] = {}
        self.loose: set[str] = set()
        self._root = root
        self._bases: dict[str, bool] = {}
        self._seen: set[tuple[str, bool, bool]] = set()
        self._known: dict[str, list[str]] = {}
        self._names: dict[str, frozenset[str] | None] = {}
        self._left = MAX_ENTRY_LOOKUPS
        self._looks = looks
        self._watching = Watching(looks.indexes, self._charge)

    def places(self, cwd: str, words: list[EntryWord]) -> None:
        """Takes note of the directories that names may be meant from: where the command starts,
        and each that it names."""
        edge = self._with_base(self._root, given=True)
        for path in _meant(self._root, cwd) if cwd else ():
            edge += self._with_base(path, given=True) if os.path.isdir(path) else []
        named = {piece: word.given for word in reversed(words) for piece in self._pieces(word.text)}
        steps = 0
        while edge:
            steps += 1
            reached: list[str] = []
            for base in edge:
                for piece, given in named.items():
                    reached += self._directory(base, piece, given=given and self._bases[base])
            edge = [each for each in reached if steps < _MAX_OUTSIDE or self._holds(each)]

    def files(self, words: list[EntryWord], path: list[str]) -> None:
        """Takes note of the files that words name; `path` are the directories of programs."""
        inside = [each for each in path if not os.path.isabs(each) or self._holds(each)]
        for word in words:
            for piece in self._pieces(word.text):
                ends = [(end, end.partition("/")[0]) for end in _ends(piece, word)]
                cost = len(ends) * (1 + piece.count("/"))
                for base in self._bases:
                    self._charge(cost)
                    for end, first in ends:
                        if self._may_have(base, first):
                            for each in _meant(base, end):
                                self._add(each, end, command=word.command, state=word.state)
                if word.given and "/" not in piece and not piece.startswith("-"):
                    for place in path if word.command else inside:
                        self._program(place, piece, command=word.command)

    def sought(self, cwd: str, commands: list[list[str]]) -> None:
        """Takes note of what programs look for without being told."""
        found = sought(commands, self._charge)
        self.files([EntryWord(word) for word in found.words if "\0" not in word], [])
        directories = list(found.directories)
        if cwd and found.unknown:
            directories.append((cwd, ENTRY_FILES))
        for directory in self._starts() if found.here else ():
            self._charge(len(found.here))
            for name in found.here:
                self._add(os.path.join(directory, name), name, command=True)
            package = os.path.join(directory, "package.json")
            if found.bins and self._may_have_bin(package, found.bins):
                self._add(package, "package.json", command=True)
        for word, files in directories:
            if "\0" in word:
                continue
            known = files is not ENTRY_FILES
            for piece in (word,) if known else self._pieces(word):
                for base in tuple(self._bases):
                    self._entries(base, piece, files)

    def _pieces(self, word: str) -> list[str]:
        if word not in self._known:
            self._known[word] = list(pieces(word, self._charge))
        return self._known[word]

    def _program(self, place: str, name: str, *, command: bool) -> None:
        for base in (self._root,) if os.path.isabs(place) else tuple(self._bases):
            file = name if place == "." else os.path.join(place, name)
            self._look(file)
            self._add(os.path.join(base, file), file, command=command)

    def _starts(self) -> Iterator[str]:
        """The directories in which programs may start, and those above them in the folder."""
        told: set[str] = set()
        for base, given in self._bases.items():
            at = base
            while given and at not in told:
                told.add(at)
                yield at
                if at == self._root or not self._holds(at):
                    break
                at = os.path.dirname(at)

    def _directory(self, base: str, piece: str, *, given: bool) -> list[str]:
        reached: list[str] = []
        self._look(piece)
        if not self._may_have(base, piece.partition("/")[0]):
            return reached
        for path in _meant(base, piece):
            if os.path.isdir(path) and self._name(path, piece) is not None:
                reached += self._with_base(path, given=given)
        return reached

    def _with_base(self, path: str, *, given: bool) -> list[str]:
        """The directories that are new with this one: as it is named, and as it is."""
        made: list[str] = []
        for each in (os.path.realpath(path), os.path.normpath(path)):
            if (each not in self._bases or (given and not self._bases[each])) and os.path.isdir(
                each
            ):
                self._bases[each] = given
                made.append(each)
        if len(self._bases) > MAX_PLACES:
            raise TooManyWordsError(_TOO_MANY)
        return made

    def _entries(self, base: str, piece: str, files: tuple[str, ...]) -> None:
        for path in _meant(base, piece):
            self._look(piece)
            if os.path.isdir(path) and self._name(path, piece) is not None:
                self._charge(len(files))
                for name in files:
                    self._add(os.path.join(path, name), piece, command=False)

    def _add(self, path: str, piece: str, *, command: bool, state: bool = False) -> None:
        from alhena.config.watched import Kind

        if (path, command, state) in self._seen or not os.path.isfile(path):
            return
        self._charge(_FOUND)
        self._seen.add((path, command, state))
        name = self._name(path, piece)
        if name is None or (name in self.found and name not in self.loose):
            return
        real = os.path.realpath(path)
        kind = Kind.CODE if command else self._watching.kind(_lies(path), real, state=state)
        if kind is Kind.OWN:
            return
        if kind is not Kind.LOOSE:
            self.loose.discard(name)
        elif name not in self.found:
            self.loose.add(name)
        self.found[name] = real

    def _may_have(self, base: str, name: str) -> bool:
        """Whether a directory may have an entry of this name: one look at all of its names saves
        as many as there are words."""
        if base not in self._names:
            self._names[base] = names = _names(base)
            self._charge(0 if names is None else len(names) // _FOUND)
        names = self._names[base]
        return names is None or name in _UP or not name.isascii() or name.lower() in names

    def _may_have_bin(self, package: str, names: frozenset[str]) -> bool:
        """Whether a package.json gives a program one of these names: npx runs it before others."""
        try:
            data = read_limited(package, _MAX_PACKAGE)
            self._charge(len(data) >> 10)
            document = msgspec.json.decode(data, type=_Package)
        except (msgspec.DecodeError, UnicodeError, FileNotFoundError, NotADirectoryError):
            return False
        except (OSError, RecursionError):
            return True
        own = document.bin
        if isinstance(own, str):
            return os.path.basename(str(document.name)) in names
        told = cast("dict[str, Any]", own) if isinstance(own, dict) else {}
        return not names.isdisjoint(map(os.path.basename, told))

    def _holds(self, path: str) -> bool:
        real = os.path.realpath(path)
        return real == self._root or real.startswith(f"{self._root.rstrip('/')}/")

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
        self._charge(1 + piece.count("/"))

    def _charge(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise TooManyWordsError(_TOO_MANY)
        self._looks.charge(count)


def _names(directory: str) -> frozenset[str] | None:
    """The names in a directory, in lower case; None where they do not tell what is found there."""
    try:
        names = os.listdir(directory)
    except OSError:
        return None
    # Of other letters a file system may take two for the same, or none for nothing.
    plain = len(names) <= _MAX_NAMES and all(map(str.isascii, names))
    return frozenset(map(str.lower, names)) if plain else None


def _lies(path: str) -> str:
    """Where a name is itself, whatever it leads to."""
    directory, name = os.path.split(path)
    return os.path.join(os.path.realpath(directory), name)


def _size(path: str) -> str:
    try:
        found = os.stat(path)
    except OSError as error:
        return f"unreadable ({error.strerror})"
    return f"{found.st_size} bytes of {found.st_mtime_ns}"
