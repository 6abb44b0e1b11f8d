"""Hooks behind calls: what they can do to a result, and calls that take its place."""

import asyncio
from typing import Any

import pytest

from alhena.events import ToolCallRequestEvent
from alhena.hooks.model import HookVerdict, TailCall
from alhena.policy.model import PolicyOutcome
from alhena.scheduler.executor import MAX_REPLACEMENTS, UNHEARD
from alhena.scheduler.states import CallStatus
from alhena.tools.contract import ExecutionContext, Kind, ToolErrorType, ToolResult
from alhena.tools.output_store import OutputStore
from alhena.wire.content import Blob, Part
from tests.scheduler.kit import SmallTool, deciding, forever, request, response_of
from tests.scheduler.said import AFTER, BEFORE, shown_input, stage_with_hooks
from tests.support.media import PNG_TEXT

ASK, ALLOW, DENY = PolicyOutcome.ASK_USER, PolicyOutcome.ALLOW, PolicyOutcome.DENY


@pytest.mark.requirement("HOOK-02", "HOOK-03")
@pytest.mark.parametrize(
    ("said", "error", "kind"),
    [
        (
            HookVerdict(stop="enough"),
            "Agent execution stopped by hook: enough",
            ToolErrorType.STOP_EXECUTION,
        ),
        (
            HookVerdict(block="secret"),
            "Tool result blocked: secret",
            ToolErrorType.EXECUTION_FAILED,
        ),
    ],
)
async def test_a_hook_after_a_tool_keeps_its_result_back(said, error, kind):
    stage, hooks = stage_with_hooks(SmallTool("echo"), says={AFTER: said})
    (done,) = await stage.run(request("c0", "echo", text="hush"))
    assert (response_of(done), done.response.error_type) == ({"error": error}, kind)
    assert "hush" not in str(stage.responses()[0].display)
    assert hooks.heard[0][1]["tool_response"] == {
        "llmContent": "got hush",
        "returnDisplay": "shown",
        "error": None,
    }


@pytest.mark.requirement("HOOK-02")
async def test_what_a_hook_adds_follows_the_result():
    stage, _ = stage_with_hooks(
        SmallTool("echo"), says={AFTER: HookVerdict(additional_context="a &lt; b")}
    )
    (done,) = await stage.run("echo")
    assert response_of(done) == {"output": "got \n\n<hook_context>a &lt; b</hook_context>"}


@pytest.mark.requirement("HOOK-01", "HOOK-02")
async def test_what_hooks_add_is_the_text_of_a_result_of_media():
    picture = Part(inline_data=Blob(mime_type="image/png", data=PNG_TEXT))

    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        return ToolResult(llm_content=picture)

    stage, hooks = stage_with_hooks(
        SmallTool("echo", body),
        says={
            BEFORE: HookVerdict(tool_input={"text": "x"}),
            AFTER: HookVerdict(additional_context="more"),
        },
    )
    (done,) = await stage.run("echo")
    answer, *siblings = done.response.response_parts
    assert [part.inline_data for part in siblings] == [picture.inline_data]
    assert answer.function_response is not None
    assert answer.function_response.response["output"].splitlines() == [
        "[System] Tool input parameters (text) were modified by hook",
        "<hook_context>more</hook_context>",
    ]
    assert hooks.heard[1][1]["tool_response"]["llmContent"][0]["inlineData"]["data"] == PNG_TEXT


@pytest.mark.requirement("HOOK-02")
async def test_a_failure_is_told_to_hooks_and_what_they_add_follows_its_message():
    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        return ToolResult.from_failure("no such file", ToolErrorType.FILE_NOT_FOUND)

    stage, hooks = stage_with_hooks(
        SmallTool("echo", body), says={AFTER: HookVerdict(additional_context="try b")}
    )
    (done,) = await stage.run("echo")
    assert hooks.heard[0][1]["tool_response"]["error"] == {
        "message": "no such file",
        "type": "file_not_found",
    }
    assert response_of(done) == {"error": "no such file\n\n<hook_context>try b</hook_context>"}


@pytest.mark.requirement("HOOK-02")
async def test_what_hooks_add_is_not_lost_when_the_result_is_truncated(tmp_path):
    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        return ToolResult(llm_content="x" * 5_000)

    store = OutputStore(tmp_path / "outputs", "s", threshold=1_000)
    stage, hooks = stage_with_hooks(
        SmallTool("echo", body),
        says={AFTER: HookVerdict(additional_context="kept")},
        outputs=store,
    )
    (done,) = await stage.run("echo")
    assert response_of(done)["output"].endswith("<hook_context>kept</hook_context>")
    assert len(response_of(done)["output"]) < 2_000
    assert hooks.heard[0][1]["tool_response"]["llmContent"] == "x" * 5_000


async def test_a_tool_that_raises_or_is_cancelled_is_heard_of_by_no_hook_after_it():
    async def raises(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        raise OSError("boom")

    stage, hooks = stage_with_hooks(
        SmallTool("raises", raises), SmallTool("forever", forever), says={AFTER: HookVerdict()}
    )
    running = asyncio.create_task(stage.run("raises", "forever"))
    while "error" not in stage.statuses("c0") or "executing" not in stage.statuses("c1"):
        await asyncio.sleep(0)
    stage.scheduler.cancel_all()
    await running
    assert hooks.heard == []


@pytest.mark.requirement("HOOK-02")
async def test_a_tail_call_takes_the_place_of_a_result_and_is_answered_under_the_first_name():
    def after(fields: dict[str, Any]) -> HookVerdict:
        if fields["tool_name"] == "look":
            return HookVerdict(tail_call=TailCall("change", {"text": "tail"}))
        return HookVerdict()

    log: list[Any] = []
    stage, hooks = stage_with_hooks(
        SmallTool("look", shown_input(log)),
        SmallTool("change", shown_input(log), kind=Kind.EDIT),
        says={AFTER: after, BEFORE: HookVerdict()},
    )
    (done,) = await stage.run(request("c0", "look", text="first"))
    assert log == [{"text": "first"}, {"text": "tail"}]
    assert response_of(done) == {"output": "got tail"}
    way = ["validating", "scheduled", "executing", "success"]
    assert (stage.statuses("c0"), stage.statuses("c0~2")) == (way, way)
    second = [fields for event, fields in hooks.heard if event is BEFORE][1]
    assert second["original_request_name"] == "look"
    assert second["tool_name"] == "change"


@pytest.mark.requirement("HOOK-02", "TEL-01")
async def test_a_call_and_the_one_in_its_place_are_recorded_each_for_itself():
    def after(fields: dict[str, Any]) -> HookVerdict:
        if fields["tool_name"] == "look":
            return HookVerdict(tail_call=TailCall("change", {"text": "tail"}))
        return HookVerdict()

    stage, _ = stage_with_hooks(
        SmallTool("look", shown_input([])),
        SmallTool("change", shown_input([]), kind=Kind.EDIT),
        says={AFTER: after},
    )
    (done,) = await stage.run(request("c0", "look", text="first"))
    (second,) = (event for event in stage.events if isinstance(event, ToolCallRequestEvent))
    assert second == ToolCallRequestEvent(
        call_id="c0~2", name="change", args={"text": "tail"}, prompt_id="p1", replaces="c0"
    )
    first, last = stage.responses()
    assert (first.call_id, first.name, first.status) == ("c0", "look", "success")
    assert (first.display, first.decision, first.parts) == ("shown", "auto_accept", ())
    assert first.content_length == len("got first")
    assert (last.call_id, last.name, last.replaces) == ("c0~2", "change", "c0")
    assert last.parts == done.response.response_parts
    (answer,) = last.parts
    assert (answer.function_response.id, answer.function_response.name) == ("c0", "look")


@pytest.mark.parametrize(
    ("tail", "error"),
    [
        (TailCall("nope", {}), 'Tool "nope" not found. Did you mean one of: "never", "look"?'),
        (TailCall("never", {}), "Tool execution denied by policy."),
        (TailCall("look", {"text": 3}), "params/text must be string, got integer 3"),
    ],
)
async def test_a_tail_call_goes_the_way_of_any_other(tail, error):
    stage, _ = stage_with_hooks(
        SmallTool("look"),
        SmallTool("never"),
        says={AFTER: HookVerdict(tail_call=tail)},
        decide=deciding(never=DENY),
    )
    (done,) = await stage.run("look")
    assert response_of(done) == {"error": error}


async def test_tail_calls_that_change_something_run_alone():
    running: set[str] = set()
    overlaps: list[set[str]] = []

    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        running.add(params["text"])
        for _ in range(3):
            await asyncio.sleep(0)
        overlaps.append(set(running))
        running.discard(params["text"])
        return ToolResult(llm_content="done")

    def after(fields: dict[str, Any]) -> HookVerdict:
        if fields["tool_name"] == "change":
            return HookVerdict()
        text = fields["tool_input"]["text"] + "!"
        return HookVerdict(tail_call=TailCall("change", {"text": text}))

    stage, _ = stage_with_hooks(
        SmallTool("look", body), SmallTool("change", body, kind=Kind.EDIT), says={AFTER: after}
    )
    await stage.run(*(request(f"c{n}", "look", text=f"{n}") for n in range(3)))
    assert [each for each in overlaps if any("!" in text for text in each)] == [
        {"0!"},
        {"1!"},
        {"2!"},
    ]


async def test_tail_calls_for_ever_come_to_an_end():
    log: list[Any] = []
    stage, _ = stage_with_hooks(
        SmallTool("look", shown_input(log)),
        says={AFTER: HookVerdict(tail_call=TailCall("look", {}))},
    )
    (done,) = await stage.run("look")
    assert done.status is CallStatus.ERROR
    assert len(log) == MAX_REPLACEMENTS + 1
    assert f"{MAX_REPLACEMENTS} times" in response_of(done)["error"]


async def test_a_call_is_cancelled_between_what_has_run_and_what_takes_its_place():
    async def after(fields: dict[str, Any]) -> HookVerdict:
        asyncio.get_running_loop().call_soon(stage.scheduler.cancel_all)
        return HookVerdict(tail_call=TailCall("look", {"text": "tail"}))

    log: list[Any] = []
    stage, _ = stage_with_hooks(SmallTool("look", shown_input(log)), says={AFTER: after})
    (done,) = await stage.run("look")
    assert done.status is CallStatus.CANCELLED
    assert log == [{}]
    assert [(each.call_id, each.status) for each in stage.responses()] == [
        ("c0", "success"),
        ("c0~2", "cancelled"),
    ]


async def test_a_run_that_a_hook_stops_runs_no_call_in_the_place_of_another():
    waits = asyncio.Event()

    async def after(fields: dict[str, Any]) -> HookVerdict:
        if fields["tool_input"] == {"text": "stop"}:
            await waits.wait()
            return HookVerdict(stop="enough")
        waits.set()
        return HookVerdict(tail_call=TailCall("look", {"text": "tail"}))

    log: list[Any] = []
    stage, _ = stage_with_hooks(SmallTool("look", shown_input(log)), says={AFTER: after})
    first, second = await stage.run(
        request("c0", "look", text="first"), request("c1", "look", text="stop")
    )
    assert second.response.error_type is ToolErrorType.STOP_EXECUTION
    assert response_of(first) == {
        "error": "[Operation Cancelled] Reason: Agent execution stopped by hook: enough"
    }
    assert {"text": "tail"} not in log


async def test_a_call_that_is_cancelled_while_its_hooks_look_at_the_result_is_told_to_have_run():
    begun = asyncio.Event()

    async def after(fields: dict[str, Any]) -> HookVerdict:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing sets this event")

    stage, _ = stage_with_hooks(SmallTool("look"), says={AFTER: after})
    running = asyncio.create_task(stage.run(request("c0", "look", text="secret")))
    await begun.wait()
    stage.scheduler.cancel_all("Enough")
    (done,) = await running
    assert done.status is CallStatus.CANCELLED
    assert response_of(done) == {"error": f"[Operation Cancelled] Reason: Enough. {UNHEARD}"}
    assert "secret" not in str(done.response.result_display)
    assert asyncio.all_tasks() == {asyncio.current_task()}
