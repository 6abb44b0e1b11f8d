"""Open tasks and subagents above the prompt."""

from pathlib import Path
from typing import Any

from alhena.events import (
    ApiRequestEvent,
    ContentEvent,
    RunFinishedEvent,
    RunStartedEvent,
    ToolCallRequestEvent,
    ToolCallUpdateEvent,
    UserMessageEvent,
)
from alhena.frontends.terminal.drawing.lines import plain
from alhena.frontends.terminal.drawing.live_region import open_task_lines
from alhena.frontends.terminal.drawing.view import View
from tests.frontends.terminal.kit import ended, played, shown_live
from tests.frontends.terminal.session import ENTER, PLACEHOLDER, at, calling, leave
from tests.support.server import ScriptedServer, sse, text

RUN = RunStartedEvent(session_id="s", model="m", cwd="/w")


def todos(*statuses: str) -> dict[str, Any]:
    listed = [
        {"description": f"task {number}", "status": status}
        for number, status in enumerate(statuses, 1)
    ]
    return {"type": "todo_list", "todos": listed}


def tasks(*statuses: str, rows: int = 24) -> str:
    view, _ = played(ended("write_todos", todos(*statuses)))
    return plain(open_task_lines(view, 60, rows))


def test_the_text_that_streams_in_is_set_off_from_what_stands_above_it():
    view, _ = played(
        UserMessageEvent(prompt_id="p", text="go"), RUN, ContentEvent(text="Once upon")
    )
    assert shown_live(view).startswith("\nOnce upon\n")
    assert shown_live(view, rows=2).startswith("Once upon\n")
    view, _ = played(RUN, ContentEvent(text="Once upon"))
    assert shown_live(view).startswith("Once upon\n")


def test_open_tasks_stay_until_all_are_done():
    assert tasks("completed", "in_progress", "pending") == (
        "Tasks: 1 of 3 done\n  [»] task 2\n  [ ] task 3"
    )
    assert tasks("completed", "cancelled") == ""
    assert tasks() == ""
    view, _ = played(
        ended("write_todos", todos("pending")),
        RunFinishedEvent(reason="done", text="", turns=1, duration_ms=1.0),
    )
    assert "task 1" in plain(open_task_lines(view, 60, 24))


def test_the_task_in_progress_is_shown_where_there_is_little_room():
    many = ("completed", *["pending"] * 4, "in_progress", *["pending"] * 4)
    assert tasks(*many).split("\n") == [
        "Tasks: 1 of 10 done, 4 more open",
        "  [»] task 6",
        *(f"  [ ] task {number}" for number in range(7, 11)),
    ]
    assert tasks(*many, rows=10) == "Tasks: 1 of 10 done, 8 more open\n  [»] task 6"


def asked(call_id: str, name: str, parent: str | None = None, **more: Any) -> list[Any]:
    update: dict[str, Any] = {"status": "executing", "description": "find it"} | more
    return [
        ToolCallRequestEvent(
            call_id=call_id, name=name, args={}, prompt_id="p", parent_call_id=parent
        ),
        ToolCallUpdateEvent(call_id=call_id, name=name, parent_call_id=parent, **update),
    ]


def turn(call_id: str) -> ApiRequestEvent:
    return ApiRequestEvent(
        model="m", prompt_id="p", contents=1, role="subagent", parent_call_id=call_id
    )


def test_subagents_are_a_tree_under_the_call_that_started_them():
    events = [
        *asked("1", "scout"),
        turn("1"),
        *asked("1/a", "read_file", "1", description="a.py"),
        turn("1"),
        *asked("1/b", "helper", "1"),
        turn("1/b"),
    ]
    view, _ = played(*events, view=View(titles={"read_file": "ReadFile"}))
    assert shown_live(view, now=12.0).split("\n") == [
        "⠋ scout find it · 12 s",
        "  └ scout  running · ReadFile a.py · 2 turns · 12 s",
        "      └ helper  thinking · 1 turn · 12 s",
    ]
    waiting = asked("1/b/c", "replace", "1/b", status="awaiting_approval", description="b.py")
    view, _ = played(*waiting, ended("read_file", call_id="1/a", parent_call_id="1"), view=view)
    assert shown_live(view, now=12.0).split("\n")[1:] == [
        "  └ scout  running · 2 turns · 12 s",
        "      └ helper  waits for approval · replac… · 1 turn · 12 s",
    ]
    view, _ = played(ended("helper", call_id="1/b", parent_call_id="1"), view=view)
    assert "helper" not in shown_live(view)


def test_more_than_six_subagents_are_counted():
    events = [
        event for number in range(8) for event in (*asked(f"{number}", "scout"), turn(f"{number}"))
    ]
    view, _ = played(*events)
    shown = shown_live(view, rows=30)
    assert shown.count("└ scout") == 5
    assert shown.endswith("\n  … 3 more subagents")


def test_the_real_command_keeps_open_tasks_above_the_prompt(server: ScriptedServer, project: Path):
    listed = todos("completed", "in_progress")["todos"]
    done = todos("completed", "completed")["todos"]
    server.reply(calling("write_todos", {"todos": listed}), sse(text("Half.")))
    server.reply(calling("write_todos", {"todos": done}), sse(text("Whole.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("work" + ENTER)
        terminal.until("Half.")
        terminal.until(f"\nTasks: 1 of 2 done\n  [»] task 2\n>  {PLACEHOLDER}")
        terminal.send("go on" + ENTER)
        terminal.until("Whole.", gone="Tasks:")
        leave(terminal)
