"""Objects of a git repository that are files of their own, read and written without git.

An object's name is the checksum of what its file holds unpacked: kind, size and content.
"""

import os
import stat
import zlib
from contextlib import suppress
from hashlib import sha1
from pathlib import Path

from alhena.session.shadow_files import content_name
from alhena.system.files import CREATE, synchronise

_LEVEL = 1
_PIECE = 1 << 20
_TEMPORARY = "tmp_obj_"  # git removes what is left of these


def loose_object(git_dir: Path, name: str, kind: str) -> bytes | None:
    """The content of an object; None for one that is packed, damaged or not there."""
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(_path(git_dir, name).read_bytes())
    except (OSError, zlib.error):
        return None
    head, _, content = data.partition(b"\0")
    if unpacker.unused_data or not unpacker.eof or head != b"%s %d" % (kind.encode(), len(content)):
        return None
    return content if content_name(content, kind) == name else None


def is_loose_and_whole(git_dir: Path, name: str) -> bool:
    """True when an object of any size is a file of its own that can be read to its end."""
    try:
        return _is_whole(git_dir, name)
    except OSError:
        return False


def keep_loose(git_dir: Path, data: bytes, kind: str) -> str:
    """Has an object there, whole, and young enough not to be collected at once; its name. Raises
    OSError."""
    name = content_name(data, kind)
    if is_loose_and_whole(git_dir, name):
        with suppress(FileNotFoundError):
            os.utime(_path(git_dir, name))
            return name
    put_loose(git_dir, data, kind)
    return name


def put_loose(git_dir: Path, data: bytes, kind: str) -> None:
    """Puts an object there in one step, whatever is there. Raises OSError."""
    path = _path(git_dir, content_name(data, kind))
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_name(f"{_TEMPORARY}{os.urandom(4).hex()}")
    descriptor = os.open(fresh, CREATE, stat.S_IRUSR)
    try:
        with open(descriptor, "wb") as file:
            file.write(zlib.compress(b"%s %d\0" % (kind.encode(), len(data)) + data, _LEVEL))
            file.flush()
            synchronise(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def discard_loose(git_dir: Path, name: str) -> None:
    """Removes an object that is damaged, so that git takes in its content when it sees that again.
    One that is whole stays, whatever git says of it; so does what cannot be read now."""
    with suppress(OSError):
        if not _is_whole(git_dir, name):
            _path(git_dir, name).unlink()


def _is_whole(git_dir: Path, name: str) -> bool:
    """As `is_loose_and_whole`. Raises OSError for what cannot be read."""
    unpacker, found = zlib.decompressobj(), sha1(usedforsecurity=False)
    with _path(git_dir, name).open("rb") as file:
        try:
            while piece := file.read(_PIECE):
                while piece and not unpacker.eof:
                    found.update(unpacker.decompress(piece, _PIECE))
                    piece = unpacker.unused_data or unpacker.unconsumed_tail
                if piece:  # more than there may be
                    return False
            found.update(unpacker.flush())
        except zlib.error:
            return False
    return unpacker.eof and found.hexdigest() == name


def _path(git_dir: Path, name: str) -> Path:
    return git_dir / "objects" / name[:2] / name[2:]
