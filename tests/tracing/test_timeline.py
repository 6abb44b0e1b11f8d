"""From the records of a journal to steps with their times."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.events import (
    ApiErrorEvent,
    ApiResponseEvent,
    CompressedEvent,
    ConfirmationRequestEvent,
    Event,
    HookCallEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
    UserMessageEvent,
    WarningEvent,
    timestamp,
)
from alhena.models.prices import Prices
from alhena.session.records import Continued, Header, KnownRecord, line_of
from alhena.session.replay import JournalRecorder
from alhena.telemetry.records import Redaction
from alhena.tracing.page import as_page, fitting
from alhena.tracing.timeline import Step, StepKind, Timeline, read_timeline
from alhena.wire.content import FunctionResponse, Part
from tests.tracing.kit import data_of, long_journal

pytestmark = pytest.mark.requirement("VIEW-01")
START = 1_769_860_800_000


class Tape:
    """A journal of events, each at a time in milliseconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._now = START
        self._lines: list[bytes] = []
        self._chain = 0
        self._recorder = JournalRecorder(self._append, self._clock)
        self._append(Header(at=self._clock(), version=1, session_id="s", project="/p"))

    def at(self, milliseconds: int, *events: Event) -> None:
        self._now = START + milliseconds
        for event in events:
            self._recorder.event(event)

    def record(self, milliseconds: int, record: KnownRecord) -> None:
        self._now = START + milliseconds
        self._append(msgspec.structs.replace(record, at=self._clock()))

    def read(self) -> Timeline:
        self._path.write_bytes(b"".join(self._lines))
        return read_timeline(self._path, Prices({}))

    @property
    def size(self) -> int:
        return self._path.stat().st_size

    def _clock(self) -> str:
        return timestamp(1_000_000 * self._now)

    def _append(self, record: KnownRecord) -> None:
        line, self._chain = line_of(record, self._chain)
        self._lines.append(line)


@pytest.fixture
def tape(tmp_path: Path) -> Tape:
    return Tape(tmp_path / "s.jsonl")


def request(call_id: str) -> ToolCallRequestEvent:
    return ToolCallRequestEvent(call_id=call_id, name="t", args={"n": 1}, prompt_id="p")


def asks(call_id: str) -> ConfirmationRequestEvent:
    return ConfirmationRequestEvent(call_id=call_id, name="t", details={})


def enters(call_id: str, status: str) -> ToolCallUpdateEvent:
    return ToolCallUpdateEvent(call_id=call_id, name="t", status=status)


def ends(call_id: str, status: str = "success", **fields: Any) -> ToolCallResponseEvent:
    return ToolCallResponseEvent(call_id=call_id, name="t", status=status, **fields)


def call(timeline: Timeline, call_id: str = "c") -> Step:
    (step,) = (step for step in timeline.steps if step.call_id == call_id)
    return step


def test_waiting_for_a_person_is_neither_the_tools_time_nor_that_of_hooks(tape: Tape):
    tape.at(0, request("c"))
    tape.at(100, asks("c"))
    hook = HookCallEvent(
        event="BeforeTool",
        name="h",
        kind="command",
        source="user",
        duration_ms=200.0,
        success=True,
        outcome="allow",
    )
    tape.at(5_300, hook)
    tape.at(5_310, enters("c", "scheduled"), enters("c", "executing"))
    tape.at(5_360, ends("c", duration_ms=50.0, decision="accept"))
    timeline = tape.read()
    step = call(timeline)
    assert (step.at, step.wait, step.started, step.took, step.end) == (0, 5_000, 5_310, 50, 5_360)
    assert step.decision == "approved"
    assert (timeline.totals.waiting, timeline.totals.tool_time) == (5_000, 50)


def test_a_call_that_a_person_refuses_took_no_time_but_theirs(tape: Tape):
    tape.at(0, request("c"), asks("c"))
    tape.at(700, asks("c"))
    tape.at(900, ends("c", "cancelled", duration_ms=900.0, decision="reject", denied=True))
    step = call(tape.read())
    assert (step.wait, step.took, step.started, step.decision) == (900, 0, None, "denied")


def test_a_request_begins_before_its_answer_and_a_prompt_before_its_request(tape: Tape):
    answer = ApiResponseEvent(model="gemini-2.5-flash", prompt_id="p", duration_ms=400.0)
    tape.at(100, UserMessageEvent(prompt_id="p", text="hi"), answer)
    prompt, model = tape.read().steps
    assert (prompt.kind, prompt.at, model.at, model.took) == (StepKind.PROMPT, 0, 0, 400)


def test_requests_without_a_price_are_counted_and_cost_nothing(tape: Tape):
    usage: dict[str, Any] = {"prompt_id": "p", "duration_ms": 1.0, "input_tokens": 1_000_000}
    tape.at(1, ApiResponseEvent(model="gemini-2.5-flash", cached_tokens=500_000, **usage))
    tape.at(2, ApiResponseEvent(model="mine", thoughts_tokens=7, **usage))
    failed = ApiErrorEvent(model="m", prompt_id="p", duration_ms=3.0, error_type="x", message="y")
    tape.at(9, failed)
    totals = tape.read().totals
    assert totals.cost == pytest.approx(0.5 * 0.3 + 0.5 * 0.03)
    assert (totals.unpriced, totals.requests, totals.model_time) == (1, 3, 5)
    assert (totals.input_tokens, totals.cached_tokens, totals.output_tokens) == (
        2_000_000,
        500_000,
        7,
    )


def test_arguments_that_were_changed_are_shown_with_those_of_the_model(tape: Tape):
    tape.at(0, request("c"), ends("c", args={"n": 2}, proposed_args={"n": 1}, decision="modify"))
    step = call(tape.read())
    assert (step.args, step.proposed_args) == ({"n": 2}, {"n": 1})
    assert step.decision == "approved with changes"


def test_what_else_happened_is_a_note(tape: Tape):
    compressed = CompressedEvent(original_tokens=9_000, new_tokens=10, status="compressed")
    tape.at(0, WarningEvent(message="Low."), compressed)
    notes = [(step.name, step.text, step.status) for step in tape.read().steps]
    assert notes == [
        ("warning", "Low.", ""),
        ("compressed", "9,000 to 10 tokens", "compressed"),
    ]


def test_a_call_that_a_hook_put_in_the_place_of_another_has_the_result(tape: Tape):
    answer = Part(function_response=FunctionResponse(id="c", name="t", response={"output": "fine"}))
    replacement = msgspec.structs.replace(request("c~2"), replaces="c")
    tape.at(0, request("c"), ends("c"), replacement)
    tape.at(1, ends("c~2", replaces="c", parts=(answer,)))
    timeline = tape.read()
    assert (call(timeline, "c").result, call(timeline, "c~2").result) == ("", "fine")
    assert call(timeline, "c~2").replaces == "c"


def test_a_question_that_a_crash_left_open_is_no_waiting(tape: Tape):
    tape.at(0, request("c"), asks("c"))
    tape.record(86_400_000, Continued(at="2026-02-01T12:00:00.000Z"))
    timeline = tape.read()
    assert (call(timeline).wait, call(timeline).status) == (0, "no result was recorded")
    assert timeline.steps[-1].name == "resumed"


@pytest.mark.parametrize(
    ("calls", "result", "most"),
    [
        (10, "<b>'\"\n" * 10_000, 300_000),
        (1_200, "line\n" * 2_000, 1_500_000),
        (1_200, "\u20ac<" * 2_000, 1_500_000),
        (3_000, "", None),
    ],
)
def test_a_page_is_small_whatever_the_calls_bring(
    tmp_path: Path, calls: int, result: str, most: int | None
):
    journal = long_journal(tmp_path / "s.jsonl", calls, result)
    size = journal.stat().st_size
    page = as_page(read_timeline(journal, Prices({})), Redaction({}), journal_size=size)
    assert len(page) < (most or size)
    steps = [each for each in data_of(page)["steps"] if each["kind"] == "tool"]
    assert len(steps) == calls
    assert ("more characters]" in steps[-1]["result"]) == (result != "")


def test_a_long_conversation_without_calls_is_hardly_cut(tape: Tape):
    for turn in range(300):
        text = f"{turn} " + "words " * 200
        tape.at(turn, UserMessageEvent(prompt_id="p", text=text))
    timeline, size = tape.read(), tape.size
    page = as_page(timeline, Redaction({}), journal_size=size)
    assert len(page) < size + 60_000
    assert all(len(step["text"]) > 600 for step in data_of(page)["steps"])


def test_short_texts_are_whole_where_long_ones_are_cut():
    assert fitting([10, 10, 5_000, 9_000], 4_020) == 2_000
    assert fitting([10, 20], 1_000) == 100
    assert fitting([], 0) == 100


def test_an_export_has_every_text_whole(tmp_path: Path):
    journal = long_journal(tmp_path / "s.jsonl", 2, "x" * 100_000)
    page = as_page(read_timeline(journal, Prices({})), Redaction({}), view="conversation")
    data = data_of(page)
    assert data["steps"][2]["result"] == "x" * 100_000
    assert data["talk"] == [0, 2, 4]
    assert [data["steps"][at]["kind"] for at in data["talk"]] == ["prompt", "tool", "tool"]
