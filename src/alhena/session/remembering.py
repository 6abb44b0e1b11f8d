"""The conversation that belongs to a checkpoint, as the journal of its session has it."""

from pathlib import Path

import msgspec

from alhena.session.reading import read_session
from alhena.session.records import Happened, record_of
from alhena.session.replay import Replay

_EVENT = b'{"type":"event",'
_MARK = b'"type":"checkpoint"'


def conversation_at(journal: Path, name: str) -> Replay | None:
    """The conversation of a recorded session as it was when the checkpoint `name` was made; None
    when the journal does not know of it. Raises SessionError."""
    replay = Replay()
    found = False

    def take(line: bytes) -> bool:
        nonlocal found
        if line.startswith(_EVENT) and _MARK in line and _names(line, name):
            found = True
            return True
        replay.feed(line)
        return False

    read_session(journal, take)
    return replay if found else None


def _names(line: bytes, name: str) -> bool:
    record = record_of(line)
    if not isinstance(record, Happened):
        return False
    said = msgspec.json.decode(record.event)
    return said.get("type") == "checkpoint" and said.get("name") == name
