"""Availability of ask_user."""

import json
from pathlib import Path
from typing import Any

import pytest

from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule
from alhena.scheduler.question import Approver
from alhena.tools.builtin.ask_user import Answers, Ask
from alhena.tools.contract import Question
from tests.agent.delegating import turn
from tests.support.agents import scripted_agent
from tests.support.command import alhena
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, text

QUESTIONS = {"questions": [{"question": "Which port?", "header": "Port", "type": "text"}]}
ALLOW_ALL = PolicyRule(decision=PolicyOutcome.ALLOW, priority=500, tool_names=("*",))
OF_SESSIONS = {"ask_user", "enter_plan_mode", "exit_plan_mode", "delegate_to_agent"}


async def port(questions: tuple[Question, ...]) -> Answers:
    return dict.fromkeys(range(len(questions)), "8080")


def refuse(request: object) -> bool:
    raise AssertionError(f"asked to approve {request}")


async def declared_and_answered(
    *, approve: Approver | None = None, policy: tuple[PolicyRule, ...] = (), **options: Any
) -> tuple[bool, dict[str, Any]]:
    """Returns whether ask_user is declared, and the response to a call of it."""
    generator = ScriptedGenerator(turn(call("ask_user", QUESTIONS, id="1")), [text("ok")])
    settings = dict(generator=generator, **options)
    async with scripted_agent(approve=approve, policy=policy, **settings) as agent:
        await agent.ask("go")
    (part,) = generator.seen(1)[-1]["parts"]
    return (
        "ask_user" in generator.requests[0].config.function_names(),
        part["functionResponse"]["response"],
    )


@pytest.mark.parametrize("mode", list(ApprovalMode))
@pytest.mark.parametrize("approve", [None, refuse])
async def test_a_program_that_answers_questions_is_asked_with_or_without_approvals(
    mode: ApprovalMode, approve: Approver | None
) -> None:
    ask: Ask = port
    declared, answer = await declared_and_answered(approve=approve, ask=ask, approval_mode=mode)
    assert declared
    assert answer == {"output": '{"answers":{"0":"8080"}}'}


@pytest.mark.parametrize("mode", list(ApprovalMode))
@pytest.mark.parametrize("approve", [None, refuse])
@pytest.mark.parametrize("policy", [(), (ALLOW_ALL,)])
async def test_without_anybody_to_ask_a_model_is_not_told_of_it(
    mode: ApprovalMode, approve: Approver | None, policy: tuple[PolicyRule, ...]
) -> None:
    declared, answer = await declared_and_answered(
        approve=approve, policy=policy, approval_mode=mode
    )
    assert not declared
    assert answer["error"].startswith('Tool "ask_user" not found.')


async def test_a_policy_can_still_forbid_questions() -> None:
    deny = PolicyRule(decision=PolicyOutcome.DENY, priority=500, tool_names=("ask_user",))
    declared, answer = await declared_and_answered(policy=(deny,), ask=port)
    assert not declared
    assert "not found" in answer["error"]


def test_the_command_lists_the_tools_of_sessions_too() -> None:
    tools = {tool["name"]: tool for tool in alhena("tools", "list", "--json").json}
    assert set(tools) >= OF_SESSIONS
    assert tools["ask_user"]["parametersJsonSchema"]["required"] == ["questions"]
    assert "\nask_user  " in "\n" + alhena("tools", "list").out


@pytest.mark.parametrize("mode", ["default", "auto_edit", "plan", "yolo"])
def test_a_question_from_the_command_says_that_nobody_is_there(mode: str) -> None:
    ran = alhena(
        *("tools", "call", "ask_user", json.dumps(QUESTIONS)),
        "--json",
        "--approval-mode",
        mode,
        "--skip-trust",
    )
    assert ran.code == 54
    assert ran.json["error"]["type"] == "policy_violation"
    told = ran.json["responseParts"][0]["functionResponse"]["response"]["error"]
    assert "No person is available to ask. Decide what is reasonable" in told


def test_no_policy_brings_somebody_to_ask(project: Path) -> None:
    rules = '[[rule]]\ntoolName = "ask_user"\ndecision = "allow"\npriority = 1\n'
    (project / "p.toml").write_text(rules, encoding="utf-8")
    ran = alhena(
        *("tools", "call", "ask_user", json.dumps(QUESTIONS)), "--json", "--policy", "p.toml"
    )
    assert (ran.code, ran.json["error"]["type"]) == (54, "execution_failed")
    assert ran.json["error"]["message"].startswith("No person is available to ask.")
