"""Checks behind the policy's decision: between it and the run, and nothing gets past them."""

import asyncio
from typing import Any

import pytest

from alhena.policy.model import Decision, PolicyCall, PolicyOutcome, PolicyRule
from alhena.scheduler.states import CallStatus
from tests.scheduler.kit import SmallTool, Stage, deciding, request, response_of

ALLOW, ASK, DENY = PolicyOutcome.ALLOW, PolicyOutcome.ASK_USER, PolicyOutcome.DENY


class Checker:
    """A check that answers `outcome` and remembers what it was asked."""

    def __init__(self, outcome: PolicyOutcome) -> None:
        self.outcome = outcome
        self.asked: list[tuple[str, dict[str, Any], PolicyOutcome]] = []

    async def __call__(self, call: PolicyCall, decision: Decision) -> Decision:
        self.asked.append((call.names[0], call.args, decision.outcome))
        rule = PolicyRule(decision=self.outcome, priority=2, deny_message="The check says no.")
        return Decision(outcome=self.outcome, reason="the check", rule=rule)


@pytest.mark.requirement("POL-10")
async def test_a_check_is_asked_about_every_call_that_is_not_denied_already() -> None:
    check = Checker(ALLOW)
    tools = [SmallTool("free"), SmallTool("asked"), SmallTool("never")]
    stage = Stage(*tools, decide=deciding(asked=ASK, never=DENY), check=check)
    one, two, three = await stage.run(
        request("c0", "free", text="a"), request("c1", "asked"), request("c2", "never")
    )
    assert check.asked == [("free", {"text": "a"}, ALLOW), ("asked", {}, ASK)]
    assert (one.status, two.status, three.status) == (
        CallStatus.SUCCESS,
        CallStatus.SUCCESS,
        CallStatus.ERROR,
    )


@pytest.mark.requirement("POL-10")
async def test_what_a_check_denies_does_not_run() -> None:
    stage = Stage(SmallTool("free"), check=Checker(DENY))
    (done,) = await stage.run("free")
    assert response_of(done) == {"error": "Tool execution denied by policy. The check says no."}
    assert "executing" not in stage.statuses("c0")


async def test_what_a_check_wants_asked_is_asked_for_its_reason() -> None:
    stage = Stage(SmallTool("free"), check=Checker(ASK), approver=lambda asked: False)
    (done,) = await stage.run("free")
    assert [question.reason for question in stage.questions()] == ["the check"]
    assert done.status is CallStatus.CANCELLED


@pytest.mark.requirement("POL-10")
@pytest.mark.parametrize("failure", [OSError("disk\non fire"), asyncio.CancelledError()])
async def test_a_check_that_fails_denies(failure: BaseException) -> None:
    async def check(call: PolicyCall, decision: Decision) -> Decision:
        raise failure

    stage = Stage(SmallTool("free"), check=check)
    (done,) = await stage.run("free")
    error = response_of(done)["error"]
    assert error.startswith("Tool execution denied: the safety checkers could not be asked (")
    assert "executing" not in stage.statuses("c0")


async def test_a_call_that_is_cancelled_while_it_is_checked_ends_and_so_does_the_check() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def check(call: PolicyCall, decision: Decision) -> Decision:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError("nothing sets this event")

    stage = Stage(SmallTool("free"), check=check)
    task = asyncio.create_task(stage.run("free"))
    await begun.wait()
    stage.scheduler.cancel_all("enough")
    (done,) = await task
    assert (done.status, ended.is_set()) == (CallStatus.CANCELLED, True)
    assert "executing" not in stage.statuses("c0")
