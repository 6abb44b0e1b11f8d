"""A front end that answers over the bus of a program, for a session and its subagents."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.config.settings import SecuritySettings, Settings
from alhena.errors import InputError
from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule
from alhena.scheduler.bus import (
    AskUserRequest,
    AskUserResponse,
    Message,
    MessageBus,
    ToolCallsUpdate,
    ToolConfirmationRequest,
    ToolConfirmationResponse,
    ToolPolicyRejection,
    UpdatePolicy,
)
from alhena.tools.contract import ProposedContents, ToolFailure
from tests.agent.delegating import turn
from tests.agent.kit import agent, conforming
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, text

WRITE = call("write_file", {"file_path": "x", "content": "model"}, id="w")
QUESTIONS = {"questions": [{"question": "Which port?", "header": "Port", "type": "text"}]}


class FrontEnd:
    """Sees only what goes over the wire, and answers with what it was given, in order."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.bus = MessageBus()
        self.seen: list[dict[str, Any]] = []
        self.answers = list(answers)
        self.bus.subscribe(ToolConfirmationRequest, self.confirm)

    def confirm(self, message: ToolConfirmationRequest) -> None:
        request = msgspec.json.decode(msgspec.json.encode(message))
        self.seen.append(request)
        response = {
            "type": "tool-confirmation-response",
            "correlationId": request["correlationId"],
        } | self.answers.pop(0)
        encoded = msgspec.json.encode(response)
        self.bus.publish(msgspec.json.decode(encoded, type=ToolConfirmationResponse))


def responses_at(generator: ScriptedGenerator, index: int) -> list[dict[str, Any]]:
    parts = generator.seen(index)[-1]["parts"]
    return [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]


@pytest.mark.requirement("SCHED-09")
async def test_a_front_end_answers_as_json_and_sees_the_diff_and_why(project: Path):
    front = FrontEnd({"confirmed": True, "payload": {"newContent": "person"}})
    generator = ScriptedGenerator(turn(WRITE), [text("ok")])
    async with agent(generator, bus=front.bus) as running:
        assert await running.ask("go") == "ok"
    assert (project / "x").read_text(encoding="utf-8") == "person"
    (seen,) = front.seen
    assert seen["toolName"] == "write_file"
    assert seen["details"]["type"] == "edit"
    assert seen["details"]["isNewFile"]
    assert "+model" in seen["details"]["fileDiff"]
    assert seen["outcomes"] == ["proceed_once", "proceed_always", "cancel"]
    assert seen["modifiable"]
    assert seen["decision"]["reason"]
    assert "User modified" in responses_at(generator, 1)[0]["output"]
    assert conforming(generator)


async def test_a_no_with_words_reaches_the_model(project: Path):
    front = FrontEnd({"confirmed": False, "payload": {"reason": "Not in this folder."}})
    generator = ScriptedGenerator(turn(WRITE), [text("ok")])
    async with agent(generator, bus=front.bus) as running:
        await running.ask("go")
    assert responses_at(generator, 1) == [
        {
            "error": "[Operation Cancelled] Reason: User did not allow tool call. "
            "Feedback: Not in this folder."
        }
    ]
    assert not (project / "x").exists()


async def test_the_calls_of_a_subagent_are_asked_about_under_ids_of_the_session(project: Path):
    front = FrontEnd({"confirmed": True}, {"confirmed": True})
    objective = {"agent_name": "codebase_investigator", "objective": "Look."}
    (project / "a.txt").write_text("alpha", encoding="utf-8")
    generator = ScriptedGenerator(
        turn(call("delegate_to_agent", objective, id="d")),
        turn(call("read_file", {"absolute_path": "a.txt"}, id="r")),
        [text("done")],
        [text("done")],
        [text("ok")],
    )
    rule = PolicyRule(decision=PolicyOutcome.ASK_USER, priority=500, tool_names=("read_file",))
    async with agent(generator, bus=front.bus, policy=(rule,)) as running:
        await running.ask("go")
    assert [each["callId"] for each in front.seen if each["toolName"] == "read_file"] == ["d/r"]
    assert responses_at(generator, 2) == [{"output": "alpha"}]


@pytest.mark.requirement("SCHED-04")
async def test_questions_are_answered_with_the_approval_or_over_the_bus(project: Path):
    generator = ScriptedGenerator(
        turn(call("ask_user", QUESTIONS, id="a")),
        turn(call("ask_user", QUESTIONS, id="b")),
        [text("ok")],
    )
    front = FrontEnd(
        {"confirmed": True, "payload": {"answers": {"0": "8080"}}}, {"confirmed": True}
    )

    def answer(message: AskUserRequest) -> None:
        assert message.questions[0]["question"] == "Which port?"
        front.bus.publish(
            AskUserResponse(correlation_id=message.correlation_id, answers={"0": "9090"})
        )

    front.bus.subscribe(AskUserRequest, answer)
    async with agent(generator, bus=front.bus) as running:
        await running.ask("go")
    assert front.seen[0]["details"]["type"] == "ask_user"
    assert front.seen[0]["outcomes"] == ["proceed_once", "cancel"]
    assert responses_at(generator, 1) == [{"output": '{"answers":{"0":"8080"}}'}]
    assert responses_at(generator, 2) == [{"output": '{"answers":{"0":"9090"}}'}]


@pytest.mark.requirement("SCHED-04")
@pytest.mark.parametrize(
    ("payload", "mode", "output"),
    [
        ({"approved": True, "approvalMode": "autoEdit"}, "autoEdit", "Plan approved."),
        ({"approvalMode": "default"}, "default", "Plan approved."),
        ({"approved": False, "feedback": "Tests first."}, "plan", "Feedback: Tests first."),
    ],
)
async def test_a_plan_is_approved_into_a_mode_or_sent_back(project: Path, payload, mode, output):
    generator = ScriptedGenerator(
        turn(call("exit_plan_mode", {"plan": "# The plan"}, id="p")), [text("ok")]
    )
    front = FrontEnd({"confirmed": True, "payload": payload})
    async with agent(generator, bus=front.bus, approval_mode=ApprovalMode.PLAN) as running:
        await running.ask("go")
        assert running.toolset.authority.modes.mode == mode
    (response,) = responses_at(generator, 1)
    assert output in str(response)


async def test_an_approval_and_a_denial_of_a_subagents_calls_are_told_over_the_bus(project: Path):
    front = FrontEnd({"confirmed": True, "outcome": "proceed_always"})
    told: list[Message] = []
    for kind in (UpdatePolicy, ToolPolicyRejection, ToolCallsUpdate):
        front.bus.subscribe(kind, told.append)
    generator = ScriptedGenerator(
        turn(call("delegate_to_agent", {"agent_name": "generalist", "objective": "Go."}, id="d")),
        turn(
            call("run_shell_command", {"command": "mkdir a"}, id="a"),
            call("list_directory", {"path": "."}, id="b"),
        ),
        turn(call("complete_task", {"result": "done"}, id="c")),
        [text("ok")],
    )
    rule = PolicyRule(
        decision=PolicyOutcome.DENY,
        priority=500,
        tool_names=("list_directory",),
        args_pattern='"path"',
    )
    async with agent(generator, bus=front.bus, policy=(rule,)) as running:
        assert await running.ask("go") == "ok"
    assert (project / "a").is_dir()
    (saved,) = [each for each in told if isinstance(each, UpdatePolicy)]
    assert (saved.call_id, saved.command_prefix) == ("d/a", ("mkdir",))
    (denied,) = [each for each in told if isinstance(each, ToolPolicyRejection)]
    assert (denied.call_id, denied.tool_name) == ("d/b", "list_directory")
    shown = [each for each in told if isinstance(each, ToolCallsUpdate)]
    assert {call.parent_call_id for each in shown for call in each.calls} == {None, "d"}
    assert conforming(generator)


MKDIR = {"toolName": "run_shell_command", "commandPrefix": "mkdir", "decision": "allow"}


def make_folder(name: str) -> Any:
    return turn(call("run_shell_command", {"command": f"mkdir {name}"}, id=name))


def saved_rules() -> Path:
    return Path.home() / ".gemini" / "policies" / "auto-saved.toml"


@pytest.mark.requirement("SCHED-10")
async def test_the_policy_heeds_an_update_that_a_program_publishes(project: Path):
    front = FrontEnd()
    generator = ScriptedGenerator(make_folder("a"), [text("ok")])
    update = UpdatePolicy(
        call_id="", tool_name="run_shell_command", outcome="", rule=MKDIR | {"priority": 500}
    )
    async with agent(generator, bus=front.bus) as running:
        await front.bus.deliver(update)
        await front.bus.deliver(msgspec.structs.replace(update, rule=None, mode="plan"))
        assert running.toolset.authority.modes.planning
        await front.bus.deliver(msgspec.structs.replace(update, rule=None, mode="default"))
        await running.ask("go")
    assert (project / "a").is_dir()
    assert front.seen == []
    assert not saved_rules().exists()
    assert not front.bus.has(UpdatePolicy)


@pytest.mark.requirement("SCHED-10")
async def test_the_policy_applies_an_answer_once_and_in_its_own_session_only(project: Path):
    front = FrontEnd(
        {"confirmed": True, "outcome": "proceed_always_and_save"}, {"confirmed": False}
    )
    first, second = (
        ScriptedGenerator(make_folder(name), make_folder(f"{name}2"), [text("ok")], [text("ok")])
        for name in "ab"
    )
    async with agent(first, bus=front.bus) as one, agent(second, bus=front.bus) as other:
        rules = len(one.toolset.authority.engine.rules)
        await one.ask("go")
        assert len(one.toolset.authority.engine.rules) == rules + 1
        await other.ask("go")
    assert [each["callId"] for each in front.seen] == ["a", "b"]
    assert sorted(path.name for path in project.iterdir()) == ["a", "a2"]
    assert saved_rules().read_text(encoding="utf-8").count("[[rule]]") == 1


async def test_an_update_changes_nothing_where_settings_forbid_lasting_approvals(project: Path):
    front = FrontEnd({"confirmed": False})
    generator = ScriptedGenerator(make_folder("a"), [text("ok")])
    settings = Settings(security=SecuritySettings(disable_always_allow=True))
    update = UpdatePolicy(call_id="", tool_name="", outcome="", rule=MKDIR | {"priority": 500})
    async with agent(generator, bus=front.bus, settings=settings) as running:
        await front.bus.deliver(update)
        await running.ask("go")
    assert not (project / "a").exists()


async def test_a_program_gives_an_approver_or_a_bus(project: Path):
    with pytest.raises(InputError, match="approve and bus would both confirm calls"):
        async with agent(ScriptedGenerator(), bus=MessageBus(), approve=lambda request: True):
            pass


async def test_a_bus_outlives_the_sessions_on_it(project: Path):
    front = FrontEnd({"confirmed": True}, {"confirmed": True})
    for number in range(2):
        write = call("write_file", {"file_path": f"x{number}", "content": "y"}, id="w")
        async with agent(
            ScriptedGenerator(turn(write), [text("ok")]), bus=front.bus, approve=None
        ) as running:
            await running.ask("go")
    assert [each["callId"] for each in front.seen] == ["w", "w"]
    assert sorted(path.name for path in project.glob("x*")) == ["x0", "x1"]


@pytest.mark.requirement("TOOLS-21")
async def test_a_program_brings_the_editor_of_its_person(project: Path):
    async def edit(contents: ProposedContents) -> str | ToolFailure:
        assert (contents.current, contents.proposed) == (None, "model")
        return "edited"

    front = FrontEnd({"confirmed": True, "outcome": "modify_with_editor"}, {"confirmed": True})
    generator = ScriptedGenerator(turn(WRITE), [text("ok")])
    async with agent(generator, bus=front.bus, edit=edit) as running:
        await running.ask("go")
    assert (project / "x").read_text(encoding="utf-8") == "edited"
    assert [each["details"]["newContent"] for each in front.seen] == ["model", "edited"]
