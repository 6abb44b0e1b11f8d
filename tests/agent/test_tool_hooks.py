"""Hooks that are programs, around the calls of a session: the model, the disk and the run."""

import asyncio
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.runner import SessionRunner
from alhena.events import ToolCallRequestEvent, ToolCallResponseEvent
from alhena.policy.model import ApprovalMode
from alhena.scheduler.question import Answer, ConfirmationRequest
from tests.agent.delegating import turn
from tests.agent.kit import agent, conforming, events_of, kinds, warnings
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, text

WRITE = call("write_file", {"file_path": "x", "content": "model"}, id="w")


def says(value: Any) -> str:
    return f"cat > heard.json; echo {shlex.quote(json.dumps(value))}"


def agent_with_hook(
    generator: ScriptedGenerator, event: str, value: Any, matcher: str = "", **options: Any
) -> SessionRunner:
    hooks = {event: [{"matcher": matcher, "hooks": [{"type": "command", "command": says(value)}]}]}
    given: dict[str, Any] = {"approval_mode": ApprovalMode.YOLO} | options
    return agent(generator, hooks={"hooks": hooks}, **given)


def last_response(generator: ScriptedGenerator) -> dict[str, Any]:
    (part,) = generator.seen(1)[-1]["parts"]
    return part["functionResponse"]["response"]


@pytest.mark.requirement("HOOK-01", "HOOK-04")
async def test_a_program_blocks_a_call_and_the_model_is_told_why(project: Path):
    generator = ScriptedGenerator(turn(WRITE), [text("ok")])
    said = {"decision": "block", "reason": "read only today"}
    async with agent_with_hook(generator, "BeforeTool", said, "write_file") as running:
        assert await running.ask("go") == "ok"
    assert last_response(generator) == {"error": "Tool execution blocked: read only today"}
    assert not (project / "x").exists()
    heard = json.loads((project / "heard.json").read_text(encoding="utf-8"))
    assert heard["tool_name"] == "write_file"
    assert heard["tool_input"] == {"file_path": "x", "content": "model"}


@pytest.mark.requirement("HOOK-01")
async def test_a_program_changes_what_is_written(project: Path):
    generator = ScriptedGenerator(turn(WRITE), [text("ok")])
    said = {"hookSpecificOutput": {"tool_input": {"content": "hooked"}}}
    async with agent_with_hook(generator, "BeforeTool", said) as running:
        await running.ask("go")
    assert (project / "x").read_text(encoding="utf-8") == "hooked"
    notice = "[System] Tool input parameters (content) were modified by hook"
    assert last_response(generator)["output"].endswith(notice)
    assert conforming(generator)


@pytest.mark.requirement("HOOK-01")
async def test_what_a_program_makes_of_a_command_is_put_to_the_policy(project: Path):
    ls = call("run_shell_command", {"command": "ls"}, id="s")
    generator = ScriptedGenerator(turn(ls), [text("ok")])
    said = {"hookSpecificOutput": {"tool_input": {"command": "touch x"}}}
    asked: list[str] = []

    def approve(request: ConfirmationRequest) -> bool | Answer:
        asked.append(request.args["command"])
        return request.args["command"] == "ls" or Answer.no("not that")

    async with agent_with_hook(
        generator,
        "BeforeTool",
        said,
        approval_mode=ApprovalMode.DEFAULT,
        approve=approve,
    ) as running:
        await running.ask("go")
    assert asked[-1] == "touch x"
    assert "did not allow" in last_response(generator)["error"]
    assert not (project / "x").exists()


@pytest.mark.requirement("HOOK-01", "HOOK-03")
@pytest.mark.parametrize("event", ["BeforeTool", "AfterTool"])
async def test_a_program_ends_the_run_and_every_call_has_its_response(project: Path, event):
    second = call("write_file", {"file_path": "y", "content": "model"}, id="v")
    generator = ScriptedGenerator(turn(WRITE, second))
    said = {"continue": False, "stopReason": "that is all"}
    async with agent_with_hook(generator, event, said) as running:
        events, error = await events_of(running, "go")
        history = running.history
    assert error is None
    assert kinds(events)[-1] == "result"
    assert len(generator.requests) == 1
    answers = [part.function_response for part in history[-1].parts]
    assert [each.id for each in answers] == ["w", "v"]
    assert answers[0].response == {"error": "Agent execution stopped by hook: that is all"}
    assert not (project / "y").exists()


@pytest.mark.requirement("HOOK-02", "HOOK-04")
async def test_a_program_adds_to_a_result(project: Path):
    generator = ScriptedGenerator(turn(WRITE), [text("ok")])
    said = {"hookSpecificOutput": {"additionalContext": "mind <this>"}}
    async with agent_with_hook(generator, "AfterTool", said) as running:
        await running.ask("go")
    assert last_response(generator)["output"].endswith(
        "\n\n<hook_context>mind &lt;this&gt;</hook_context>"
    )
    heard = json.loads((project / "heard.json").read_text(encoding="utf-8"))
    assert "x" in heard["tool_response"]["llmContent"]


@pytest.mark.requirement("HOOK-02")
async def test_a_program_keeps_a_result_back(project: Path):
    generator = ScriptedGenerator(turn(WRITE), [text("ok")])
    async with agent_with_hook(
        generator, "AfterTool", {"decision": "deny", "reason": "no"}
    ) as running:
        await running.ask("go")
    assert last_response(generator) == {"error": "Tool result blocked: no"}


async def test_a_program_puts_another_call_in_the_place_of_one(project: Path):
    (project / "note.txt").write_text("the note", encoding="utf-8")
    generator = ScriptedGenerator(turn(WRITE), [text("ok")])
    tail = {"name": "read_file", "args": {"absolute_path": "note.txt"}}
    said = {"hookSpecificOutput": {"tailToolCallRequest": tail}}
    async with agent_with_hook(generator, "AfterTool", said, "write_file") as running:
        await running.ask("go")
    assert last_response(generator) == {"output": "the note"}
    assert generator.seen(1)[-1]["parts"][0]["functionResponse"]["name"] == "write_file"
    assert conforming(generator)


@pytest.mark.requirement("HOOK-03", "HOOK-04")
async def test_a_program_hears_that_a_person_is_asked(project: Path):
    generator = ScriptedGenerator(turn(WRITE), [text("ok")])

    async def approve(asked: object) -> bool:
        while not (project / "heard.json").exists():
            await asyncio.sleep(0)
        return True

    async with agent_with_hook(
        generator, "Notification", {}, approval_mode=ApprovalMode.DEFAULT, approve=approve
    ) as running:
        await running.ask("go")
    assert (project / "x").exists()


@pytest.mark.requirement("HOOK-03")
async def test_a_program_that_hears_of_a_question_outlasts_the_answer_and_ends_with_the_session(
    project: Path,
):
    os.mkfifo("answered")
    generator = ScriptedGenerator(turn(WRITE), [text("ok")])
    slow = "cat >/dev/null; : >begun; read -r word <answered; echo $word >sent"
    hooks = {"Notification": [{"hooks": [{"type": "command", "command": slow}]}]}

    async def approve(asked: object) -> bool:
        while not (project / "begun").exists():
            await asyncio.sleep(0)
        return True

    async with agent(generator, hooks={"hooks": hooks}, approve=approve) as running:
        assert await running.ask("go") == "ok"
        assert (project / "x").exists()
        assert not (project / "sent").exists()
        await asyncio.to_thread((project / "answered").write_text, "now", encoding="utf-8")
    assert (project / "sent").read_text(encoding="utf-8") == "now\n"


@pytest.mark.requirement("HOOK-02")
async def test_a_call_in_the_place_of_a_subagents_is_known_to_the_session_by_its_own_ids(
    project: Path,
):
    objective = {"agent_name": "introspection_agent", "objective": "Look around."}
    generator = ScriptedGenerator(
        turn(call("delegate_to_agent", objective, id="c")),
        turn(call("get_internal_docs", {}, id="s")),
        turn(call("complete_task", {"result": "none"}, id="t")),
        [text("ok")],
    )
    tail = {"name": "get_internal_docs", "args": {"path": "tools.md"}}
    said = {"hookSpecificOutput": {"tailToolCallRequest": tail}}
    once = f'[ -e heard.json ] && echo "{{}}" || {{ {says(said)}; }}'
    hooks = {
        "AfterTool": [
            {"matcher": "get_internal_docs", "hooks": [{"type": "command", "command": once}]}
        ]
    }
    async with agent(generator, hooks={"hooks": hooks}, approval_mode=ApprovalMode.YOLO) as running:
        events, error = await events_of(running, "go")
    assert error is None
    (asked,) = (e for e in events if isinstance(e, ToolCallRequestEvent) and e.replaces)
    assert (asked.call_id, asked.replaces, asked.parent_call_id) == ("c/s~2", "c/s", "c")
    (ended,) = (e for e in events if isinstance(e, ToolCallResponseEvent) and e.replaces)
    assert (ended.call_id, ended.replaces, ended.status) == ("c/s~2", "c/s", "success")


@pytest.mark.parametrize(
    "written",
    [
        '{"decision": "deny", "reason": 5}',
        '{"decision": "DENY", "hookSpecificOutput": []}',
        'looking\n{"decision": "deny"}\ndone',
        '{"decision": "deny", "reason": "cut o',
    ],
)
@pytest.mark.parametrize("end", ["", "; exit 1", "; kill -9 $$", "; echo more >&2; sleep 60"])
async def test_the_no_of_a_program_stands_however_badly_it_is_written(
    project: Path, written: str, end: str
):
    generator = ScriptedGenerator(turn(WRITE), [text("ok")])
    command = f"cat >/dev/null; printf %s {shlex.quote(written)}{end}"
    timeout = 500 if "sleep" in end else 10_000
    hooks = {"BeforeTool": [{"hooks": [{"command": command, "timeout": timeout}]}]}
    running = agent(generator, hooks={"hooks": hooks}, approval_mode=ApprovalMode.YOLO)
    async with running:
        await running.ask("go")
    assert last_response(generator)["error"].startswith("Tool execution blocked: ")
    assert not (project / "x").exists()


async def test_the_no_of_a_function_stands_with_values_that_are_no_json(project: Path):
    def refuse(told: dict[str, Any]) -> dict[str, Any]:
        return {"decision": "deny", "reason": object(), "told": [told, {1, "a"}]}

    generator = ScriptedGenerator(turn(WRITE), [text("ok")])
    hooks = {"BeforeTool": [{"hooks": [{"function": refuse}]}]}
    running = agent(generator, hooks={"hooks": hooks}, approval_mode=ApprovalMode.YOLO)
    async with running:
        await running.ask("go")
    assert last_response(generator)["error"].startswith("Tool execution blocked: ")
    assert not (project / "x").exists()


@pytest.mark.parametrize(
    "event", ["SessionStart", "BeforeAgent", "BeforeModel", "BeforeToolSelection"]
)
@pytest.mark.parametrize("said", [{"decision": "deny"}, {"continue": "false"}])
async def test_the_no_to_a_session_prompt_or_request_asks_no_model(
    event: str, said: dict[str, Any]
):
    generator = ScriptedGenerator([text("never")])
    async with agent_with_hook(generator, event, {**said, "reason": 5}) as running:
        events, error = await events_of(running, "go")
    assert error is None
    assert warnings(events)[-1].endswith(" hook: 5" if "continue" in said else " blocked: 5")
    assert generator.requests == []
