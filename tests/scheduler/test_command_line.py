"""The whole way through the real command: hook processes, the policy, people, the saved rule, and
what telemetry writes of it."""

import json
import os
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from alhena.events import ToolCallsUpdateEvent, ToolCallUpdateEvent
from alhena.scheduler.bus import MessageBus, ToolConfirmationRequest, ToolConfirmationResponse
from tests.agent.delegating import turn
from tests.agent.kit import agent, events_of
from tests.support.command import Ran, alhena
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, call, chunk, sse, text
from tests.support.terminal import Terminal

PLACEHOLDER = "Type your message or @path/to/file"


def configure(home: Path, project: Path, **hooks: str) -> Path:
    """One hook for each event, and telemetry; where telemetry goes."""
    found = project.parent / "telemetry.log"
    groups = {
        event: [{"hooks": [{"type": "command", "command": command, "name": f"my-{event}"}]}]
        for event, command in hooks.items()
    }
    settings = {"hooks": groups, "telemetry": {"enabled": True, "outfile": str(found)}}
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    return found


def says(value: Any, place: Path | None = None) -> str:
    heard = "/dev/null" if place is None else shlex.quote(str(place))
    return f"cat >{heard}; echo {shlex.quote(json.dumps(value))}"


def environ(server: ScriptedServer) -> dict[str, str]:
    return {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": server.url, "GEMINI_MODEL": "m"}


def run(server: ScriptedServer, *arguments: str) -> Ran:
    return alhena("-o", "json", *arguments, "-p", "go", **environ(server))


def calling(name: str, args: dict[str, Any], number: str = "1") -> Any:
    return sse(chunk(call(name, args, id=number), finish="STOP"))


def response_of_call(server: ScriptedServer) -> dict[str, Any]:
    """The model's response to its call."""
    (part,) = server.requests[1].json["contents"][-1]["parts"]
    return part["functionResponse"]["response"]


def hook_calls(place: Path) -> list[tuple[str, str, bool]]:
    """The hooks that telemetry has written down: event, name, success."""
    decoder, text, at, found = json.JSONDecoder(), place.read_text(encoding="utf-8"), 0, []
    while (at := text.find("{", at)) >= 0:
        record, at = decoder.raw_decode(text, at)
        attributes = record.get("attributes", {})
        if attributes.get("event.name") == "gemini_cli.hook_call":
            keys = ("hook_event_name", "hook_name", "success")
            found.append(tuple(attributes[key] for key in keys))
    return found


@pytest.mark.requirement("HOOK-01")
def test_input_that_a_hook_process_changes_is_written_and_told_to_model_and_telemetry(
    server: ScriptedServer, home: Path, project: Path
):
    heard = project.parent / "heard.json"
    changed = {"hookSpecificOutput": {"tool_input": {"content": "hooked"}}}
    added = {"hookSpecificOutput": {"additionalContext": "mind the gap"}}
    written = configure(home, project, BeforeTool=says(changed, heard), AfterTool=says(added))
    server.reply(calling("write_file", {"file_path": "a", "content": "m"}), sse(text("ok")))
    ran = run(server, "--yolo", "--skip-trust")
    assert ran.code == 0, ran.err
    assert (project / "a").read_text(encoding="utf-8") == "hooked"
    assert (
        "[System] Tool input parameters (content) were modified by hook"
        in response_of_call(server)["output"]
    )
    assert response_of_call(server)["output"].endswith("<hook_context>mind the gap</hook_context>")
    assert json.loads(heard.read_text(encoding="utf-8"))["tool_input"]["content"] == "m"
    assert hook_calls(written) == [
        ("BeforeTool", "my-BeforeTool", True),
        ("AfterTool", "my-AfterTool", True),
    ]


@pytest.mark.requirement("HOOK-01", "SCHED-03")
def test_what_a_hook_process_makes_of_a_call_is_put_to_the_policy(
    server: ScriptedServer, home: Path, project: Path
):
    changed = {"hookSpecificOutput": {"tool_input": {"file_path": "forbidden"}}}
    written = configure(home, project, BeforeTool=says(changed))
    policy = project.parent / "policy.toml"
    policy.write_text(
        '[[rule]]\ntoolName = "write_file"\nargsPattern = "forbidden"\ndecision = "deny"\n'
        'denyMessage = "Not there."\npriority = 900\n',
        encoding="utf-8",
    )
    server.reply(calling("write_file", {"file_path": "a", "content": "m"}), sse(text("ok")))
    ran = run(server, "--yolo", "--skip-trust", "--policy", str(policy))
    assert ran.code == 0, ran.err
    assert response_of_call(server) == {"error": "Tool execution denied by policy. Not there."}
    assert sorted(path.name for path in project.iterdir()) == []
    assert hook_calls(written) == [("BeforeTool", "my-BeforeTool", True)]


@pytest.mark.requirement("HOOK-01", "HOOK-02")
@pytest.mark.parametrize(
    ("event", "command", "error", "exists"),
    [
        (
            "BeforeTool",
            "echo 'no writing' >&2; exit 2",
            "Tool execution blocked: no writing",
            False,
        ),
        ("AfterTool", "echo 'say nothing' >&2; exit 2", "Tool result blocked: say nothing", True),
    ],
)
def test_a_hook_process_blocks_by_its_exit_code(
    server: ScriptedServer, home: Path, project: Path, event, command, error, exists
):
    configure(home, project, **{event: command})
    server.reply(calling("write_file", {"file_path": "a", "content": "m"}), sse(text("ok")))
    assert run(server, "--yolo", "--skip-trust").code == 0
    assert response_of_call(server) == {"error": error}
    assert (project / "a").exists() is exists


@pytest.mark.requirement("HOOK-03")
def test_a_hook_process_hears_that_a_person_is_asked_and_telemetry_of_it(
    server: ScriptedServer, home: Path, project: Path
):
    heard = project.parent / "heard.json"
    done = project.parent / "done"
    os.mkfifo(done)
    command = f"cat >{shlex.quote(str(heard))}; echo >{shlex.quote(str(done))}"
    written = configure(home, project, Notification=command)
    server.reply(calling("run_shell_command", {"command": "touch a"}), sse(text("It is done.")))
    with Terminal(**environ(server)) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("touch it\r")
        terminal.until("Allow this?")
        assert done.read_text(encoding="utf-8") == "\n"  # waits for the hook
        terminal.until("↑/↓ select")  # keys count now
        terminal.send("y")
        terminal.until("It is done.")
        terminal.send("\x04")
        assert terminal.ended() == 0
    assert (project / "a").exists()
    fields = json.loads(heard.read_text(encoding="utf-8"))
    assert (fields["hook_event_name"], fields["notification_type"]) == (
        "Notification",
        "ToolPermission",
    )
    assert fields["details"]["command"] == "touch a"
    assert fields["details"]["rootCommands"] == ["touch"]
    assert [each[:2] for each in hook_calls(written)] == [("Notification", "my-Notification")]


@pytest.mark.requirement("SCHED-08")
async def test_events_of_a_subagents_calls_name_their_parent_and_their_scheduler(project: Path):
    (project / "a.txt").write_text("alpha", encoding="utf-8")
    objective = {"agent_name": "codebase_investigator", "objective": "Look."}
    generator = ScriptedGenerator(
        turn(call("delegate_to_agent", objective, id="d")),
        turn(call("read_file", {"absolute_path": "a.txt"}, id="r")),
        *[[text("done")]] * 3,
    )
    async with agent(generator) as running:
        events, error = await events_of(running, "go")
    assert error is None
    shown = [c for e in events if isinstance(e, ToolCallsUpdateEvent) for c in e.calls]
    own = {(c.parent_call_id, c.scheduler_id) for c in shown if c.call_id == "d"}
    assert own == {(None, None)}
    (parent,), schedulers = zip(
        *{(c.parent_call_id, c.scheduler_id) for c in shown if c.call_id == "d/r"}, strict=True
    )
    assert parent == "d"
    assert str(schedulers[0]).startswith("codebase_investigator-")
    single = [e for e in events if isinstance(e, ToolCallUpdateEvent) and e.call_id == "d/r"]
    assert {event.parent_call_id for event in single} == {"d"}
    assert single[-1].status == "success"


def saved_rule(home: Path) -> dict[str, Any]:
    path = home / ".gemini" / "policies" / "auto-saved.toml"
    (rule,) = tomllib.loads(path.read_text(encoding="utf-8"))["rule"]
    return rule


@pytest.mark.requirement("SCHED-04", "SCHED-10")
def test_an_approval_for_good_at_the_terminal_holds_for_a_later_run_that_can_ask_nobody(
    server: ScriptedServer, home: Path, project: Path
):
    server.reply(
        calling("run_shell_command", {"command": "mkdir a"}), sse(text("One made.")),
        calling("run_shell_command", {"command": "mkdir b"}), sse(text("Another.")),
    )  # fmt: skip
    with Terminal(**environ(server)) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("make it\r")
        terminal.until("Save for all sessions: commands starting with `mkdir`")
        terminal.until("↑/↓ select")
        terminal.send("s")
        terminal.until("One made.")
        terminal.send("\x04")
        assert terminal.ended() == 0
    rule = saved_rule(home)
    assert (rule["toolName"], rule["commandPrefix"], rule["decision"]) == (
        "run_shell_command",
        "mkdir",
        "allow",
    )
    ran = run(server)
    assert ran.code == 0, ran.err
    assert sorted(path.name for path in project.iterdir()) == ["a", "b"]


@pytest.mark.requirement("SCHED-09", "SCHED-10")
async def test_an_approval_over_the_bus_is_saved_and_allows_later_sessions(
    home: Path, project: Path
):
    bus = MessageBus()

    def approve(message: ToolConfirmationRequest) -> None:
        bus.publish(
            ToolConfirmationResponse(
                correlation_id=message.correlation_id,
                confirmed=True,
                outcome="proceed_always_and_save",
            )
        )

    bus.subscribe(ToolConfirmationRequest, approve)
    commands = [call("run_shell_command", {"command": f"mkdir {n}"}, id=n) for n in "ab"]
    generator = ScriptedGenerator(turn(*commands), [text("ok")])
    async with agent(generator, bus=bus) as running:
        assert await running.ask("go") == "ok"
    assert saved_rule(home)["commandPrefix"] == "mkdir"
    later = ScriptedGenerator(turn(call("run_shell_command", {"command": "mkdir c"})), [text("ok")])
    async with agent(later) as running:
        await running.ask("go")
    assert sorted(path.name for path in project.iterdir()) == ["a", "b", "c"]
