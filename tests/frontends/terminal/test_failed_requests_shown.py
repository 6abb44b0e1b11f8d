"""Failed requests, long texts and Markdown on the screen."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from alhena.events import (
    ApiErrorEvent,
    ApiRequestEvent,
    ConfirmationRequestEvent,
    ContentEvent,
    FinishedEvent,
    HookCallEvent,
    ModelFallbackEvent,
    RetryEvent,
    RunFinishedEvent,
    RunStartedEvent,
    ThoughtEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallsUpdateEvent,
    ToolCallUpdateEvent,
    ToolOutputEvent,
    UserMessageEvent,
    WarningEvent,
)
from alhena.frontends.terminal.drawing.lines import plain, width
from alhena.frontends.terminal.drawing.live_region import live
from alhena.frontends.terminal.drawing.view import PROMPT_END, PROMPT_ROWS, View
from tests.frontends.terminal.kit import ended, played, shown_live

STARTED = RunStartedEvent(session_id="s", model="m", cwd="/w")
REQUEST = ApiRequestEvent(model="m", prompt_id="p", contents=3)


def retry(**more: Any) -> RetryEvent:
    given: dict[str, Any] = {
        "model": "m",
        "prompt_id": "p",
        "attempt": 2,
        "max_attempts": 10,
        "delay_s": 5.0,
        "reason": "The server is busy (HTTP 503).",
        "error_type": "server",
    }
    return RetryEvent(**given | more)


def test_while_a_request_waits_to_be_sent_again_it_is_said_why_and_how_long():
    view, text = played(STARTED, REQUEST, retry())
    assert text == ""
    assert shown_live(view, columns=90, now=1.5) == snapshot(
        """\
! The server is busy (HTTP 503).
  Trying again in 4 s (attempt 2 of 10, Esc to interrupt)\
"""
    )
    assert shown_live(view, columns=18, now=1.5) == snapshot("""\
! The server is
  busy (HTTP 503).
  Trying again in
  4 s (attempt 2
  of 10, Esc to
  interrupt)\
""")
    assert "Thinking" in shown_live(view, now=5.0)
    ended, _ = played(RunFinishedEvent(reason="done", text="", turns=1, duration_ms=1), view=view)
    assert shown_live(ended, now=1.5) == ""


def test_text_that_is_taken_back_is_gone_or_said_to_be_void():
    view, text = played(STARTED, REQUEST, ContentEvent(text="Half a sen"), retry(retract=True))
    assert text == ""
    assert view.open_text == ""
    view, text = played(
        STARTED,
        REQUEST,
        ContentEvent(text="One part.\n\nAnd half of an"),
        retry(retract=True),
        ContentEvent(text="All of it."),
        RunFinishedEvent(reason="done", text="All of it.", turns=1, duration_ms=900),
    )
    assert text == snapshot("""\
|One part.|

! The answer above was cut off; it starts again.

|All of it.|

  1 turn · 900 ms\
""")


def test_what_was_answered_to_an_earlier_request_stays_good():
    _, text = played(
        STARTED, REQUEST, ContentEvent(text="Good.\n\nx"), ended("t"), REQUEST, retry(retract=True)
    )
    assert "cut off" not in text


def test_another_model_is_told_of_and_requests_of_tools_are_not():
    event = ModelFallbackEvent(
        model="b", instead_of="a", prompt_id="p", reason="The quota is used up.", error_type="quota"
    )
    view, text = played(STARTED, retry(), event, retry(role="subagent"))
    assert text == snapshot("! b answers from here on instead of a: The quota is used up.")
    assert view.pause is None


@pytest.mark.parametrize(
    "event",
    [
        ToolCallsUpdateEvent(calls=()),
        ConfirmationRequestEvent(call_id="1", name="x", details={}),
        FinishedEvent(finish_reason="STOP"),
        ApiErrorEvent(model="m", prompt_id="p", duration_ms=1, error_type="e", message="m"),
        HookCallEvent(
            event="BeforeTool",
            name="h",
            kind="command",
            source="user",
            duration_ms=1,
            success=True,
            outcome="allow",
        ),
    ],
)
def test_events_that_tell_a_person_nothing_change_nothing(event: Any):
    before, _ = played(STARTED, REQUEST)
    assert played(event, view=before) == (before, "")


def test_a_long_prompt_leaves_its_beginning_and_its_end():
    lines = [f"line {n}" for n in range(5_000)]
    _, text = played(UserMessageEvent(prompt_id="p", text="\n".join(lines)))
    shown = text.split("\n")
    assert shown[0] == "┃ > line 0"
    assert shown[PROMPT_ROWS - 1 : PROMPT_ROWS + 2] == [
        "┃   line 39",
        "┃   … 4,955 more lines … · Ctrl-O",
        "┃   line 4995",
    ]
    assert len(shown) == PROMPT_ROWS + 1 + PROMPT_END
    _, text = played(UserMessageEvent(prompt_id="p", text="\n".join(lines[:45])))
    assert "…" not in text


def test_the_row_of_a_tool_has_the_size_of_its_text():
    display = "### ReadManyFiles Result\n\nRead **3 file(s)**.\n\n**Files:**\n- a\n- b"
    _, text = played(ended("read_many_files", display))
    assert text == "✓ Read (7 lines) · 1.2 s"
    _, text = played(ended("glob", 'Found 3 files for "**/a/**" and 2**3**4'))
    assert '"**/a/**" and 2**3**4' in text


def test_output_of_a_command_of_the_persons_own_is_shown_whole():
    display = {"type": "terminal_output", "text": "".join(f"{n}\n" for n in range(40))}
    _, text = played(ended("run_shell_command", display))
    assert "… 28 lines above · Ctrl-O\n  28\n" in text
    _, text = played(ended("run_shell_command", display), view=View(own=frozenset({"1"})))
    assert "above" not in text
    assert "\n  0\n" in text


TEXT = st.text("ab 漢🎉\x1b\n`*#|-\u202e", max_size=20)
CALL = st.sampled_from(["1", "2", "3"])
EVENTS = st.one_of(
    st.builds(ContentEvent, text=TEXT),
    st.builds(ThoughtEvent, subject=TEXT, description=TEXT),
    st.builds(WarningEvent, message=TEXT),
    st.builds(UserMessageEvent, prompt_id=st.just("p"), text=TEXT),
    st.just(REQUEST),
    st.builds(retry, retract=st.booleans(), reason=TEXT, delay_s=st.floats(0, 9)),
    st.builds(
        ToolCallRequestEvent, call_id=CALL, name=TEXT, args=st.just({}), prompt_id=st.just("p")
    ),
    st.builds(
        ToolCallUpdateEvent,
        call_id=CALL,
        name=TEXT,
        status=st.sampled_from(["validating", "awaiting_approval", "executing"]),
        description=TEXT,
    ),
    st.builds(ToolOutputEvent, call_id=CALL, text=TEXT),
    st.builds(
        ToolCallResponseEvent,
        call_id=CALL,
        name=TEXT,
        status=st.sampled_from(["success", "error", "cancelled"]),
        display=st.none() | TEXT,
        error=st.none() | TEXT,
    ),
)
FINISHED = RunFinishedEvent(reason="done", text="", turns=1, duration_ms=1)


@given(st.lists(EVENTS, max_size=30), st.integers(1, 30), st.integers(0, 8), st.floats(0, 99))
def test_whatever_comes_in_whatever_order_is_shown_and_has_an_end(
    events: list[Any], columns: int, rows: int, now: float
):
    view, printed = played(STARTED, *events)
    lines = live(view, columns, rows, now)
    assert len(lines) <= rows
    assert all(width(plain([each])) <= columns for each in lines)
    assert "\x1b" not in printed + plain(lines)
    said = sum(len(event.text) for event in events if isinstance(event, ContentEvent))
    assert len(view.open_text) <= said
    view, _ = played(FINISHED, view=view)
    assert (live(view, columns, rows, now), view.calls, view.open_text) == ([], (), "")
