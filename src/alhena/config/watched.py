"""Which of the files that a command names are watched: all that can be code, and of the others
those that a `git pull` can change. A program's own data, which it writes itself, is not.
"""

import os
import re
import sys
from collections.abc import Callable
from enum import StrEnum

from alhena.config.documents import NotReadableError, read_limited
from alhena.config.programs import ENTRY_FILES

MAX_INDEX = 64 << 20
"""Bytes of the index of a repository that are looked through; in a larger one all is watched."""
_INDEX_SHIFT = 16
"""How many bytes of it are looked through in the time that looking for a file takes: 2 ** this."""
MAX_ASKED = 256
"""Files that are looked for in indexes; all others are watched."""
_CODE = frozenset(
    {
        *("py", "pyw", "pyc", "pyz", "js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"),
        *("node", "wasm", "sh", "bash", "zsh", "fish", "ksh", "csh", "rb", "pl", "pm", "php"),
        *("phar", "lua", "go", "rs", "java", "jar", "war", "class", "kt", "kts", "scala", "sc"),
        *("groovy", "gradle", "clj", "cljs", "bb", "cs", "csx", "fs", "fsx", "vb", "swift"),
        *("dart", "ex", "exs", "erl", "escript", "hs", "ml", "r", "jl", "nim", "zig", "c", "h"),
        *("cc", "cpp", "cxx", "hpp", "m", "mm", "cr", "awk", "sed", "tcl", "exp", "vim", "el"),
        *("lisp", "scm", "rkt", "ps1", "psm1", "psd1", "bat", "cmd", "com", "exe", "dll", "so"),
        *("dylib", "run", "appimage", "mk", "mak", "make", "cmake", "ninja", "bzl", "bazel"),
        *("nix", "sbt", "rake", "ru", "gemspec", "just", "dockerfile", "pth"),
    }
)
_DATA = frozenset(
    {
        *("db", "db3", "db-wal", "db-shm", "db-journal", "sqlite", "sqlite-wal", "sqlite-shm"),
        *("sqlite-journal", "sqlite3", "sqlite3-wal", "sqlite3-shm", "sqlite3-journal"),
        *("duckdb", "wal", "mdb", "ldb", "rdb", "log", "out", "err", "jsonl", "ndjson", "csv"),
        *("tsv", "lock", "pid", "sock", "parquet", "arrow", "feather", "cache", "tmp"),
    }
)
_POINTER = re.compile(rb"gitdir: ([^\0\n]+)\n?")
_VERSIONS = (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3")
"""How an index begins whose paths stand in it as they are."""
_SPARSE = b"sdir\0\0\0\0"
"""The extension that says that whole directories stand in an index for what is in them."""


class Kind(StrEnum):
    """What a file that a command names is taken for. Watched is all but what is a program's own.

    `LOOSE` are texts and settings of which no repository says whose they are: what a program
    reads, or what it writes itself. Only a person can tell.
    """

    CODE = "code"
    TRACKED = "tracked"
    LOOSE = "loose"
    OWN = "own"


class Indexes:
    """The indexes of repositories, by their directories: each is read once, and looked through once
    for a path."""

    def __init__(self) -> None:
        self._read: dict[str, bytes | None] = {}
        self._answers: dict[tuple[str, str], bool] = {}

    def may_hold(self, directory: str, path: str, charge: Callable[[int], None]) -> bool:
        """Whether the index of a repository may have a path. `charge` is told how much of it is
        looked through, and may raise."""
        if directory not in self._read:
            self._read[directory] = _index(directory)
        index = self._read[directory]
        if index is None:
            return True
        key = (directory, path)
        if key not in self._answers:
            charge(len(index) >> _INDEX_SHIFT)
            self._answers[key] = _holds(index, os.fsencode(path))
        return self._answers[key]


class Watching:
    """Decides about the files of an entry. Those of others share `indexes`; `charge` is told how
    much of them is looked through, and may raise."""

    def __init__(self, indexes: Indexes, charge: Callable[[int], None]) -> None:
        self._indexes = indexes
        self._charge = charge
        self._left = MAX_ASKED

    def kind(self, lies: str, real: str, *, state: bool = False) -> Kind:
        """What a file is that lies at `lies` and is, its links followed, `real`. `state`: what
        names it says that it is data."""
        paths = tuple(dict.fromkeys((lies, real)))
        kinds = {_suffix(path) for path in paths}
        named = any(os.path.basename(path) in ENTRY_FILES for path in paths)
        if named or ("" in kinds and not state) or kinds & _CODE or _runs(real):
            return Kind.CODE
        self._left -= 1
        if self._left < 0:
            return Kind.TRACKED
        tracked = [self._tracked(path) for path in paths]
        if True in tracked:
            return Kind.TRACKED
        return Kind.LOOSE if None in tracked and not kinds <= _DATA else Kind.OWN

    def _tracked(self, path: str) -> bool | None:
        """Whether a file is tracked, or may be; None when it lies in no repository."""
        at = os.path.dirname(path)
        while True:
            directory = _git_directory(os.path.join(at, ".git"))
            if directory is not None:
                return self._may_hold(at, directory, os.path.relpath(path, at))
            if at == os.path.dirname(at):
                return None
            at = os.path.dirname(at)

    def _may_hold(self, top: str, directory: str, path: str) -> bool:
        if not directory or os.path.lexists(os.path.join(top, ".jj")):
            return True  # another program's idea of what is tracked
        return self._indexes.may_hold(directory, path, self._charge)


def _suffix(path: str) -> str:
    suffix = os.path.splitext(path)[1][1:].lower()
    return "" if suffix.isdecimal() else suffix


def _runs(path: str) -> bool:
    """Whether a file may be executed, or says what executes it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            return bool(os.fstat(descriptor).st_mode & 0o111) or os.read(descriptor, 2) == b"#!"
        finally:
            os.close(descriptor)
    except OSError:
        return True  # what cannot be looked at is none of the known harmless


def _git_directory(mark: str) -> str | None:
    """Where the index is of a repository whose top has this `.git`; "" when that cannot be told,
    None where there is no repository."""
    if os.path.isdir(mark):
        return mark if os.path.lexists(os.path.join(mark, "HEAD")) else None
    try:
        found = _POINTER.fullmatch(read_limited(mark, 8192))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return ""
    if found is None:
        return ""
    directory = os.path.join(os.path.dirname(mark), os.fsdecode(found[1]))
    return directory if os.path.lexists(os.path.join(directory, "HEAD")) else ""


def _index(directory: str) -> bytes | None:
    """The index of a repository; None for one that does not say all of what is tracked as it is."""
    try:
        if any(name.startswith("sharedindex.") for name in os.listdir(directory)):
            return None
        data = read_limited(os.path.join(directory, "index"), MAX_INDEX)
    except FileNotFoundError:
        return _VERSIONS[0]  # nothing has been added yet
    except (NotReadableError, OSError):
        return None
    return data if data.startswith(_VERSIONS) and _SPARSE not in data else None


def _holds(index: bytes, path: bytes) -> bool:
    """Whether a path is in an index. Before each stands its length, in the last twelve bits of two
    bytes, and with newer ones two bytes more; after it a zero."""
    ignoring = sys.platform in ("darwin", "win32")  # a file is found there by any case
    if ignoring and not path.isascii():
        return True
    searched, wanted = (index.lower(), path.lower()) if ignoring else (index, path)
    length = min(len(path), 0xFFF)
    at = searched.find(wanted + b"\0")
    while at >= 0:
        for end in (at, at - 2):
            if int.from_bytes(index[max(end - 2, 0) : end], "big") & 0xFFF == length:
                return True
        at = searched.find(wanted + b"\0", at + 1)
    return False
