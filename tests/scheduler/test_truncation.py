import asyncio
import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.events import Event, OutputTruncatedEvent
from alhena.scheduler.executor import Executor
from alhena.tools.contract import (
    DiffStat,
    ExecutionContext,
    FileDiff,
    LlmContent,
    SpilledText,
    TerminalOutput,
    TodoList,
    ToolErrorType,
    ToolFailure,
    ToolResult,
)
from alhena.tools.output_store import OutputStore, bounded_display, limit_result
from alhena.wire.content import Blob, FunctionResponse, Part
from tests.scheduler.kit import SmallTool, Stage, response_of
from tests.support.media import png

LONG = "".join(f"line {n}\n" for n in range(10_000))
PNG = Part(
    inline_data=Blob(mime_type="image/png", data=base64.b64encode(png(b"x" * 90_000)).decode())
)


@pytest.fixture
def store(tmp_path: Path) -> OutputStore:
    return OutputStore(tmp_path / "outputs", "s1")


def stage(result: ToolResult, store: OutputStore | None, name: str = "talker") -> Stage:
    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        return result

    return Stage(SmallTool(name, body), executor=Executor(Path.cwd(), outputs=store))


def truncations(events: list[Event]) -> list[OutputTruncatedEvent]:
    return [event for event in events if isinstance(event, OutputTruncatedEvent)]


@pytest.mark.requirement("TOOLS-22")
async def test_a_long_result_of_any_tool_is_saved_whole_and_given_as_its_two_ends(
    store: OutputStore,
) -> None:
    played = stage(ToolResult(llm_content=LONG, display="shown"), store)
    (done,) = await played.run("talker")
    path = store.directory / "talker__c0.txt"
    assert response_of(done)["output"] == (
        "Output too large. Showing first 8,000 and last 32,000 characters. "
        f"For full output see: {path}\n"
        f"{LONG[:8_000]}\n\n... [{len(LONG) - 40_000:,} characters omitted] ...\n\n{LONG[-32_000:]}"
    )
    assert path.read_text(encoding="utf-8") == LONG
    assert done.response.output_file == str(path)
    assert done.response.content_length == len(response_of(done)["output"])
    (event,) = truncations(played.events)
    assert (event.call_id, event.name, event.threshold) == ("c0", "talker", 40_000)
    assert (event.original_length, event.output_file) == (len(LONG), str(path))
    assert event.truncated_length == len(response_of(done)["output"])
    assert played.responses()[0].output_file == str(path)


async def test_a_result_at_the_threshold_is_given_as_it_is(store: OutputStore) -> None:
    played = stage(ToolResult(llm_content="x" * 40_000), store)
    (done,) = await played.run("talker")
    assert response_of(done)["output"] == "x" * 40_000
    assert done.response.output_file is None
    assert truncations(played.events) == []
    assert not store.directory.exists()


@pytest.mark.requirement("TOOLS-22")
async def test_the_threshold_can_be_set_and_switched_off(tmp_path: Path) -> None:
    small = OutputStore(tmp_path, "small", threshold=100)
    (done,) = await stage(ToolResult(llm_content="x" * 101), small).run("talker")
    assert "Showing first 20 and last 80 characters" in response_of(done)["output"]
    assert "\n\n... [1 characters omitted] ...\n\n" in response_of(done)["output"]
    for threshold in (0, -1):
        off = OutputStore(tmp_path, "off", threshold=threshold)
        (done,) = await stage(ToolResult(llm_content=LONG * 10), off).run("talker")
        assert response_of(done)["output"] == LONG * 10
    assert not off.directory.exists()


@pytest.mark.parametrize(
    ("content", "whole"),
    [
        ((LONG, PNG, Part(text="end"), PNG), f"{LONG}\nend"),
        (("x" * 30_000, "y" * 30_000), "x" * 30_000 + "\n" + "y" * 30_000),
        (Part(text=LONG), LONG),
        (
            Part(function_response=FunctionResponse(name="n", response={"output": LONG})),
            LONG,
        ),
        (
            (Part(function_response=FunctionResponse(name="n", response={"a": LONG})), PNG),
            '{"a":' + msgspec.json.encode(LONG).decode() + "}",
        ),
    ],
)
async def test_words_are_cut_in_whatever_form_they_come_and_media_stay(
    store: OutputStore, content: LlmContent, whole: str
) -> None:
    (done,) = await stage(ToolResult(llm_content=content), store).run("talker")
    parts = done.response.response_parts
    images = [part for part in parts if part.inline_data is not None]
    wanted = content if isinstance(content, tuple) else ()
    assert len(images) == sum(item is PNG for item in wanted)
    words = [response_of(done)["output"], *(part.text for part in parts if part.text)]
    assert any(text.startswith("Output too large") for text in words)
    assert sum(map(len, words)) < 40_500
    (path,) = store.directory.iterdir()
    assert path.read_text(encoding="utf-8") == whole


async def test_media_alone_are_not_cut(store: OutputStore) -> None:
    (done,) = await stage(ToolResult(llm_content=PNG), store).run("talker")
    assert done.response.response_parts[1].inline_data == PNG.inline_data
    assert done.response.output_file is None


@pytest.mark.requirement("TOOLS-22")
async def test_a_long_error_is_cut_too(store: OutputStore) -> None:
    failure = ToolFailure(LONG, ToolErrorType.READ_CONTENT_FAILURE)
    (done,) = await stage(ToolResult(llm_content="", error=failure), store).run("talker")
    assert response_of(done)["error"].startswith("Output too large.")
    assert len(response_of(done)["error"]) < 40_500
    assert done.response.error_type is ToolErrorType.READ_CONTENT_FAILURE
    assert Path(str(done.response.output_file)).read_text(encoding="utf-8") == LONG


async def test_what_a_cancelled_tool_returned_is_cut_too(store: OutputStore) -> None:
    begun = asyncio.Event()

    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return ToolResult(llm_content=LONG)
        raise AssertionError("nothing sets this event")

    played = Stage(SmallTool("talker", body), executor=Executor(Path.cwd(), outputs=store))
    running = asyncio.create_task(played.run("talker"))
    await begun.wait()
    played.scheduler.cancel_all()
    (done,) = await running
    assert "Cancelled" in response_of(done)["error"]
    assert response_of(done)["output"].startswith("Output too large.")
    assert done.response.output_file is not None


@pytest.mark.requirement("TOOLS-22")
async def test_when_nothing_can_be_saved_the_result_still_comes_and_says_so(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    store = OutputStore(tmp_path / "file" / "outputs", "s1")
    played = stage(ToolResult(llm_content=LONG), store)
    (done,) = await played.run("talker")
    first = response_of(done)["output"].splitlines()[0]
    assert first.startswith(
        "Output too large. Showing first 8,000 and last 32,000 characters. "
        "The full output could not be saved: "
    )
    assert response_of(done)["output"].endswith(LONG[-32_000:])
    assert done.response.output_file is None
    (event,) = truncations(played.events)
    assert event.output_file is None
    assert event.problem


async def test_without_a_store_nothing_is_left_out() -> None:
    (done,) = await stage(ToolResult(llm_content=LONG), None).run("talker")
    assert response_of(done)["output"] == LONG


def test_a_text_that_was_spilled_is_not_saved_again(store: OutputStore) -> None:
    spilled = SpilledText(
        head="a" * 9_000, tail="z" * 90_000, characters=1_000_000, path="/kept.txt"
    )
    made = limit_result(ToolResult(llm_content="short", spilled=spilled), store, "t", "c")
    text = made.result.llm_content
    assert isinstance(text, str)
    assert text.splitlines()[0].endswith("For full output see: /kept.txt")
    assert text.count("a" * 8_000) == 1
    assert "[960,000 characters omitted]" in text
    assert text.endswith("\n\n" + "z" * 32_000)
    assert not store.directory.exists()
    assert made.result.spilled is None
    assert made.truncation is not None
    assert made.truncation.original_length == 1_000_000


def test_a_file_that_lacks_the_rest_is_said_to(store: OutputStore) -> None:
    spilled = SpilledText(
        head="a" * 9_000, tail="z" * 90_000, characters=1_000_000, path="/kept.txt",
        problem="No space left.", saved=500_000,
    )  # fmt: skip
    text = limit_result(
        ToolResult(llm_content="", spilled=spilled), store, "t", "c"
    ).result.llm_content
    assert isinstance(text, str)
    assert "For its first 500,000 characters see: /kept.txt\n" in text
    assert "The rest could not be saved: No space left." in text


@given(st.text(max_size=400), st.integers(1, 60))
def test_an_excerpt_has_both_ends_and_counts_what_is_between(
    tmp_path_factory: pytest.TempPathFactory, text: str, threshold: int
) -> None:
    store = OutputStore(tmp_path_factory.mktemp("s"), "s", threshold=threshold)
    made = limit_result(ToolResult(llm_content=text), store, "t", "c")
    shown = made.result.llm_content
    assert isinstance(shown, str)
    if len(text) <= threshold:
        assert shown == text
        return
    first = threshold // 5
    body = shown.split("\n", 1)[1]
    assert body == (
        f"{text[:first]}\n\n... [{len(text) - threshold:,} characters omitted] ...\n\n"
        f"{text[len(text) - (threshold - first) :]}"
    )


@pytest.mark.requirement("TOOLS-22")
async def test_what_a_person_sees_is_bounded_as_well() -> None:
    flood = "x" * 5_000_000
    (done,) = await stage(ToolResult(llm_content="ok", display=flood), None).run("talker")
    shown = done.response.result_display
    assert isinstance(shown, str)
    assert "\n... [4,900,000 characters omitted] ...\n" in shown
    assert len(shown) < 100_100
    diff = FileDiff(
        file_diff=flood, file_name="f", file_path="/f", original_content="", new_content="",
        diff_stat=DiffStat(),
    )  # fmt: skip
    for display in (TerminalOutput(text=flood, exit_code=3), diff):
        assert len(msgspec.json.encode(bounded_display(display))) < 100_500
    for same in ("short", TerminalOutput(text="short"), TodoList(todos=())):
        assert bounded_display(same) is same
