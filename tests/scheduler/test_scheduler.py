import asyncio
import os
from typing import Any

import pytest

from alhena.events import ToolCallResponseEvent, ToolCallUpdateEvent
from alhena.policy.model import Decision, PolicyCall, PolicyOutcome, PolicyRule
from alhena.scheduler.states import CallStatus
from alhena.tools.contract import ExecutionContext, Kind, ToolErrorType, ToolResult
from tests.scheduler.kit import (
    SmallTool,
    Stage,
    crash,
    deciding,
    echo,
    request,
    requests,
    response_of,
)

DENY, ALLOW, ASK = PolicyOutcome.DENY, PolicyOutcome.ALLOW, PolicyOutcome.ASK_USER


@pytest.mark.requirement("SCHED-02")
async def test_one_request_may_be_scheduled_without_a_list():
    stage = Stage(SmallTool("echo"))
    (done,) = await stage.scheduler.schedule(request("c0", "echo", text="hi"))
    assert response_of(done) == {"output": "got hi"}


async def test_an_empty_batch_is_done_at_once():
    assert await Stage().scheduler.schedule([]) == []


@pytest.mark.requirement("SCHED-02")
async def test_an_unknown_tool_is_an_error_that_names_the_nearest_tools():
    stage = Stage(SmallTool("read_file"), SmallTool("read_mail"))
    (done,) = await stage.run("read_fil")
    assert done.status is CallStatus.ERROR
    assert done.response.error_type is ToolErrorType.TOOL_NOT_REGISTERED
    assert response_of(done) == {
        "error": 'Tool "read_fil" not found. Did you mean one of: "read_file", "read_mail"?'
    }
    assert stage.statuses("c0") == ["error"]


@pytest.mark.requirement("SCHED-02")
async def test_wrong_parameters_are_an_error_and_the_tool_never_runs():
    ran: list[Any] = []

    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        ran.append(params)
        return await echo(params, context)

    stage = Stage(SmallTool("echo", body))
    bad, good = await stage.run(request("a", "echo", text=3), request("b", "echo", text="x"))
    assert bad.response.error_type is ToolErrorType.INVALID_TOOL_PARAMS
    assert response_of(bad) == {"error": "params/text must be string, got integer 3"}
    assert good.status is CallStatus.SUCCESS
    assert ran == [{"text": "x"}]


async def test_the_whole_batch_is_built_before_anything_runs():
    stage = Stage(SmallTool("echo"))
    await stage.run("echo", "nope", "echo")
    updates = [event for event in stage.events if isinstance(event, ToolCallUpdateEvent)]
    order = [(event.call_id, event.status) for event in updates if event.call_id != "c0"]
    assert order.index(("c1", "error")) < order.index(("c2", "executing"))
    assert stage.statuses("c0") == ["validating", "scheduled", "executing", "success"]


@pytest.mark.requirement("TOOLS-05")
async def test_a_tool_that_cannot_even_be_built_is_an_error_of_that_call_only():
    class Broken(SmallTool):
        def build(self, params: dict[str, Any]) -> Any:
            raise ZeroDivisionError("in build")

    stage = Stage(Broken("broken"), SmallTool("echo"))
    broken, fine = await stage.run("broken", "echo")
    assert broken.response.error_type is ToolErrorType.UNHANDLED_EXCEPTION
    assert response_of(broken) == {"error": "ZeroDivisionError: in build"}
    assert fine.status is CallStatus.SUCCESS


@pytest.mark.requirement("SCHED-03")
async def test_a_denied_call_is_an_error_with_the_rules_own_words():
    rule = PolicyRule(decision=DENY, priority=500, deny_message="Not on Sundays.")
    decision = Decision(outcome=DENY, reason="rule 1", rule=rule)
    stage = Stage(SmallTool("echo"), decide=deciding(echo=decision))
    (done,) = await stage.run("echo")
    assert done.response.error_type is ToolErrorType.POLICY_VIOLATION
    assert response_of(done) == {"error": "Tool execution denied by policy. Not on Sundays."}
    assert stage.statuses("c0") == ["validating", "error"]
    assert stage.responses()[0].decision == "reject"


@pytest.mark.requirement("SCHED-03")
async def test_a_denial_without_words_of_its_own_says_who_denied():
    stage = Stage(SmallTool("echo"), decide=deciding(echo=DENY))
    (done,) = await stage.run("echo")
    assert response_of(done) == {"error": "Tool execution denied by policy."}


@pytest.mark.requirement("SCHED-03")
async def test_what_would_have_to_be_asked_where_nobody_is_says_so_with_the_reason():
    decision = Decision(outcome=DENY, reason="No rule matched.", rule=None)
    stage = Stage(SmallTool("echo"), decide=deciding(echo=decision))
    (done,) = await stage.run("echo")
    assert response_of(done) == {
        "error": 'Tool execution for "Echo" requires user confirmation, which is not supported in '
        "non-interactive mode. Reason: No rule matched."
    }
    assert done.response.error_type is ToolErrorType.POLICY_VIOLATION


@pytest.mark.requirement("SCHED-03")
async def test_an_allowed_call_runs_unasked_and_one_with_nothing_to_show_too():
    stage = Stage(
        SmallTool("free"),
        SmallTool("quiet", asks=None),
        decide=deciding(free=ALLOW, quiet=Decision(outcome=ASK, reason="no rule", rule=None)),
    )
    done = await stage.run("free", "quiet")
    assert [call.status for call in done] == [CallStatus.SUCCESS] * 2
    assert stage.questions() == []
    assert {event.decision for event in stage.responses()} == {"auto_accept"}


@pytest.mark.requirement("SCHED-03")
async def test_a_rule_that_asks_is_never_skipped_because_the_tool_has_nothing_to_show():
    stage = Stage(
        SmallTool("quiet", asks=None), decide=deciding(quiet=ASK), approver=lambda _: False
    )
    (done,) = await stage.run("quiet")
    assert done.status is CallStatus.CANCELLED
    assert [event.details["type"] for event in stage.questions()] == ["info"]


async def test_the_policy_sees_every_name_and_the_declared_parameters():
    seen: list[PolicyCall] = []

    def decide(call: PolicyCall) -> Decision:
        seen.append(call)
        return Decision(outcome=ALLOW, reason="")

    stage = Stage(SmallTool("list_directory"), decide=decide)
    (done,) = await stage.run(request("c0", "ls", dir_path="src"))
    assert seen[0].names == ("list_directory", "ls", "LSTool", "ReadFolder")
    assert seen[0].args == {"path": "src"}
    assert done.response.response_parts[0].function_response.name == "ls"


def recorder(log: list[str], meeting: asyncio.Barrier | None = None) -> Any:
    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        log.append(f"+{params['text']}")
        if meeting is not None:
            await meeting.wait()
        log.append(f"-{params['text']}")
        return ToolResult(llm_content=params["text"])

    return body


@pytest.mark.requirement("TOOLS-04")
async def test_contiguous_non_mutating_calls_run_together_and_mutating_ones_alone():
    log: list[str] = []
    together = asyncio.Barrier(2)
    stage = Stage(
        SmallTool("look", recorder(log, together)),
        SmallTool("change", recorder(log), kind=Kind.EDIT),
    )
    plan = ["look", "look", "change", "change", "look", "look"]
    done = await stage.run(*(request(str(i), name, text=str(i)) for i, name in enumerate(plan)))
    # A barrier of two lets nobody through alone: 0 and 1 were inside at once, 4 and 5 too.
    assert log[:2] == ["+0", "+1"]
    assert log[4:8] == ["+2", "-2", "+3", "-3"]
    assert log[8:10] == ["+4", "+5"]
    assert [response_of(call)["output"] for call in done] == ["0", "1", "2", "3", "4", "5"]


async def test_calls_that_cannot_run_do_not_part_those_that_run_together():
    log: list[str] = []
    together = asyncio.Barrier(2)
    stage = Stage(SmallTool("look", recorder(log, together)))
    done = await stage.run(request("a", "look", text="a"), "gone", request("b", "look", text="b"))
    assert [call.status for call in done] == [
        CallStatus.SUCCESS,
        CallStatus.ERROR,
        CallStatus.SUCCESS,
    ]


@pytest.mark.requirement("SCHED-06")
async def test_responses_keep_call_order_whatever_ends_first():
    first, second = asyncio.Event(), asyncio.Event()

    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        if params["text"] == "a":
            await second.wait()
            first.set()
        second.set()
        return ToolResult(llm_content=params["text"])

    stage = Stage(SmallTool("look", body))
    done = await stage.run(request("a", "look", text="a"), request("b", "look", text="b"))
    assert [response_of(call) for call in done] == [{"output": "a"}, {"output": "b"}]
    assert [event.call_id for event in stage.responses()] == ["b", "a"]
    assert first.is_set()


@pytest.mark.requirement("SCHED-02", "SCHED-06")
async def test_a_second_batch_waits_for_the_first_and_batches_end_in_order():
    running, go = asyncio.Event(), asyncio.Event()

    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        running.set()
        await go.wait()
        return await echo(params, context)

    stage = Stage(SmallTool("slow", body), SmallTool("echo"))
    ended: list[str] = []

    async def batch(name: str, *calls: Any) -> None:
        done = await stage.scheduler.schedule(requests(*calls))
        ended.append(f"{name}:{len(done)}")

    first = asyncio.create_task(batch("first", request("s", "slow"), request("t", "slow")))
    await running.wait()
    second = asyncio.create_task(batch("second", request("e", "echo")))
    third = asyncio.create_task(batch("third", request("f", "echo"), request("g", "echo")))
    await asyncio.sleep(0)
    assert stage.statuses("e") == []
    go.set()
    await asyncio.gather(first, second, third)
    assert ended == ["first:2", "second:1", "third:2"]
    assert [call.request.call_id for call in stage.scheduler.last_batch] == ["f", "g"]


@pytest.mark.requirement("SCHED-06")
async def test_every_call_is_reported_exactly_once_even_with_equal_ids():
    stage = Stage(SmallTool("echo"), SmallTool("crash", crash), decide=deciding())
    done = await stage.run(
        request("same", "echo"), request("same", "crash"), request("same", "nope")
    )
    assert [call.status for call in done] == [
        CallStatus.SUCCESS,
        CallStatus.ERROR,
        CallStatus.ERROR,
    ]
    reported = [event for event in stage.events if isinstance(event, ToolCallResponseEvent)]
    assert len(reported) == 3
    assert {response_of(call).popitem()[0] for call in done} == {"output", "error"}


async def test_the_states_of_the_running_batch_can_be_looked_at():
    stage = Stage(SmallTool("look", kind=Kind.EDIT))
    seen: list[list[CallStatus]] = []
    stage.on_event = lambda event: seen.append([c.status for c in stage.scheduler.calls])
    await stage.run("look", "look")
    assert [CallStatus.SUCCESS, CallStatus.EXECUTING] in seen
    assert stage.scheduler.calls == ()


async def test_names_from_the_file_system_that_are_no_unicode_reach_events_and_model_scrubbed():
    name = os.fsdecode(b"caf\xe9")

    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        return ToolResult(llm_content=name, display=name, data={"path": name})

    stage = Stage(SmallTool("echo", body))
    (done,) = await stage.run(request("c0", "echo", text=name))
    assert response_of(done) == {"output": "caf\ufffd"}
    assert stage.responses()[0].display == "caf\ufffd"
    assert stage.responses()[0].data == {"path": "caf\ufffd"}
