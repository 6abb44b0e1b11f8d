"""Helpers shared by tests of sessions: journals on disk, and their content."""

from pathlib import Path

import msgspec

from alhena.session.journal import Disk, Extent, Journal, read_session
from alhena.session.records import (
    VERSION,
    Answered,
    Contents,
    Header,
    KnownRecord,
    Prompted,
    Started,
)
from alhena.session.replay import Replay
from alhena.wire.content import (
    MODEL,
    USER,
    Content,
    EncodedContent,
    FunctionCall,
    FunctionResponse,
    Part,
    encode_value,
    text_content,
)

AT = "2026-01-31T12:00:00.000Z"
HEADER = Header(at=AT, version=VERSION, session_id="s", project="/p", writer="1")


def header_of(project: Path) -> Header:
    return msgspec.structs.replace(HEADER, project=str(project))


def raw(content: Content) -> msgspec.Raw:
    return EncodedContent(content).raw


def says(role: str, text: str) -> msgspec.Raw:
    return raw(text_content(role, text))


def calls(*ids: str) -> msgspec.Raw:
    parts = tuple(
        Part(function_call=FunctionCall(id=each, name="run_shell_command", args={"n": 1}))
        for each in ids
    )
    return raw(Content(role=MODEL, parts=parts))


def answer(call_id: str, text: str) -> bytes:
    response = FunctionResponse(id=call_id, name="run_shell_command", response={"output": text})
    return encode_value(Part(function_response=response))


def started_record(call_id: str) -> Started:
    return Started(at=AT, call_id=call_id, name="run_shell_command")


def answered_record(call_id: str, text: str) -> Answered:
    parts = (msgspec.Raw(answer(call_id, text)),)
    return Answered(at=AT, call_id=call_id, name="run_shell_command", parts=parts)


def contents(keep: int, *raws: msgspec.Raw) -> Contents:
    return Contents(at=AT, keep=keep, contents=raws)


def turns(count: int) -> list[KnownRecord]:
    """A header and so many prompts with their answers."""
    records: list[KnownRecord] = [HEADER]
    for index in range(count):
        records.append(Prompted(at=AT, text=f"prompt {index} ⚡"))
        records.append(contents(2 * index, says(USER, f"prompt {index} ⚡")))
        records.append(contents(2 * index + 1, says(MODEL, f"answer {index} ü")))
    return records


def write(path: Path, *records: KnownRecord, disk: Disk | None = None) -> Path:
    journal = Journal.create(path, disk)
    for record in records:
        journal.append(record)
    journal.close()
    return path


def replay_journal(path: Path) -> tuple[Replay, Extent]:
    replay = Replay()
    extent = read_session(path, replay.feed)
    return replay, extent


def texts(replay: Replay) -> list[str]:
    return [part.text or "" for entry in replay.contents for part in entry.content.parts]
