"""Which files a command of a workspace names, as far as its words tell, and what is in them.

What a program reads by itself (modules that it imports, scripts of a package) is not among them.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from alhena.config.files import NotReadableError, read_limited

MAX_FILES = 256
MAX_FILE = 64 << 20
"""Files of a command, and bytes of one, that are read; others are known by size and time."""
MAX_PIECES = 10_000
_MODULES = ("", ".py", "/__main__.py", ".js", ".mjs", ".cjs", "/index.js")
"""What the name of a module stands for."""
_BETWEEN = re.compile(r"[\s\"'=;|&<>()`,:]+")


class TooManyWordsError(Exception):
    """A command has more words than can be looked at."""


def named_files(entry: Any, folder: Path) -> dict[str, str]:
    """The files that a command line, or the entry of a server, names by how they lie to a folder,
    or within it; each with a digest of its content. Raises TooManyWordsError."""
    root = os.path.realpath(folder)
    base, words = _words(entry, root)
    found: dict[str, str] = {}
    for count, piece in enumerate(each for word in words for each in _pieces(word)):
        if count >= MAX_PIECES:
            raise TooManyWordsError
        _add(piece, (base, root), found)
    limits = (MAX_FILE if count < MAX_FILES else 0 for count in range(len(found)))
    return {
        name: _digest(path, limit)
        for (name, path), limit in zip(sorted(found.items()), limits, strict=True)
    }


def printable_path(path: str) -> str:
    """A path as a text that can be written down, whatever bytes are in it."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _words(entry: Any, root: str) -> tuple[str, list[str]]:
    """Where a command is started, and the words that it is given."""
    if not isinstance(entry, dict):
        return root, _texts([entry])
    members = cast("dict[str, Any]", entry)
    if members.get("httpUrl") or members.get("url"):
        return root, []
    command, cwd, env = members.get("command"), members.get("cwd"), members.get("env")
    arguments: object = members.get("args")
    words: list[Any] = [command]
    if isinstance(arguments, list):
        words += cast("list[Any]", arguments)
    if isinstance(env, dict):
        table = cast("dict[str, Any]", env)
        words += table.values()
        places = table.get("PATH")
        if isinstance(places, str) and isinstance(command, str):
            words += (f"{place}/{command}" for place in places.split(os.pathsep))
    return os.path.join(root, cwd) if isinstance(cwd, str) else root, _texts(words)


def _texts(words: list[Any]) -> list[str]:
    return [word for word in words if isinstance(word, str) and "\0" not in word]


def _pieces(word: str) -> Iterator[str]:
    """What of a word may name a file: a shell may read it, an option may end in it."""
    for piece in dict.fromkeys((word, *_BETWEEN.split(word))):
        if not piece.strip("./") or len(piece) > 4096:
            continue
        for end in _MODULES:
            yield piece + end
        if re.fullmatch(r"\w+(\.\w+)+", piece):
            yield from (piece.replace(".", "/") + end for end in _MODULES[1:3])


def _add(piece: str, bases: tuple[str, str], found: dict[str, str]) -> None:
    """Takes note of the file that a piece names. One elsewhere by its whole path is the user's."""
    root = bases[1]
    for base in dict.fromkeys(bases):
        place = os.path.normpath(os.path.join(base, piece))
        if not os.path.isfile(place):
            continue
        real = os.path.realpath(place)
        # A link of the folder's can be made to lead elsewhere.
        within = [path for path in (real, place) if path.startswith(f"{root}/")]
        if not within and not os.path.isabs(piece):
            within = [place]
        if within:
            found[printable_path(os.path.relpath(within[0], root))] = real


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
