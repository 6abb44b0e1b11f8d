"""The record of a change does not grow with the size of the changed file."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.events import (
    ConfirmationRequestEvent,
    Event,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
)
from alhena.session.records import Happened, KnownRecord
from alhena.session.replay import JournalRecorder
from tests.agent.kit import agent
from tests.session.kit import replay_journal
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

LINES = 40_000
EDITS = 6


def editing() -> ScriptedGenerator:
    """Edits of single lines of `big.txt`, and an answer."""
    turns: list[list[Any]] = []
    for number in range(EDITS):
        args = {"file_path": "big.txt", "old_string": line(number), "new_string": f"new {number}\n"}
        turns.append([chunk(call("replace", args, id=f"c{number}"), finish="STOP")])
    return ScriptedGenerator(*turns, [text("done")])


def line(number: int) -> str:
    return f"line {number:06} of a long text\n"


def events(path: Path, kind: str) -> list[dict[str, Any]]:
    lines = map(msgspec.json.decode, path.read_bytes().splitlines())
    told = (record["event"] for record in lines if record["type"] == "event")
    return [event for event in told if event["type"] == kind]


async def test_edits_of_a_big_file_leave_a_small_record_with_their_diffs(home: Path, project: Path):
    big = project / "big.txt"
    big.write_text("".join(map(line, range(LINES))), encoding="utf-8")
    async with agent(editing(), approve=lambda _: True) as running:
        await running.ask("change it")
        (path,) = home.glob(".gemini/tmp/*/sessions/*.jsonl")
    assert big.stat().st_size > 1_000_000
    assert "new 5\n" in big.read_text(encoding="utf-8")
    assert path.stat().st_size < EDITS * 20_000
    asked, ended = (
        events(path, f"{name}") for name in ("confirmation_request", "tool_call_response")
    )
    assert len(asked) == len(ended) == EDITS
    for number in range(EDITS):
        for shown in (asked[number]["details"], ended[number]["display"]):
            assert f"+new {number}" in shown["fileDiff"]
            assert shown["filePath"] == str(big)
            assert not {"originalContent", "newContent"} & set(shown)
    later = ScriptedGenerator([text("yes")])
    async with agent(later, resume="latest") as running:
        assert await running.ask("and?") == "yes"
    assert "new 5" in str(later.seen(0))


async def test_a_big_file_that_is_written_is_recorded_once(home: Path, project: Path):
    content = "".join(map(line, range(LINES)))
    args = {"file_path": "new.txt", "content": content}
    generator = ScriptedGenerator(
        [chunk(call("write_file", args, id="c1"), finish="STOP")], [text("done")]
    )
    async with agent(generator, approve=lambda _: True) as running:
        await running.ask("write it")
        (path,) = home.glob(".gemini/tmp/*/sessions/*.jsonl")
    assert (project / "new.txt").read_text(encoding="utf-8") == content
    assert path.stat().st_size < 1.2 * len(content)
    replay, _ = replay_journal(path)
    kept = [part.function_call for entry in replay.contents for part in entry.content.parts]
    assert [found.args for found in kept if found is not None] == [args]


LONG = "x" * 500_000
CHANGE = {"fileDiff": f"+{LONG}", "originalContent": None, "newContent": LONG, "fileName": "f"}


@pytest.mark.parametrize(
    "event",
    [
        ToolCallResponseEvent(call_id="c", name="t", status="success", display=CHANGE),
        ToolCallResponseEvent(call_id="c", name="t", status="success", display=LONG),
        ToolCallResponseEvent(
            call_id="c", name="t", status="cancelled", display={"todos": [{"description": LONG}]}
        ),
        ConfirmationRequestEvent(call_id="c", name="t", details=CHANGE | {"title": "T"}),
        ToolCallRequestEvent(call_id="c", name="t", args={"a": [{"b": LONG}]}, prompt_id="p"),
    ],
)
def test_of_long_texts_for_people_the_beginning_is_recorded(event: Event):
    records: list[KnownRecord] = []
    JournalRecorder(records.append).event(event)
    (happened,) = (bytes(item.event) for item in records if isinstance(item, Happened))
    assert len(happened) < 25_000
    assert b"x" * 10_000 in happened
    assert b"more characters]" in happened


def test_an_event_is_not_changed_for_those_who_hear_of_it_later():
    event = ToolCallResponseEvent(call_id="c", name="t", status="success", display=CHANGE)
    JournalRecorder(lambda _record: None).event(event)
    assert event.display == CHANGE
    assert CHANGE["newContent"] == LONG
