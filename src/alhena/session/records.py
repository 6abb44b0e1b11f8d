"""The lines of a journal, JSON objects each with a checksum; and the names and ids of sessions.

    {"type":"event","at":"2026-01-31T12:00:00.000Z","event":{…},"crc":"89abcdef"}

`crc` is the CRC-32 of the line's bytes before `,"crc"`, begun with the `crc` of the line before (0
for the first). So a line that was changed, lost, doubled or moved ends what can be trusted. A
record of a type that is not known is one of a later version; it is left where it is.
"""

import os
import re
import time
import zlib
from typing import Any

import msgspec

from alhena.errors import AlhenaError, InputError
from alhena.events import timestamp

VERSION = 1
"""Value of `Header.version`. Incremented when an older program would misread a newer file."""

_TITLE = 100
_MARK = b',"crc":"'
_SEAL = len(_MARK) + 8 + len(b'"}')


class Record(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename="camel",
    tag_field="type",
):
    """Base of all records. `at`: UTC time in ISO format, with milliseconds."""

    at: str


class Header(Record, frozen=True, kw_only=True, tag="session"):
    """The first record. `opening` contents at the beginning are the environment's, not a
    person's. A fork begins with the first `forked_at` prompts of the session `forked_from`."""

    version: int
    session_id: str
    project: str
    writer: str = ""
    opening: int = 0
    forked_from: str = ""
    forked_at: int = 0


class Contents(Record, frozen=True, kw_only=True, tag="contents"):
    """The history is now its first `keep` contents and these behind them. A content is as it is
    sent, or `{"calls":[ids]}`: the parts of these answers, responses before media. `model` is who
    answers from here on, where that has changed."""

    keep: int
    contents: tuple[msgspec.Raw, ...] = ()
    model: str = ""


class Happened(Record, frozen=True, kw_only=True, tag="event"):
    """An event (`alhena.events`) as JSON."""

    event: msgspec.Raw


class Started(Record, frozen=True, kw_only=True, tag="started"):
    """From here on a call may have taken effect."""

    call_id: str
    name: str


class Answered(Record, frozen=True, kw_only=True, tag="answered"):
    """A call has ended; `parts` are what the model gets."""

    call_id: str
    name: str
    parts: tuple[msgspec.Raw, ...]


class Prompted(Record, frozen=True, kw_only=True, tag="prompt"):
    """A person's words."""

    text: str


class Undone(Record, frozen=True, kw_only=True, tag="undone"):
    """Files and conversation are as they were at a checkpoint: these calls have no effect any
    more."""

    checkpoint: str
    calls: tuple[str, ...] = ()


class Continued(Record, frozen=True, kw_only=True, tag="continued"):
    """Another process continues. `dropped` bytes of a damaged end were moved to `moved_to`;
    `torn` as in a `Damage`."""

    writer: str = ""
    dropped: int = 0
    moved_to: str = ""
    torn: bool = False


class Tagged(Record, frozen=True, kw_only=True, tag="tagged"):
    """The second record of a copy that a person keeps under a name."""

    name: str


KnownRecord = (
    Header | Contents | Happened | Started | Answered | Prompted | Undone | Continued | Tagged
)


class CallRefs(msgspec.Struct, frozen=True, kw_only=True):
    """A content that answers calls, told by their ids."""

    calls: tuple[str, ...]


class _Typed(msgspec.Struct, frozen=True):
    type: str


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(KnownRecord)
_typed = msgspec.json.Decoder(_Typed)
_KNOWN = frozenset(
    str(kind.__struct_config__.tag)
    for kind in (Header, Contents, Happened, Started, Answered, Prompted, Undone, Continued, Tagged)
)


def title_of(said: str) -> str:
    """The beginning of a prompt, on one line, as lists of sessions show it."""
    return " ".join(said[: 10 * _TITLE].split())[:_TITLE]


def now() -> str:
    """This moment as `Record.at` has it."""
    return timestamp(time.time_ns())


def encode_json(value: Any) -> bytes:
    """JSON bytes. Raises UnicodeEncodeError, TypeError, RecursionError, OverflowError."""
    return _encoder.encode(value)


def line_of(record: KnownRecord, chain: int) -> tuple[bytes, int]:
    """The line of a record behind a line whose checksum is `chain`, and its own."""
    return _seal_body(memoryview(_encoder.encode(record))[:-1], chain)


def reseal_line(line: bytes, chain: int) -> tuple[bytes, int]:
    """A sound line (without its end) as it is behind a line whose checksum is `chain`, and its
    own."""
    return _seal_body(memoryview(line)[:-_SEAL], chain)


def _seal_body(body: memoryview, chain: int) -> tuple[bytes, int]:
    chain = zlib.crc32(body, chain)
    return b'%b,"crc":"%08x"}\n' % (body, chain), chain


def line_checksum(line: bytes, chain: int) -> int | None:
    """The checksum of a line (without its end) behind one of `chain`; None when it is damaged."""
    body = memoryview(line)[:-_SEAL]
    if line[-_SEAL:-10] != _MARK or line[-2:] != b'"}':
        return None
    found = zlib.crc32(body, chain)
    return found if line[-10:-2] == b"%08x" % found else None


def record_of(line: bytes) -> KnownRecord | None:
    """Decodes a valid line; None for a record of unknown type. Raises msgspec.DecodeError for a
    record that does not fit its type."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        if _typed.decode(line).type in _KNOWN:
            raise
        return None


SUFFIX = ".jsonl"

_PLAIN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,199}"
_MADE = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TAKEN = frozenset({"checkpoints", "sessions", "tags", "tool-outputs"})
"""Directories of a project's own, beside those that bear the names of sessions."""


def session_of(file_name: str) -> str | None:
    """The id of the session whose journal has this name; None when it is no session's."""
    session_id = file_name.removesuffix(SUFFIX)
    return session_id if session_id != file_name and is_session_id(session_id) else None


def is_session_id(name: str) -> bool:
    """True when a session can have this id: letters, digits, `_` and `-`, and nothing that a path
    or a pattern could mean something else by."""
    return re.fullmatch(_PLAIN, name) is not None and name.lower() not in _TAKEN


def is_made_id(name: str) -> bool:
    """True when the id is one that sessions are given when they begin: a UUID, which no person
    chooses for a directory of another kind."""
    return re.fullmatch(_MADE, name) is not None


def damaged_name(session_id: str, number: int) -> str:
    """The file that holds the `number`-th damaged end of a session."""
    return f"{session_id}.damaged-{number}"


def is_damaged_end(file_name: str, session_id: str) -> bool:
    """True when a file contains a damaged end of that session."""
    head, mark, number = file_name.rpartition(".damaged-")
    return bool(mark) and head == session_id and number.isascii() and number.isdecimal()


def new_session_id() -> str:
    """A random UUID (version 4); the uuid module would cost the start more than it gives."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class JournalError(AlhenaError):
    """The record of the session cannot be written, so nothing more is done that it would lack."""

    kind = "journal"


class SessionError(InputError):
    """A session that was named cannot be used."""

    kind = "session"


class NoSessionError(SessionError):
    """No session has this name."""

    kind = "session_not_found"


class NoTagError(SessionError):
    """No conversation is saved under this name."""

    kind = "tag_not_found"


class TakenTagError(SessionError):
    """A conversation is saved under this name already."""

    kind = "tag_taken"


class ForeignError(SessionError):
    """A session or a checkpoint is another project's."""

    kind = "session_of_another_project"


class HeldSessionError(SessionError):
    """Another process is at work on the session."""

    kind = "session_in_use"
