"""Output that is shown, and the lines that are said not to be shown, are the output that was made."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.events import ToolCallResponseEvent, ToolCallUpdateEvent, ToolOutputEvent
from alhena.frontends.terminal.drawing.call_result import (
    COLUMNS,
    MAX_CHARACTERS,
    MAX_PAGES,
    PagerBlock,
    PagerBlocks,
    ended_lines,
    header,
    is_more,
)
from alhena.frontends.terminal.drawing.diff import diff_lines
from alhena.frontends.terminal.drawing.lines import Line, plain
from alhena.frontends.terminal.drawing.live_region import live
from alhena.frontends.terminal.drawing.view import View, advance
from alhena.system.screen_text import ScreenText
from alhena.system.workspace import Workspace
from alhena.tools.builtin.run_shell_command import RunShellCommand
from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.test_conversation import finished, sitting
from tests.support.scripted import ScriptedGenerator
from tests.tools.files import call

HIDDEN = re.compile(r"  … (?:at least )?([\d,]+) (?:more )?lines?(?: above)? · Ctrl-O$")
CUT = re.compile(r"… ([\d,]+) more characters? · Ctrl-O$")
IN_ROW = re.compile(r"✓ T \((?:(?P<lines>[\d,]+) lines?|(?P<text>.*))\)")


def counted(lines: list[Line]) -> tuple[list[str], int]:
    """The rows of an output that are shown, and the number of those that are said not to be."""
    shown: list[str] = []
    hidden = 0
    for row in plain(lines).split("\n") if lines else []:
        found = HIDDEN.fullmatch(row)
        if found:
            hidden += int(found[1].replace(",", ""))
        else:
            shown.append(row.removeprefix("  "))
    return shown, hidden


def ended(display: str | dict[str, Any] | None, **more: Any) -> ToolCallResponseEvent:
    given_: dict[str, Any] = {"call_id": "1", "name": "t", "status": "success", **more}
    return ToolCallResponseEvent(display=display, **given_)


def row_of(event: ToolCallResponseEvent) -> str:
    """The row of an ended call."""
    return plain([header(event, "T", "")])


def output_of(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "terminal_output", "text": text, "exit_code": 0, "signal": None, **more}


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("status", ["success", "error", "cancelled"])
@pytest.mark.parametrize("own", [False, True])
def test_no_line_of_an_output_of_any_length_is_lost(status: str, own: bool, end: str):
    for count in (*range(1, 40), 1_999, 2_000, 2_001, 5_000):
        made = [str(number) for number in range(1, count + 1)]
        event = ended(output_of("\n".join(made) + end), status=status, error="It failed.")
        lines = ended_lines(event, own=own)
        shown, hidden = counted(lines)
        assert len(shown) + hidden == count
        assert is_more(event, lines, seen=False) or not hidden
        assert shown == made[count - len(shown) :]
        assert ("It failed." in row_of(event)) == (status == "error")


def test_an_error_of_a_command_is_shown_beside_its_exit_code_and_can_be_read_with_the_output():
    for error in ("It failed.", "\n".join(f"reason {number}" for number in range(20))):
        event = ended(output_of("made", exit_code=1), status="error", error=error)
        lines = ended_lines(event)
        shown, hidden = counted(lines)
        assert row_of(event) == "✗ T · exit 1"
        assert len(shown) + hidden == error.count("\n") + 2
        assert (shown[0], shown[-1]) == (error.split("\n")[0], "made")
        pages = PagerBlocks()
        assert pages.call(event, "") == 1
        assert pages.items[0].whole == f"{error}\n\nmade"


LINE = st.text("ab 漢🎉é", max_size=12)


@given(st.lists(LINE, min_size=1, max_size=30), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=60)
def test_blank_and_wide_lines_count_as_the_others_do(made: list[str], ends: bool, is_text: bool):
    text = "\n".join(made) + "\n" * ends
    if not ends and not made[-1]:
        return  # the same text as with one line less that ends
    event = ended(text if is_text else output_of(text))
    shown, hidden = counted(ended_lines(event))
    if is_text:
        assert (shown, hidden) == ([], 0)
        assert_in_row(event, made)
    else:
        assert len(shown) + hidden == len(made)
        assert all(row in made for row in shown)


def assert_in_row(event: ToolCallResponseEvent, made: list[str]) -> None:
    """The row of a call whose result is this text has its only line, or else the number of all
    its lines; any text can be opened."""
    said = [line for line in made if line.strip()]
    found = IN_ROW.fullmatch(row_of(event))
    if not said:
        assert row_of(event) == "✓ T"
    elif len(said) == 1:
        assert found
        assert found["text"] == said[0].strip()
    else:
        assert found
        assert found["lines"] == str(len(made))
    assert is_more(event, ended_lines(event), seen=False)
    assert PagerBlocks().call(event, "") == bool(said)


@given(st.binary(max_size=200), st.integers(1, 50))
@settings(deadline=None, max_examples=60)
def test_what_a_terminal_is_told_to_do_changes_no_count(data: bytes, at: int):
    converter = ScreenText(pipe=True)
    text = converter.feed(data[:at]) + converter.feed(data[at:], final=True)
    shown, hidden = counted(ended_lines(ended(output_of(text))))
    assert len(shown) + hidden == text.count("\n") + bool(text and not text.endswith("\n"))


@pytest.mark.parametrize("length", [COLUMNS - 1, COLUMNS, COLUMNS + 1, COLUMNS + 5_000])
@pytest.mark.parametrize("letter", ["x", "漢"])
def test_a_long_line_says_how_many_characters_are_left_out(length: int, letter: str):
    (row,), _ = counted(ended_lines(ended(output_of(letter * length))))
    found = CUT.search(row)
    hidden = int(found[1].replace(",", "")) if found else 0
    assert row.count(letter) + hidden == length


def test_an_output_whose_middle_is_gone_counts_all_of_its_lines():
    text = "1\n2\n\n\n... [488,000 characters omitted] ...\n\n" + "\n".join(
        map(str, range(90, 110))
    )
    shown, hidden = counted(ended_lines(ended(output_of(text, lines=100_000))))
    assert len(shown) + hidden == 100_000
    short = "1\n\n... [9 characters omitted] ...\n\n8"  # the note itself is shown
    assert counted(ended_lines(ended(output_of(short, lines=8)))) == (short.split("\n"), 0)


@pytest.mark.parametrize("count", [1, 11, 20_000])
async def test_a_command_says_how_many_lines_it_wrote(project: Path, count: int):
    result = await call(RunShellCommand(Workspace(project)), command=f"seq 1 {count}")
    display: Any = result.display
    shown, hidden = counted(ended_lines(ended(output_of(display.text, lines=display.lines))))
    assert len(shown) + hidden == count
    assert shown[-1] == str(count)


@pytest.mark.parametrize(("command", "made"), [("echo", 1), ("echo; echo", 2), ("echo a; echo", 2)])
async def test_blank_lines_at_the_end_of_an_output_are_lines(
    project: Path, command: str, made: int
):
    result = await call(RunShellCommand(Workspace(project)), command=command)
    display: Any = result.display
    shown, hidden = counted(ended_lines(ended(output_of(display.text))))
    assert (len(shown), hidden) == (made, 0)


@pytest.mark.parametrize("count", [1, 3, 4, 40])
def test_text_and_errors_say_how_many_lines_more_there_are(count: int):
    text = "\n".join(f"line {n}" for n in range(count))
    assert_in_row(ended(text), text.split("\n"))
    failed = ended(None, status="error", error=text)
    shown, hidden = counted(ended_lines(failed))
    if count == 1:
        assert (row_of(failed), shown, hidden) == (f"✗ T · {text}", [], 0)
    else:
        assert len(shown) + hidden == count
    assert is_more(failed, ended_lines(failed), seen=False) == bool(hidden)


@pytest.mark.parametrize("count", [39, 40, 41, 500])
def test_a_long_diff_says_how_many_lines_more_there_are(count: int):
    diff = "@@ -0,0 +1 @@\n" + "\n".join(f"+{n}" for n in range(count))
    shown, hidden = counted(ended_lines(ended({"type": "file_diff", "fileDiff": diff})))
    assert len(shown) + hidden == len(diff_lines(diff)) == count


@pytest.mark.parametrize("pieces", [1, 7])
def test_a_running_command_says_how_many_lines_are_above_its_last(pieces: int):
    for count in (*range(1, 20), 3_000):
        view, _ = advance(
            View(busy_since=0.0),
            ToolCallUpdateEvent(call_id="1", name="t", status="executing", description=""),
            0.0,
        )
        text = "".join(f"{number}\n" for number in range(1, count + 1))
        for piece in range(pieces):
            part = text[len(text) * piece // pieces : len(text) * (piece + 1) // pieces]
            view, _ = advance(view, ToolOutputEvent(call_id="1", text=part), 0.0)
        rows = plain(live(view, 40, 50, 0.0)).split("\n")[1:]
        above = re.fullmatch(r"  │ … ([\d,]+) lines? above", rows[0])
        shown = rows[1:] if above else rows
        hidden = int(above[1].replace(",", "")) if above else 0
        assert len(shown) + hidden == count
        assert shown[-1] == f"  │ {count}"


def test_a_region_that_is_too_low_says_so():
    view = View(busy_since=0.0)
    for number in range(6):
        update = ToolCallUpdateEvent(
            call_id=str(number), name="t", status="executing", description=f"n {number}"
        )
        view, _ = advance(view, update, 0.0)
    rows = plain(live(view, 40, 4, 0.0)).split("\n")
    assert rows[0] == "… 3 lines above"
    assert len(rows) == 4


def test_a_page_says_what_it_leaves_out(project: Path):
    whole = PagerBlock("t", "x" * (MAX_CHARACTERS + 5), str(project / "gone")).whole
    assert whole.startswith(f"… 5 characters above; all of it: {project / 'gone'}\nx")
    pages = PagerBlocks()
    for number in range(MAX_PAGES + 3):
        pages.call(ended("text", call_id=str(number)), "")
    assert (len(pages.items), pages.dropped) == (MAX_PAGES, 3)


async def test_show_takes_the_numbers_of_the_rows_also_when_older_blocks_are_dropped():
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        for number in range(1, MAX_PAGES + 4):
            assert conversation.pages.call(ended(f"text {number}"), "") == number
        shown = await finished(conversation, screen, "/show 203", "/show 3", "/show")
    assert "> /show 203\n\ntext 203\n" in shown
    assert "There is no block 3. /show lists them." in shown
    assert "\n  4 t\n" in shown
