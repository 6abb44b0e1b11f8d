"""Saves facts in the user's memory file: one bullet each, in their own section (TOOLS-19)."""

import os
import re
import threading
import unicodedata
from pathlib import Path

import msgspec

from alhena.system.encoding import (
    SAMPLE_SIZE,
    Codec,
    TextFile,
    decode_text,
    encode_text,
    is_binary,
    safe_text,
    unencodable,
)
from alhena.system.errors import (
    MissingFileError,
    UnencodableTextError,
    WriteFailureError,
    from_os_error,
    printable,
)
from alhena.system.files import exclusive, read_whole

SECTION = "## Gemini Added Memories"
MEMORY_LIMIT = 16_000_000
"""Maximum bytes of a memory file that is changed."""

_SECTION_LINE = re.compile(r"^ {0,3}##[ \t]+Gemini Added Memories[ \t#]*$", re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]", re.MULTILINE)
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


class MemoryChange(msgspec.Struct, frozen=True):
    """A memory file with an additional fact. Texts have LF line endings; `original` None: a new
    file."""

    real: Path
    before: bytes | None
    data: bytes
    original: str | None
    content: str


class Insertion(msgspec.Struct, frozen=True):
    """Text to insert at an offset."""

    offset: int
    text: str


def one_line(fact: str) -> str:
    """A fact as the text of one bullet: white space becomes single spaces; control and
    text-direction characters and leading list markers are removed. May be empty."""
    visible = "".join(
        " " if unicodedata.category(char) == "Cc" else char for char in fact if char not in _BIDI
    )
    valid = visible.encode("utf-8", "replace").decode("utf-8")
    return re.sub(r"\A(?:[-*+\u2022](?: |\Z))+", "", " ".join(valid.split())).strip()


def bullet(fact: str) -> str:
    """The line of a fact. It is only a list item: no heading, rule, quote, fence, HTML or link
    definition begins in it, and no `@path` in it is an import."""
    line = one_line(fact)
    if re.match(
        r"#{1,6}(?: |\Z)|>|<|```|~~~|\[[^\]]*\]:|(?:(?:- ?){3,}|(?:\* ?){3,}|(?:_ ?){3,})\Z", line
    ):
        line = f"\\{line}"
    return "- " + re.sub(r"(?<!\S)@(?=\S)", r"\\@", line)


def insertion(text: str, item: str) -> Insertion | None:
    """The insertion of `item`, a line, into a memory file (`text` with LF line endings): at the end
    of the section's list; in a new section at the end if there is none. None if it exists already.
    """
    section = _SECTION_LINE.search(text)
    if section is None:
        blank = "" if not text or text.endswith("\n\n") else "\n" * (2 - text.endswith("\n"))
        return Insertion(len(text), f"{blank}{SECTION}\n{item}\n")
    following = _HEADING.search(text, section.end())
    body = text[section.end() : len(text) if following is None else following.start()]
    if any(line.strip() == item for line in body.split("\n")):
        return None
    offset = text.find("\n", section.end() + len(body.rstrip()))
    if offset < 0:
        return Insertion(len(text), f"\n{item}\n")
    return Insertion(offset, f"\n{item}")


def propose_change(path: Path, fact: str) -> MemoryChange | None:
    """Computes the memory file at `path` with `fact` without writing it; None if it has the fact.

    Raises FileError.
    """
    real = Path(os.path.realpath(path))
    try:
        data, before = read_whole(real, MEMORY_LIMIT)
    except MissingFileError:
        data, before = b"", None
    file = decode_text(data)
    if is_binary(data[:SAMPLE_SIZE]) or file.damaged:
        raise WriteFailureError(
            f"{printable(real)} is no text file; nothing was written.",
            remedy="Repair it, or move it away to begin a new one.",
        )
    put = insertion(file.text, bullet(fact))
    if put is None:
        return None
    added = put.text.replace("\n", file.newline)
    _require_encodable(added, file.codec, real)
    ((at, _),) = file.spans([(put.offset, put.offset)])
    raw = file.raw[:at] + added + file.raw[at:]
    return MemoryChange(
        real=real,
        before=before,
        data=encode_text(raw, file.codec),
        original=None if before is None else file.shown,
        content=_preview_file(file, put),
    )


def save(path: Path, fact: str, cancellation: threading.Event | None = None) -> MemoryChange | None:
    """Adds `fact` to the memory file at `path` atomically; None if it was there already.

    No concurrent change is lost: processes that lock wait for each other. Blocks its thread. Raises
    FileError, also for a file that another program changes meanwhile.
    """
    from alhena.system.replacement import replace_file

    real = Path(os.path.realpath(path))
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise from_os_error(error, real.parent, writing=True) from error
    lock = real.with_name(f".{real.name}.lock")
    with exclusive(lock, beside=real, cancellation=cancellation):
        change = propose_change(real, fact)
        if change is not None:
            replace_file(
                change.real,
                change.data,
                expected=change.before,
                limit=MEMORY_LIMIT,
                cancellation=cancellation,
            )
        return change


def _preview_file(file: TextFile, put: Insertion) -> str:
    return safe_text(file.text[: put.offset]) + put.text + safe_text(file.text[put.offset :])


def _require_encodable(text: str, codec: Codec, path: Path) -> None:
    lacking = unencodable(text, codec)
    if lacking is not None:
        raise UnencodableTextError(
            f"{printable(path)} is encoded in {codec.encoding}, which has no character "
            f"{lacking!r} (U+{ord(lacking):04X}); nothing was written.",
            remedy="Convert the file to UTF-8 first.",
        )
