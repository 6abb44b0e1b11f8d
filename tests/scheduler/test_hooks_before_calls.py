"""Hooks before calls, and beside questions: what they can do to a call."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from alhena.hooks.model import HookEvent, HookVerdict
from alhena.policy.model import Decision, PolicyCall, PolicyOutcome, PolicyRule
from alhena.scheduler.hooks import tool_hooks
from alhena.scheduler.states import CallStatus
from alhena.tools.contract import Kind, ToolErrorType, ToolFailure
from alhena.tools.registry import ToolOrigin
from tests.scheduler.kit import SmallTool, deciding, request, response_of
from tests.scheduler.said import (
    AFTER,
    BEFORE,
    NOTIFICATION,
    SaidHooks,
    shown_input,
    stage_with_hooks,
)

ASK, ALLOW, DENY = PolicyOutcome.ASK_USER, PolicyOutcome.ALLOW, PolicyOutcome.DENY


@pytest.mark.requirement("HOOK-01")
@pytest.mark.parametrize(
    ("said", "error", "kind"),
    [
        (
            HookVerdict(stop="enough"),
            "Agent execution stopped by hook: enough",
            ToolErrorType.STOP_EXECUTION,
        ),
        (
            HookVerdict(block="not here"),
            "Tool execution blocked: not here",
            ToolErrorType.EXECUTION_FAILED,
        ),
        (
            HookVerdict(tool_input={"text": 3}),
            (
                "Tool parameters modified by hook are invalid: "
                "params/text must be string, got integer 3"
            ),
            ToolErrorType.INVALID_TOOL_PARAMS,
        ),
    ],
)
async def test_a_hook_before_a_tool_stops_blocks_or_breaks_it_and_it_never_runs(said, error, kind):
    log: list[Any] = []
    stage, hooks = stage_with_hooks(
        SmallTool("echo", shown_input(log)), says={BEFORE: said, AFTER: HookVerdict()}
    )
    (done,) = await stage.run("echo")
    assert (response_of(done), done.response.error_type) == ({"error": error}, kind)
    assert log == []
    assert hooks.events() == [BEFORE]
    assert "executing" not in stage.statuses("c0")


@pytest.mark.requirement("HOOK-01")
async def test_input_that_a_hook_changes_is_what_runs_and_the_model_is_told():
    log: list[Any] = []
    stage, hooks = stage_with_hooks(
        SmallTool("list_directory", shown_input(log)),
        says={BEFORE: HookVerdict(tool_input={"text": "safe", "extra": 1}), AFTER: HookVerdict()},
    )
    (done,) = await stage.run(request("c0", "ls", text="rough", path="p"))
    assert log == [{"text": "safe", "path": "p", "extra": 1}]
    assert response_of(done) == {
        "output": "got safe\n\n[System] Tool input parameters (text, extra) were modified by hook"
    }
    (_, before), (_, after) = hooks.heard
    assert before == {"tool_name": "list_directory", "tool_input": {"text": "rough", "path": "p"}}
    assert after["tool_input"] == {"text": "safe", "path": "p", "extra": 1}
    assert after["tool_response"]["llmContent"] == response_of(done)["output"]
    assert hooks.matches[0] == ("list_directory", "ls", "LSTool", "ReadFolder")


async def test_a_hook_that_gives_the_input_back_as_it_is_has_changed_nothing():
    stage, _ = stage_with_hooks(
        SmallTool("echo"), says={BEFORE: HookVerdict(tool_input={"text": "x"})}
    )
    (done,) = await stage.run(request("c0", "echo", text="x"))
    assert response_of(done) == {"output": "got x"}


@pytest.mark.requirement("HOOK-01")
async def test_the_policy_decides_on_what_a_hook_has_made_of_the_input():
    seen_by_policy: list[str] = []

    def decide(call: PolicyCall) -> Decision:
        seen_by_policy.append(call.args["text"])
        outcome = DENY if call.args["text"] == "evil" else ALLOW
        rule = PolicyRule(decision=outcome, priority=500, deny_message="No evil.")
        return Decision(outcome=outcome, reason="r", rule=rule)

    log: list[Any] = []
    stage, _ = stage_with_hooks(
        SmallTool("echo", shown_input(log)),
        says={BEFORE: HookVerdict(tool_input={"text": "evil"})},
        decide=decide,
    )
    (done,) = await stage.run(request("c0", "echo", text="good"))
    assert response_of(done) == {"error": "Tool execution denied by policy. No evil."}
    assert seen_by_policy == ["good", "evil"]
    assert log == []


@pytest.mark.requirement("HOOK-01")
async def test_a_person_who_approved_one_input_is_asked_again_about_another():
    asked: list[dict[str, Any]] = []
    log: list[Any] = []
    stage, _ = stage_with_hooks(
        SmallTool("echo", shown_input(log)),
        says={BEFORE: HookVerdict(tool_input={"text": "other"})},
        decide=deciding(echo=ASK),
        approver=lambda r: asked.append(r.args) or len(asked) == 1,
    )
    (done,) = await stage.run(request("c0", "echo", text="one"))
    assert asked == [{"text": "one"}, {"text": "other"}]
    assert done.status is CallStatus.CANCELLED
    assert log == []


@pytest.mark.requirement("HOOK-01")
@pytest.mark.parametrize("answer", [True, False])
async def test_a_hook_can_have_a_person_asked_where_the_policy_would_not(answer):
    asked: list[Any] = []
    stage, _ = stage_with_hooks(
        SmallTool("echo"),
        says={BEFORE: HookVerdict(ask=True, reason="looks odd")},
        approver=lambda r: asked.append(r) or answer,
    )
    (done,) = await stage.run("echo")
    assert done.status is (CallStatus.SUCCESS if answer else CallStatus.CANCELLED)
    assert asked[0].decision.reason == "a BeforeTool hook asks: looks odd"
    assert asked[0].outcomes == ("proceed_once", "cancel")


async def test_what_a_hook_wants_asked_no_change_of_the_policy_answers():
    watchers: list[Callable[[], None]] = []
    stage, _ = stage_with_hooks(
        SmallTool("echo"),
        says={BEFORE: HookVerdict(ask=True)},
        watch=lambda listener: watchers.append(listener) or (lambda: None),
    )
    running = asyncio.create_task(stage.run("echo"))
    while not stage.questions():
        await asyncio.sleep(0)
    watchers[0]()
    for _ in range(5):
        await asyncio.sleep(0)
    assert stage.statuses("c0")[-1] == "awaiting_approval"
    stage.scheduler.confirm("c0", "proceed_once")
    assert (await running)[0].status is CallStatus.SUCCESS


async def test_a_person_who_has_just_approved_a_call_is_not_asked_again_for_a_hook():
    asked: list[Any] = []
    stage, _ = stage_with_hooks(
        SmallTool("echo"),
        says={BEFORE: HookVerdict(ask=True)},
        decide=deciding(echo=ASK),
        approver=lambda r: asked.append(r) or True,
    )
    await stage.run("echo")
    assert len(asked) == 1


@pytest.mark.requirement("HOOK-03")
async def test_a_denied_call_is_heard_of_by_no_hook_and_a_stop_ends_the_rest_of_the_batch():
    stage, hooks = stage_with_hooks(
        SmallTool("never"),
        SmallTool("look"),
        SmallTool("change", kind=Kind.EDIT),
        says={BEFORE: HookVerdict(stop="s", block="b")},
        decide=deciding(never=DENY),
    )
    never, look, change = await stage.run("never", "look", "change")
    assert never.response.error_type is ToolErrorType.POLICY_VIOLATION
    assert look.response.error_type is ToolErrorType.STOP_EXECUTION
    assert response_of(change) == {
        "error": "[Operation Cancelled] Reason: Agent execution stopped by hook: s"
    }
    assert hooks.events() == [BEFORE]


@pytest.mark.requirement("HOOK-03")
async def test_notification_hooks_hear_of_a_question_beside_it_and_change_nothing():
    stage, hooks = stage_with_hooks(
        SmallTool("echo"),
        SmallTool("free"),
        says={NOTIFICATION: HookVerdict(stop="s", block="b")},
        decide=deciding(echo=ASK),
    )
    running = asyncio.create_task(stage.run("echo", "free"))
    while not hooks.heard:
        await asyncio.sleep(0)
    stage.scheduler.confirm("c0", "proceed_once")
    assert [call.status for call in await running] == [CallStatus.SUCCESS] * 2
    ((event, fields),) = hooks.heard
    assert event is NOTIFICATION
    assert fields == {
        "notification_type": "ToolPermission",
        "message": "Tool Really? requires information",
        "details": {
            "type": "info",
            "title": "Really?",
            "prompt": "It will happen.",
            "urls": [],
            "warnings": [],
        },
    }


@pytest.mark.requirement("HOOK-03")
async def test_a_notification_hook_that_takes_its_time_holds_nobody_up_and_goes_on():
    enough = asyncio.Event()

    async def slow(fields: dict[str, Any]) -> HookVerdict:
        await enough.wait()
        return HookVerdict()

    stage, hooks = stage_with_hooks(
        SmallTool("echo"),
        says={NOTIFICATION: slow},
        decide=deciding(echo=ASK),
        approver=lambda _: True,
    )
    (done,) = await stage.run("echo")
    assert done.status is CallStatus.SUCCESS
    (running,) = hooks.running
    assert not running.done()
    enough.set()
    assert await running is None


async def test_a_call_is_cancelled_while_its_hooks_run_and_so_are_they():
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow(fields: dict[str, Any]) -> HookVerdict:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    stage, _ = stage_with_hooks(SmallTool("echo"), says={BEFORE: slow})
    running = asyncio.create_task(stage.run("echo"))
    await begun.wait()
    stage.scheduler.cancel_all()
    assert (await running)[0].status is CallStatus.CANCELLED
    assert ended.is_set()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("failure", [OSError("gone"), asyncio.CancelledError()])
async def test_hooks_that_cannot_be_asked_block(failure):
    async def broken(fields: dict[str, Any]) -> HookVerdict:
        raise failure

    log: list[Any] = []
    stage, _ = stage_with_hooks(SmallTool("echo", shown_input(log)), says={BEFORE: broken})
    (done,) = await stage.run("echo")
    assert response_of(done)["error"].startswith("Tool execution blocked: ")
    assert log == []


async def test_hooks_of_a_servers_tool_are_told_of_the_server():
    stage, hooks = stage_with_hooks(says={BEFORE: HookVerdict()})
    stage.registry.register(SmallTool("jira__find"), origin=ToolOrigin.MCP, server="jira")
    await stage.run("jira__find")
    assert hooks.heard[0][1]["mcp_context"] == {"server_name": "jira", "tool_name": "find"}


def test_without_hooks_around_calls_there_is_nothing():
    found: Any = SaidHooks({HookEvent.SESSION_START: HookVerdict()})
    assert tool_hooks(found) is None


async def test_a_hook_that_must_ask_where_nobody_can_answer_blocks():
    stage, _ = stage_with_hooks(
        SmallTool("echo"), says={BEFORE: HookVerdict(ask=True, reason="odd")}
    )
    stage.bus.__init__()
    (done,) = await stage.run("echo")
    assert isinstance(done.response.error, str)
    assert "requires user confirmation" in done.response.error
    assert not isinstance(done.response.error, ToolFailure)
    assert "executing" not in stage.statuses("c0")


@pytest.mark.parametrize(("later", "status"), [(DENY, "error"), (ASK, "cancelled")])
async def test_a_policy_that_changes_while_hooks_run_is_asked_again(later, status):
    rules: list[Callable[[], None]] = []
    now = [ALLOW]

    async def slow(fields: dict[str, Any]) -> HookVerdict:
        now[0] = later
        rules[0]()
        return HookVerdict()

    log: list[Any] = []
    stage, _ = stage_with_hooks(
        SmallTool("echo", shown_input(log)),
        says={BEFORE: slow},
        decide=lambda call: Decision(outcome=now[0], reason="now"),
        watch=lambda listener: rules.append(listener) or (lambda: None),
        approver=lambda _: False,
    )
    (done,) = await stage.run("echo")
    assert str(done.status) == status
    assert log == []


@pytest.mark.requirement("HOOK-03")
async def test_notification_hooks_hear_of_every_question_about_a_call():
    stage, hooks = stage_with_hooks(
        SmallTool("echo"),
        says={BEFORE: HookVerdict(tool_input={"text": "other"}), NOTIFICATION: HookVerdict()},
        decide=deciding(echo=ASK),
    )
    running = asyncio.create_task(stage.run(request("c0", "echo", text="one")))
    for count in (1, 2):
        while hooks.events().count(NOTIFICATION) < count:
            await asyncio.sleep(0)
        stage.scheduler.confirm("c0", "proceed_once")
    assert (await running)[0].status is CallStatus.SUCCESS
    assert hooks.events() == [NOTIFICATION, BEFORE, NOTIFICATION]
