"""Whatever happens to a history, the journal says the same, byte for byte."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.chat.chat import Chat, Outlets
from alhena.chat.history import History
from alhena.chat.turn import ModelTraits
from alhena.events import (
    ApiRequestEvent,
    Event,
    HookCallEvent,
    RunFinishedEvent,
    RunStartedEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
    UserMessageEvent,
    WarningEvent,
)
from alhena.session.journal import Disk, scan
from alhena.session.recording import Recording
from alhena.session.records import JournalError, KnownRecord, Started, line_of, record_of
from alhena.session.replay import JournalRecorder, Replay
from alhena.system.files import synchronise
from alhena.wire.content import (
    MODEL,
    Content,
    FunctionCall,
    FunctionResponse,
    Part,
    text_content,
)
from alhena.wire.request import GenerateContentConfig
from tests.session.kit import HEADER
from tests.support.scripted import ScriptedGenerator

WORDS = st.text(max_size=20).map(lambda text: text or "-")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), WORDS),
        st.tuples(st.just("call"), st.lists(WORDS, min_size=1, max_size=3)),
        st.tuples(st.just("back"), st.integers(0, 9)),
        st.tuples(st.just("restate"), WORDS),
        st.tuples(st.just("anew"), st.integers(0, 3)),
    ),
    max_size=14,
)


def response(call_id: str, value: Any) -> Part:
    return Part(
        function_response=FunctionResponse(id=call_id, name="t", response={"output": value})
    )


class Played:
    """A history whose journal is kept in memory."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.chain = 0
        self.recorder = JournalRecorder(self.append, clock=lambda: "now")
        self.append(HEADER)
        self.chat = Chat(
            ScriptedGenerator(),
            ModelTraits(name="m"),
            GenerateContentConfig(),
            History(),
            Outlets(lambda _event: None, _at_once),
        )
        self.chat.history.watch = self.recorder.history
        self.calls = 0

    def append(self, record: KnownRecord) -> None:
        line, self.chain = line_of(record, self.chain)
        self.lines.append(line)

    def step(self, kind: str, value: Any) -> None:
        history = self.chat.history
        match kind:
            case "say":
                history.add_user((Part(text=value),))
                history.add_model(text_content(MODEL, f"{value}!"))
            case "call":
                self.call(value)
            case "back":
                history.rollback(min(value, len(history)))
            case "restate":
                history.restate(
                    lambda content: text_content(MODEL, value) if len(value) > 9 else content
                )
            case _:
                self.chat.history = History(
                    [entry.content for entry in history.contents[: 2 * value]]
                )

    def call(self, values: list[str]) -> None:
        history = self.chat.history
        ids = [f"c{self.calls + index}" for index in range(len(values))]
        self.calls += len(values)
        parts = tuple(Part(function_call=FunctionCall(id=each, name="t")) for each in ids)
        history.add_model(Content(role=MODEL, parts=parts))
        answers = [response(each, value) for each, value in zip(ids, values, strict=True)]
        for each, part in zip(ids, answers, strict=True):
            self.recorder.event(
                ToolCallResponseEvent(call_id=each, name="t", status="success", parts=(part,))
            )
        history.add_user(tuple(answers))

    def replay(self) -> Replay:
        replay = Replay()
        for line in self.lines:
            replay.feed(line.rstrip())
        return replay


async def _at_once() -> None:
    pass


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_a_journal_leads_to_the_bytes_of_the_history(steps: list[tuple[str, Any]]):
    played = Played()
    for kind, value in steps:
        played.step(kind, value)
        wanted = [bytes(entry.raw) for entry in played.chat.history.contents]
        assert [bytes(entry.raw) for entry in played.replay().contents] == wanted


def test_a_result_is_written_once():
    played = Played()
    played.step("say", "go")
    played.call(["x" * 5_000])
    assert sum(map(len, played.lines)) < 6_000
    assert "x" * 5_000 in str(played.replay().contents[-1].content)


@pytest.mark.parametrize("value", [float("nan"), "\ud800 alone", {"deep": [float("-inf")]}])
def test_what_json_cannot_carry_is_recorded_as_it_is_sent(value: Any):
    played = Played()
    played.call([value])
    sent = played.chat.history.contents
    assert [entry.raw for entry in played.replay().contents] == [entry.raw for entry in sent]


def test_an_event_that_has_no_json_form_is_told_by_its_type():
    played = Played()
    loop: dict[str, Any] = {}
    loop["self"] = loop
    played.recorder.event(
        ToolCallRequestEvent(call_id="c", name="t", args={"a": object(), "b": loop}, prompt_id="p")
    )
    event = msgspec.json.decode(played.lines[-1])["event"]
    assert event["type"] == "tool_call_request"
    assert event["problem"]


def test_what_hooks_read_is_not_written_down_again():
    played = Played()
    played.recorder.event(
        HookCallEvent(
            event="BeforeModel",
            name="h",
            kind="command",
            source="user",
            duration_ms=1,
            success=True,
            outcome="allow",
            input={"llm_request": "x" * 10_000},
        )
    )
    assert len(played.lines[-1]) < 500


def test_a_call_of_a_subagent_is_told_but_is_no_call_of_the_conversation():
    played = Played()
    for event in (
        ToolCallUpdateEvent(call_id="p/c", name="t", status="executing", parent_call_id="p"),
        ToolCallResponseEvent(
            call_id="p/c", name="t", status="success", parts=(response("c", 1),), parent_call_id="p"
        ),
    ):
        played.recorder.event(event)
    kinds = [msgspec.json.decode(line)["type"] for line in played.lines]
    assert kinds == ["session", "event", "event"]


class Machine:
    """A disk that knows what would be left if the power went now."""

    def __init__(self) -> None:
        self.written = b""
        self.safe = b""

    def write(self, descriptor: int, data: bytes) -> int:
        self.written += data
        return os.write(descriptor, data)

    def synchronise(self, descriptor: int) -> None:
        synchronise(descriptor)
        self.safe = self.written

    @property
    def disk(self) -> Disk:
        return Disk(write=self.write, synchronise=self.synchronise)

    def after(self, kept: int) -> bytes:
        """File content after a power cut: some of the unsynchronised bytes, and NULs."""
        rest = self.written[len(self.safe) :]
        return self.safe + rest[:kept] + b"\0" * (len(rest) - kept)


def recording(tmp_path: Path, machine: Machine, heard: list[Event]) -> Recording:
    return Recording("s", tmp_path / "temp", tmp_path, heard.append, machine.disk)


def prompt(into: Recording, text: str) -> None:
    into.event(RunStartedEvent(session_id="s", model="m", cwd="/"))
    into.event(UserMessageEvent(prompt_id="s#1", text=text))
    into.event(ApiRequestEvent(model="m", prompt_id="s#1", contents=1))


async def test_a_power_cut_takes_nothing_that_was_settled(tmp_path: Path):
    machine = Machine()
    into = recording(tmp_path, machine, [])
    history = History()
    history.watch = into.history
    settled: list[bytes] = []
    for index in range(12):
        prompt(into, f"p{index}")
        history.add_user((Part(text=f"p{index}"),))
        history.add_model(text_content(MODEL, f"a{index}"))
        if index % 3 == 2:
            await into.settle()
            assert machine.safe == machine.written
            settled = [bytes(entry.raw) for entry in history.contents]
        for kept in (0, 1, 40, 10_000):
            found = _find_media(tmp_path, machine.after(kept))
            assert found[: len(settled)] == settled
    await into.aclose()
    assert _find_media(tmp_path, machine.safe) == [bytes(entry.raw) for entry in history.contents]


def _find_media(tmp_path: Path, data: bytes) -> list[bytes]:
    path = tmp_path / "found"
    path.write_bytes(data)
    replay = Replay()
    with path.open("rb") as file:
        scan(file, replay.feed)
    return [bytes(entry.raw) for entry in replay.contents]


async def test_nothing_is_made_before_an_answer_begins(tmp_path: Path):
    into = recording(tmp_path, Machine(), [])
    prompt(into, "hi")
    assert not (tmp_path / "temp").exists()
    into.event(WarningEvent(message="the server answers"))
    assert into.path.exists()
    assert into.path.stat().st_mode & 0o777 == 0o600
    await into.aclose()


async def test_what_a_hook_may_read_is_there_with_the_prompt(tmp_path: Path):
    into = recording(tmp_path, Machine(), [])
    into.at_once = True
    into.event(UserMessageEvent(prompt_id="s#1", text="hi"))
    assert '"type":"prompt"' in into.path.read_text(encoding="utf-8")
    await into.aclose()


async def test_a_run_without_a_prompt_is_not_recorded(tmp_path: Path):
    into = recording(tmp_path, Machine(), [])
    into.event(RunFinishedEvent(reason="done", text="", turns=0, duration_ms=0))
    await into.settle()
    await into.aclose()
    assert not (tmp_path / "temp").exists()


async def test_what_could_not_be_written_is_said_until_it_can_be(tmp_path: Path):
    machine = Machine()
    full = True

    def write(descriptor: int, data: bytes) -> int:
        if full and machine.written:
            raise OSError(28, "No space left on device")
        return machine.write(descriptor, data)

    disk = Disk(write=write, synchronise=machine.synchronise)
    into = Recording("s", tmp_path / "temp", tmp_path, lambda _event: None, disk)
    prompt(into, "hi")
    into.event(WarningEvent(message="the answer begins"))
    await asyncio.sleep(0)  # what comes about together is written together
    assert into.failed
    with pytest.raises(JournalError, match="ENOSPC"):
        await into.settle()
    assert await into.flush() is None  # it was said
    full = False
    assert await into.flush() is None
    assert not into.failed
    await into.aclose()
    kinds = [record_of(line.rstrip()).__class__.__name__ for line in machine.safe.splitlines()]
    assert kinds == ["Header", "Happened", "Prompted", "Happened"]


async def test_a_step_that_did_not_reach_the_disk_is_said_at_the_next(tmp_path: Path):
    machine = Machine()
    broken = threading.Event()
    tried = threading.Event()

    def failing(descriptor: int) -> None:
        if broken.is_set():
            tried.set()
            raise OSError(5, "Input/output error")
        machine.synchronise(descriptor)

    disk = Disk(write=machine.write, synchronise=failing)
    into = Recording("s", tmp_path / "temp", tmp_path, lambda _event: None, disk)
    prompt(into, "hi")
    into.event(WarningEvent(message="the answer begins"))
    broken.set()
    await into.step()
    await asyncio.to_thread(tried.wait, 5)
    while not into._journal.doubtful:
        await asyncio.sleep(0)
    with pytest.raises(JournalError, match="EIO"):
        await into.step()
    broken.clear()
    await into.step()
    await into.settle()
    await into.aclose()
    assert into.path.read_bytes().count(b'"type":"prompt"') == 1
    assert machine.safe.endswith(into.path.read_bytes()[-200:])


def test_a_call_is_on_record_as_started_before_anything_else_of_it():
    played = Played()
    played.recorder.event(ToolCallUpdateEvent(call_id="c", name="t", status="executing"))
    played.recorder.event(ToolCallUpdateEvent(call_id="c", name="t", status="executing", pid=7))
    records = [record_of(line.rstrip()) for line in played.lines[1:]]
    assert [type(record) for record in records] == [Started]
