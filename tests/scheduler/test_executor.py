import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from alhena.events import ToolCallUpdateEvent, ToolOutputEvent
from alhena.scheduler.executor import Executor
from alhena.scheduler.states import CallStatus
from alhena.tools.contract import ExecutionContext, Kind, ToolErrorType, ToolFailure, ToolResult
from alhena.wire.content import Blob, Part, ToolCallRequestInfo
from tests.scheduler.kit import SmallTool, Stage, crash, response_of
from tests.support.media import PNG_TEXT


async def talk(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
    context.update_output("one\n")
    await asyncio.sleep(0)
    context.update_output("two\n")
    return ToolResult(llm_content="one\ntwo\n")


@pytest.mark.requirement("SCHED-07")
async def test_live_output_goes_out_only_for_tools_that_allow_it():
    stage = Stage(SmallTool("live", talk, live=True), SmallTool("mute", talk))
    await stage.run("live", "mute")
    outputs = [event for event in stage.events if isinstance(event, ToolOutputEvent)]
    assert [(event.call_id, event.text) for event in outputs] == [("c0", "one\n"), ("c0", "two\n")]


@pytest.mark.requirement("SCHED-07")
async def test_the_pid_of_a_child_is_reported_while_it_runs():
    async def child(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print()", stdout=-3)
        context.report_pid(process.pid)
        await process.wait()
        return ToolResult(llm_content=str(process.pid))

    stage = Stage(SmallTool("child", child, kind=Kind.EXECUTE))
    (done,) = await stage.run("child")
    updates = [event for event in stage.events if isinstance(event, ToolCallUpdateEvent)]
    assert [event.status for event in updates] == [
        "validating",
        "scheduled",
        "executing",
        "executing",
        "success",
    ]
    assert str(updates[3].pid) == response_of(done)["output"]
    assert updates[2].pid is None


async def test_output_and_pid_from_a_thread_arrive_in_the_loops_thread():
    async def run_in_thread(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        def work() -> None:
            context.update_output("from afar")
            context.report_pid(os.getpid())

        await asyncio.to_thread(work)
        return ToolResult(llm_content="done")

    homes: set[int] = set()
    stage = Stage(SmallTool("live", run_in_thread, live=True))
    stage.on_event = lambda event: homes.add(threading.get_ident())
    await stage.run("live")
    assert any(isinstance(event, ToolOutputEvent) for event in stage.events)
    assert homes == {threading.get_ident()}


async def test_output_that_comes_after_the_end_is_dropped():
    kept: list[ExecutionContext] = []

    async def leak(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        kept.append(context)
        return ToolResult(llm_content="")

    stage = Stage(SmallTool("live", leak, live=True))
    await stage.run("live")
    count = len(stage.events)
    kept[0].update_output("late")
    kept[0].report_pid(1)
    assert len(stage.events) == count


@pytest.mark.requirement("SCHED-07")
async def test_an_exception_of_a_tool_is_an_error_in_one_line():
    stage = Stage(SmallTool("crash", crash), SmallTool("echo"))
    crashed, fine = await stage.run("crash", "echo")
    assert crashed.status is CallStatus.ERROR
    assert crashed.response.error_type is ToolErrorType.UNHANDLED_EXCEPTION
    assert response_of(crashed) == {"error": "OSError: disk on fire"}
    assert fine.status is CallStatus.SUCCESS


async def test_a_tool_that_returns_no_result_is_an_error():
    async def wrong(params: dict[str, Any], context: ExecutionContext) -> Any:
        return {"llm_content": "x"}

    stage = Stage(SmallTool("wrong", wrong))
    (done,) = await stage.run("wrong")
    assert response_of(done) == {
        "error": "TypeError: the tool returned dict instead of a ToolResult"
    }


async def test_a_result_with_content_of_no_known_kind_is_an_error_and_not_a_crash():
    async def odd(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        return ToolResult(llm_content=(3,))

    async def return_knot(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        data: dict[str, Any] = {}
        data["self"] = data
        return ToolResult(llm_content="x", data=data)

    stage = Stage(SmallTool("odd", odd), SmallTool("knotted", return_knot))
    done = await stage.run("odd", "knotted")
    assert [call.response.error_type for call in done] == [ToolErrorType.UNHANDLED_EXCEPTION] * 2


@pytest.mark.requirement("SCHED-07")
async def test_a_failure_of_a_tool_reaches_the_model_as_an_error_and_people_as_its_display():
    async def fail(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        failure = ToolFailure("No such file: a", ToolErrorType.FILE_NOT_FOUND)
        return ToolResult(llm_content="ignored", display="not there", error=failure)

    stage = Stage(SmallTool("fail", fail))
    (done,) = await stage.run("fail")
    assert response_of(done) == {"error": "No such file: a"}
    (event,) = stage.responses()
    assert (event.status, event.error_type) == ("error", "file_not_found")
    assert event.display == "not there"


@pytest.mark.requirement("SCHED-07")
async def test_durations_are_those_of_the_execution_by_the_injected_clock():
    now = [100.0]

    async def work(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        now[0] += 0.25
        return ToolResult(llm_content="")

    stage = Stage(
        SmallTool("work", work, kind=Kind.EDIT),
        executor=Executor(Path.cwd(), clock=lambda: now[0]),
    )
    done = await stage.run("work", "work", "nope")
    assert [call.duration_ms for call in done] == [250.0, 250.0, 0.0]
    by_id = {event.call_id: event.duration_ms for event in stage.responses()}
    assert by_id == {"c0": 250.0, "c1": 250.0, "c2": 0.0}


@pytest.mark.requirement("SCHED-08", "TOOLS-03")
async def test_requests_and_responses_carry_all_their_fields():
    async def work(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        image = Part(inline_data=Blob(mime_type="image/png", data=PNG_TEXT))
        return ToolResult(llm_content=("seen", image), display="an image", data={"n": 1})

    asked = ToolCallRequestInfo(
        call_id="id1",
        name="work",
        args={"text": "x"},
        is_client_initiated=True,
        prompt_id="p",
        checkpoint="cp",
        trace_id="tr",
        parent_call_id="pa",
        scheduler_id="sc",
    )
    stage = Stage(SmallTool("work", work))
    (done,) = await stage.run(asked)
    assert done.request == asked
    response = done.response
    assert response.call_id == "id1"
    assert response.result_display == "an image"
    assert response.data == {"n": 1}
    assert (response.error, response.error_type, response.output_file) == (None, None, None)
    assert response.content_length == len("seen") + len(PNG_TEXT)
    (event,) = stage.responses()
    assert (event.content_length, event.data) == (response.content_length, {"n": 1})
