"""Unpacks an archive (.zip, .tar.gz, .tgz) whole or not at all.

The whole archive is read and checked before the first byte is written. It has files, folders and
links only, below its top, and not more of anything than an extension needs; a bomb is noticed by
what comes out of it, whatever its headers declare. Links are made last, so nothing is written
through them.
"""

import gzip
import os
import re
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from lzma import LZMAError
from pathlib import Path
from typing import IO, cast

import msgspec

from alhena.errors import InputError

SUFFIXES = (".zip", ".tar.gz", ".tgz")
MAX_BYTES = 200_000_000
MAX_ENTRIES = 200_000
MAX_DEPTH = 30
MAX_NAME, MAX_PATH = 255, 1_000
"""Bytes of the name of a file, and of its whole path."""
MAX_RATIO, SMALL = 200, 10_000_000
"""Unpacked bytes for each packed one; what unpacks to less than SMALL bytes is no bomb."""
_PIECE = 1 << 16
_CENTRAL = b"PK\x01\x02"
"""The beginning of an entry in the directory of a .zip file."""
_BROKEN = (
    *(OSError, EOFError, ValueError, RuntimeError, NotImplementedError),
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError),
)


class ArchiveError(InputError):
    """The archive is refused."""

    page = "extensions"


class _ArchiveEntry(msgspec.Struct, frozen=True):
    """A file, folder or link (to `link`) of an archive. A file's content can be read until the next
    one is asked for."""

    parts: tuple[str, ...]
    content: IO[bytes] | None
    executable: bool = False
    link: str = ""


class _Budget:
    """The bytes that may still come out of an archive."""

    def __init__(self, packed: int) -> None:
        self._most = min(MAX_BYTES, max(SMALL, MAX_RATIO * packed))
        self._used = 0

    def take(self, count: int) -> None:
        """Counts unpacked bytes. Raises ArchiveError beyond the limit."""
        self._used += count
        if self._used > self._most:
            why = f"it unpacks to more than {MAX_BYTES:,} bytes"
            if self._most < MAX_BYTES:
                why = f"it unpacks to more than {MAX_RATIO} times its size"
            raise ArchiveError(why)


class _Stream:
    """The output of gzip; its bytes count, also those of headers."""

    def __init__(self, source: gzip.GzipFile, budget: _Budget) -> None:
        self._source = source
        self._budget = budget

    def read(self, size: int) -> bytes:
        """Reads at most `size` bytes, never more than a piece beyond the limit."""
        found = bytearray()
        while len(found) < size:
            piece = self._source.read(min(size - len(found), _PIECE))
            if not piece:
                break
            self._budget.take(len(piece))
            found += piece
        return bytes(found)


def unpack(archive: Path, target: Path) -> None:
    """Unpacks into the empty folder `target`. Raises ArchiveError with the reason alone; nothing is
    written then, unless the archive has been replaced meanwhile or the disk is full."""
    try:
        for entry in _check_entries(archive):
            for _ in _pieces(entry):
                pass
        links: list[_ArchiveEntry] = []
        for entry in _check_entries(archive):
            if entry.link:
                links.append(entry)
            else:
                _write(entry, target)
        for entry in links:
            path = target.joinpath(*entry.parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(entry.link, path)
    except _BROKEN as error:
        raise ArchiveError(str(error) or "it is damaged") from error


def _write(entry: _ArchiveEntry, target: Path) -> None:
    path = target.joinpath(*entry.parts)
    if entry.content is None:
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o755 if entry.executable else 0o644
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, mode), "wb") as file:
        file.writelines(_pieces(entry))


def _pieces(entry: _ArchiveEntry) -> Iterator[bytes]:
    while entry.content is not None and (piece := entry.content.read(_PIECE)):
        yield piece


def _check_entries(archive: Path) -> Iterator[_ArchiveEntry]:
    """The entries of an archive. Raises ArchiveError for the first that is refused."""
    is_zip = archive.name.lower().endswith(".zip")
    files, folders = set[tuple[str, ...]](), set[tuple[str, ...]]()
    for count, entry in enumerate((_of_zip if is_zip else _of_tar)(archive), 1):
        if count > MAX_ENTRIES:
            raise ArchiveError(f"it has more than {MAX_ENTRIES:,} files")
        if ".git" in entry.parts or not entry.parts:
            continue
        above = {entry.parts[:depth] for depth in range(1, len(entry.parts))}
        is_folder = entry.content is None and not entry.link
        if entry.parts in files or above & files or (not is_folder and entry.parts in folders):
            raise ArchiveError(f"{'/'.join(entry.parts)} is in it twice")
        folders |= above
        (folders if is_folder else files).add(entry.parts)
        yield entry


def _of_zip(archive: Path) -> Iterator[_ArchiveEntry]:
    budget = _Budget(archive.stat().st_size)
    with open(archive, "rb") as file:
        listed = sum(piece.count(_CENTRAL) for piece in iter(lambda: file.read(_PIECE), b""))
        if listed > 2 * MAX_ENTRIES:
            raise ArchiveError(f"it has more than {MAX_ENTRIES:,} files")
        file.seek(0)
        with zipfile.ZipFile(file) as found:
            for info in found.infolist():
                mode = info.external_attr >> 16
                kind = stat.S_IFMT(mode)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                    raise ArchiveError(f"{info.filename} is no file")
                if info.flag_bits & 1:
                    raise ArchiveError(f"{info.filename} is encrypted")
                parts = _parts(info.orig_filename)
                if info.is_dir() or kind == stat.S_IFDIR:
                    yield _ArchiveEntry(parts, None)
                    continue
                budget.take(info.file_size)  # a longer content ends with an error
                with found.open(info) as content:
                    if kind == stat.S_IFLNK:
                        text = content.read(MAX_PATH + 1)
                        yield _ArchiveEntry(parts, None, link=_link_text(text))
                    else:
                        yield _ArchiveEntry(parts, content, bool(mode & stat.S_IXUSR))


def _of_tar(archive: Path) -> Iterator[_ArchiveEntry]:
    budget = _Budget(archive.stat().st_size)
    with (
        gzip.open(archive, "rb") as source,
        tarfile.open(fileobj=cast("IO[bytes]", _Stream(source, budget)), mode="r|") as found,
    ):
        for info in found:
            plain = info.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and info.sparse is None
            if info.issym() or info.islnk():
                parts, text = _parts(info.name), info.linkname
                if info.islnk():  # from the top of the archive
                    text = os.path.join(*[".."] * (len(parts) - 1), text)
                yield _ArchiveEntry(parts, None, link=_link_text(os.fsencode(text)))
                continue
            if not plain and not info.isdir():
                raise ArchiveError(f"{info.name} is no file")
            content = found.extractfile(info) if plain else None
            yield _ArchiveEntry(_parts(info.name), content, bool(info.mode & stat.S_IXUSR))


def _link_text(data: bytes) -> str:
    """The target of a link as a path; one that can be none is "/", which leads out."""
    usable = data and len(data) <= MAX_PATH and b"\0" not in data
    return os.fsdecode(data) if usable else "/"


def _parts(name: str) -> tuple[str, ...]:
    """The path of an entry. Raises ArchiveError for one that leads out, or that some system would
    read as another path."""
    if name.startswith("/") or re.match("[A-Za-z]:", name):
        raise ArchiveError(f"{name} is an absolute path")
    parts = tuple(each for each in name.split("/") if each not in ("", "."))
    if ".." in parts:
        raise ArchiveError(f"{name} leads out of it")
    if "\\" in name or any(unicodedata.category(char) in ("Cc", "Cs") for char in name):
        raise ArchiveError(f"{name} has a backslash or a control character in its name")
    sizes = [len(os.fsencode(each)) for each in parts]
    if len(parts) > MAX_DEPTH or sum(sizes) > MAX_PATH or max(sizes, default=0) > MAX_NAME:
        raise ArchiveError(f"{name[:80]}… is too long or too deep")
    return parts
