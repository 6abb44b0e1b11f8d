"""Reads a journal as far as it can be trusted, line by line: memory holds one line at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec

from alhena.session.errors import NoSessionError, SessionError
from alhena.session.records import Header, checked, record_of
from alhena.system.errors import from_os_error, printable

_PIECE = 1 << 20
_HEADER = 1 << 16
_BEGIN = b'{"type":"'


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a journal that cannot be trusted: `size` bytes from `offset`. `torn`: it is one
    line that was not written to its end, and nothing that was there before is gone."""

    offset: int
    size: int
    line: int
    torn: bool = False


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """How far a journal can be trusted: `end` bytes, whose last line has the checksum `chain`.
    Not `ended`: that line lacks its newline."""

    end: int
    chain: int
    lines: int
    ended: bool = True
    damage: Damage | None = None


Take = Callable[[bytes], object]
"""Is given a sound line. What is true says that it has seen enough; msgspec.DecodeError that the
line is unsound all the same."""


def scan(file: BinaryIO, take: Take) -> Extent:
    """Gives each sound line, without its end, to `take`, up to the first that is not. Raises
    OSError."""
    end, chain, lines, ended = file.tell(), 0, 0, True
    while True:
        line = _next_line(file)
        if line == b"":
            return Extent(end=end, chain=chain, lines=lines, ended=ended)
        found, enough = None, False
        if line is not None:
            body = line.removesuffix(b"\n").removesuffix(b"\r")
            found = checked(body, chain)
            if found is not None:
                try:
                    enough = bool(take(body))
                except (msgspec.DecodeError, UnicodeDecodeError):
                    found = None
        if line is None or found is None:
            size = file.seek(0, 2)
            torn = line is not None and not line.endswith(b"\n")
            damage = Damage(offset=end, size=size - end, line=lines + 1, torn=torn)
            return Extent(end=end, chain=chain, lines=lines, ended=ended, damage=damage)
        end, chain, lines, ended = end + len(line), found, lines + 1, line.endswith(b"\n")
        if enough:
            return Extent(end=end, chain=chain, lines=lines, ended=ended)


def read_session(path: Path, take: Take) -> Extent:
    """As `scan`, for the file of a session. Raises NoSessionError, SessionError."""
    try:
        with path.open("rb", buffering=_PIECE) as file:
            return scan(file, take)
    except FileNotFoundError as error:
        raise NoSessionError(f"there is no session in {printable(path)}.") from error
    except RecursionError as error:
        raise SessionError(
            f"the session in {printable(path)} cannot be read: a line of it is nested too deeply.",
            remedy="The file was left as it is; name another session.",
        ) from error
    except OSError as error:
        raise SessionError(str(from_os_error(error, path))) from error


def is_begun(path: Path) -> bool:
    """Whether a file begins as the journal of a session does: with a sound header. What cannot be
    read does not."""
    try:
        with path.open("rb") as file:
            line = file.readline(_HEADER).removesuffix(b"\n").removesuffix(b"\r")
    except OSError:
        return False
    try:
        return checked(line, 0) is not None and isinstance(record_of(line), Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def is_torn(path: Path) -> bool:
    """Whether a file holds nothing but the beginning of one line, as the `torn` end of a journal
    does. Raises OSError."""
    with path.open("rb") as file:
        line = _next_line(file)
    return bool(line) and not line.endswith(b"\n")


def _next_line(file: BinaryIO) -> bytes | None:
    """The next line with its end, b"" behind the last one; None for what can be no line. What a
    crash of the machine leaves (a long run of NULs) is not read to its end."""
    piece = file.readline(_PIECE)
    if piece.endswith(b"\n") or piece == b"":
        return piece
    if piece[: len(_BEGIN)] != _BEGIN[: len(piece)]:
        return None
    pieces = [piece]
    while piece and not piece.endswith(b"\n"):
        if b"\0" in piece:
            return None
        piece = file.readline(_PIECE)
        pieces.append(piece)
    return b"".join(pieces)
