"""Events as text on the screen: pure, so that no terminal is needed."""

from typing import Any

from inline_snapshot import snapshot

from alhena.events import (
    ApiRequestEvent,
    ApiResponseEvent,
    ContentEvent,
    ErrorEvent,
    OutputTruncatedEvent,
    RunFinishedEvent,
    RunStartedEvent,
    ThoughtEvent,
    ToolCallRequestEvent,
    ToolCallUpdateEvent,
    ToolOutputEvent,
    UserMessageEvent,
    WarningEvent,
)
from alhena.frontends.terminal.drawing.lines import Lines, width
from alhena.frontends.terminal.drawing.live_region import live
from alhena.frontends.terminal.drawing.view import View, advance
from alhena.frontends.terminal.looks.theme import ANSI
from tests.frontends.terminal.kit import ended, played, shown_live

STARTED = RunStartedEvent(session_id="s", model="m", cwd="/w")
TITLES = View(titles={"run_shell_command": "Shell", "replace": "Edit"})
DIFF = "--- a.py\tOriginal\n+++ a.py\tWritten\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"


def requested(name: str, call_id: str = "1", **more: Any) -> ToolCallRequestEvent:
    return ToolCallRequestEvent(call_id=call_id, name=name, args={}, prompt_id="p", **more)


def executing(name: str, description: str = "", call_id: str = "1") -> ToolCallUpdateEvent:
    return ToolCallUpdateEvent(
        call_id=call_id, name=name, status="executing", description=description
    )


def test_a_whole_prompt_reads_like_a_conversation():
    view, text = played(
        STARTED,
        UserMessageEvent(prompt_id="p", text="fix it\nplease"),
        ThoughtEvent(subject="Looking", description="..."),
        ApiRequestEvent(model="m", prompt_id="p", contents=3),
        ContentEvent(text="I will run "),
        ContentEvent(text="the tests.\n\nNow"),
        ApiResponseEvent(
            model="m", prompt_id="p", duration_ms=5, input_tokens=1200, output_tokens=30
        ),
        requested("run_shell_command"),
        executing("run_shell_command", "make test"),
        ended(
            "run_shell_command", {"type": "terminal_output", "text": "1 failed\n", "exit_code": 2}
        ),
        ContentEvent(text="It fails."),
        RunFinishedEvent(reason="done", text="It fails.", turns=2, duration_ms=65_000),
        view=TITLES,
    )
    assert text == snapshot("""\
┃ > fix it
┃   please

|I will run the tests.|

|Now|

✗ Shell make test · exit 2 · 1.2 s
  1 failed

|It fails.|

  2 turns · 1 call (1 failed) · 1 min 5 s · 1,200 tokens in, 30 out\
""")
    assert (view.busy_since, view.calls, view.open_text) == (None, (), "")


def test_the_open_end_of_an_answer_and_the_calls_at_work_are_live():
    view, text = played(
        STARTED,
        ContentEvent(
            text="First part.\n\nSecond part that is long enough to take several rows of it"
        ),
        requested("nothing", "0"),
        ended("nothing", "", call_id="0"),
        ContentEvent(text="Third"),
        requested("run_shell_command"),
        executing("run_shell_command", "make -j4 all"),
        ToolOutputEvent(call_id="1", text="".join(f"line {n}\n" for n in range(9))),
        view=TITLES,
    )
    assert shown_live(view, now=3.2) == snapshot("""\
⠹ Shell make -j4 all · 3 s
  │ … 4 lines above
  │ line 4
  │ line 5
  │ line 6
  │ line 7
  │ line 8\
""")
    assert text == snapshot("""\
|First part.|

|Second part that is long enough to take several rows of it|

✓ nothing · 1.2 s

|Third|\
""")


def test_while_the_model_thinks_its_thought_stands_beside_the_spinner():
    view, _ = played(STARTED, ThoughtEvent(subject="Reading the tests", description="long"))
    assert shown_live(view, now=2.0) == snapshot(
        "⠋ Thinking Reading the tests (2 s, Esc to interrupt)"
    )
    assert shown_live(view, columns=20, now=2.0) == snapshot("⠋ Thinking Reading …")
    answering, _ = played(ContentEvent(text="So"), view=view)
    assert shown_live(answering, now=2.0) == snapshot("""\
So
⠋ Answering (2 s, Esc to interrupt)\
""")


def test_nothing_is_live_when_nothing_runs():
    assert shown_live(View()) == ""


def test_the_live_part_keeps_to_its_rows_and_columns_whatever_happens():
    view, _ = played(
        STARTED,
        ContentEvent(text="wide 漢字 " * 200),
        *(requested("run_shell_command", str(n)) for n in range(30)),
        *(executing("run_shell_command", "x" * 500, str(n)) for n in range(30)),
        ToolOutputEvent(call_id="3", text="y" * 5000 + "\n"),
    )
    for columns in (1, 2, 7, 40, 200):
        for rows in (0, 1, 3, 20):
            lines = live(view, columns, rows, 1.0)
            assert len(lines) <= rows
            assert all(sum(width(text) for _, text in each) <= columns for each in lines)


def test_a_change_is_shown_with_line_numbers_unless_it_was_just_approved():
    display = {
        "type": "file_diff",
        "fileDiff": DIFF,
        "fileName": "a.py",
        "diffStat": {"ai_added_lines": 1, "ai_removed_lines": 1},
    }
    _, text = played(executing("replace", "Edit a.py"), ended("replace", display), view=TITLES)
    assert text == snapshot("""\
✓ Edit a.py (+1 -1) · 1.2 s
       1   one
       2 - two
       2 + 2
       3   three\
""")
    seen = View(titles=TITLES.titles, shown=frozenset({"1"}))
    _, text = played(executing("replace", "Edit a.py"), ended("replace", display), view=seen)
    assert text == snapshot("✓ Edit a.py (+1 -1) · 1.2 s")


def test_a_change_that_a_person_changed_too_is_counted_as_it_was_written():
    counts = {"ai_added_lines": 2, "ai_removed_lines": 0, "user_added_lines": 1}
    stat = {**counts, "user_removed_lines": 1}
    display = {"type": "file_diff", "fileDiff": DIFF, "fileName": "a.py", "diffStat": stat}
    _, text = played(executing("replace", "Edit a.py"), ended("replace", display), view=TITLES)
    assert text.startswith("✓ Edit a.py (+1 -1) · 1.2 s\n")


def test_a_long_change_is_cut_and_says_so():
    diff = "@@ -0,0 +1,90 @@\n" + "".join(f"+line {n}\n" for n in range(90))
    _, text = played(ended("replace", {"type": "file_diff", "fileDiff": diff}))
    assert "… 50 more lines" in text
    assert "line 39" in text
    assert "line 40" not in text


def test_tasks_are_listed_with_their_state():
    todos = [
        {"description": "read", "status": "completed"},
        {"description": "write", "status": "in_progress"},
        {"description": "test", "status": "pending"},
        {"description": "wait", "status": "blocked"},
    ]
    _, text = played(ended("write_todos", {"type": "todo_list", "todos": todos}))
    assert text == snapshot("""\
✓ Tasks (4 tasks) · 1.2 s
  [x] read
  [»] write
  [ ] test
  [!] wait\
""")


def test_failures_denials_and_cancellations_look_different():
    _, text = played(
        ended("a", "bad", status="error", error="no such file\nsecond line"),
        ended("b", "why not", status="error", error="Tool execution denied.", denied=True),
        ended("c", status="cancelled", error="[Operation Cancelled] Reason: User said no"),
        OutputTruncatedEvent(
            call_id="1",
            name="d",
            original_length=90_000,
            truncated_length=40_000,
            threshold=40_000,
            output_file="/tmp/x.txt",
        ),
    )
    assert text == snapshot("""\
✗ a · failed · 1.2 s
  no such file
  second line
✗ b · why not · 1.2 s
■ c · cancelled
  of 90,000 characters the model gets the two ends; all of it: /tmp/x.txt\
""")


def test_a_failure_is_said_in_words_for_a_person():
    for kind, words in (
        ("edit_no_occurrence_found", "the text to replace is not in the file"),
        ("file_not_found", "no such file"),
        ("path_not_in_workspace", "outside the workspace; /directory add DIR adds a folder"),
    ):
        told = "Read it again. " * 20
        event = ended("replace", None, status="error", error=told, error_type=kind, duration_ms=5.0)
        view, shown = played(event, view=View(page=4))
        assert shown == f"✗ Edit · {words}  #4"
        assert view.totals.failed_calls == 1


def test_prompts_and_commands_are_set_apart_from_each_other():
    prompts = (UserMessageEvent(prompt_id="p", text=text) for text in ("/rewind", "/theme"))
    _, shown = played(*prompts)
    assert shown == "┃ > /rewind\n\n┃ > /theme"


def test_warnings_errors_and_interruptions_come_behind_the_text_before_them():
    view, text = played(
        RunStartedEvent(session_id="s", model="m", cwd="/w", notices=("policy: odd",)),
        ContentEvent(text="Half an ans"),
        WarningEvent(message="a hook\nfailed"),
        ContentEvent(text="wer"),
        ErrorEvent(error_type="server", message="the server is broken."),
        RunFinishedEvent(reason="error", text="", turns=1, duration_ms=10),
        STARTED,
        ContentEvent(text="Then"),
        ErrorEvent(error_type="interrupted", message="the run was interrupted.", exit_code=130),
        RunFinishedEvent(reason="interrupted", text="", turns=1, duration_ms=10),
    )
    assert text == snapshot("""\
! policy: odd

|Half an ans|

! a hook failed

|wer|

✗ The server is broken.

  1 turn · 10 ms

|Then|

■ Stopped by you.

  1 turn · 10 ms\
""")
    assert view.busy_since is None


def test_calls_of_a_subagent_are_indented_and_brief():
    view, text = played(
        requested("delegate_to_agent"),
        executing("delegate_to_agent", "Look"),
        requested("read_file", "1/2", parent_call_id="1"),
        ended("read_file", "long\ntext", call_id="1/2", parent_call_id="1"),
        ended("delegate_to_agent", "Found it."),
    )
    assert text == snapshot("""\
  ✓ Read (2 lines) · 1.2 s
✓ Agent Look (Found it.) · 1.2 s\
""")
    assert view.calls == ()


def test_nothing_that_a_model_or_a_tool_says_acts_on_the_terminal():
    evil = "\x1b]0;title\x07\x1b[2Jx\x08\x9b1A\u202eabc"
    view, text = played(
        STARTED,
        UserMessageEvent(prompt_id="p", text=evil),
        ThoughtEvent(subject=evil, description=evil),
        WarningEvent(message=evil),
        ContentEvent(text=f"{evil}\n\nnext line is long enough"),
        requested(evil),
        executing(evil, evil),
        ToolOutputEvent(call_id="1", text=evil),
    )
    live_text = shown_live(view, columns=300)
    _, more = played(
        ended(evil, evil, status="error", error=evil),
        ended(evil, {"type": "terminal_output", "text": evil, "exit_code": 0}),
        ended(evil, {"type": "todo_list", "todos": [{"description": evil, "status": evil}]}),
        ended(evil, {"type": "file_diff", "fileDiff": f"@@ -1 +1 @@\n+{evil}\n"}),
        ErrorEvent(error_type="x", message=evil),
        view=view,
    )
    for char in "\x1b\x07\x08\x9b":
        assert char not in text + live_text + more


def test_every_style_that_is_used_is_one_of_the_theme():
    view, _ = played(STARTED, ContentEvent(text="x"), requested("a"), executing("a"))
    used = {style for each in live(view, 80, 9, 5.0) for style, _ in each}
    for event in (
        WarningEvent(message="w"),
        ended("a", "text"),
        ended("a", {"type": "file_diff", "fileDiff": DIFF}),
        ended("a", {"type": "todo_list", "todos": [{"description": "d", "status": "x"}]}),
        ErrorEvent(error_type="x", message="m"),
    ):
        _, blocks = advance(view, event, 0.0)
        used |= {
            style
            for block in blocks
            if isinstance(block, Lines)
            for each in block.lines
            for style, _ in each
        }
    assert used <= set(ANSI.looks)
    assert {"added", "removed", "error", "warning", "accent"} <= used
