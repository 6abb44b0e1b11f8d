"""Limits that end subagents."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from alhena.policy.model import ApprovalMode
from alhena.scheduler.question import ConfirmationRequest
from alhena.scheduler.states import CallStatus, CompletedToolCall
from alhena.tools.contract import ExecutionContext, ToolResult
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import GenerateContentResponse
from tests.agent.delegating import Office, complete_task_call, turn, worker
from tests.scheduler.kit import SmallTool, response_of
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, text


async def test_an_agent_that_only_talks_gets_one_more_chance(project: Path):
    office = Office(
        ScriptedGenerator([text("It is in b.py.")], complete_task_call("In b.py.")),
        agents=(worker(),),
    )
    answer = await office.delegate()
    assert response_of(answer)["output"].endswith("Termination Reason: GOAL\nResult:\nIn b.py.")
    last = office.generator.seen(1)[-1]["parts"][0]["text"]
    assert last.startswith("Agent stopped calling tools but did not call 'complete_task'.")
    assert office.conforming()


async def test_what_an_agent_said_is_not_lost_when_it_never_completes(project: Path):
    office = Office(
        ScriptedGenerator([text("It is in b.py.")], [text("Really, b.py.")]), agents=(worker(),)
    )
    answer = await office.delegate()
    assert answer.status is CallStatus.ERROR
    assert response_of(answer)["error"] == (
        "Subagent 'worker' did not complete its task.\n"
        "Termination Reason: ERROR_NO_COMPLETE_TASK_CALL\n"
        "Agent stopped calling tools but did not call 'complete_task'.\n"
        "What it said before:\nIt is in b.py.\nWhat it said last:\nReally, b.py."
    )


@pytest.mark.parametrize("completes", [True, False])
async def test_the_turn_limit_ends_an_agent_after_a_last_turn(project: Path, completes: bool):
    looking = turn(call("list_directory", {"path": "."}))
    last = complete_task_call("part") if completes else turn(call("write_file", {"file_path": "x"}))
    office = Office(
        ScriptedGenerator(looking, looking, last),
        agents=(worker(max_turns=2),),
        mode=ApprovalMode.YOLO,
    )
    answer = await office.delegate()
    assert len(office.generator.requests) == 3
    parts = office.generator.seen(2)[-1]["parts"]
    assert "functionResponse" in parts[0]
    assert "Agent reached max turns limit (2)." in parts[1]["text"]
    if completes:
        assert response_of(answer)["output"].endswith("GOAL\nResult:\npart")
    else:
        assert "Termination Reason: MAX_TURNS" in response_of(answer)["error"]
        assert [e.name for e in office.responses()].count("write_file") == 0
    assert office.conforming()


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward."""

    skipped = 0.0

    def time(self) -> float:
        return super().time() + self.skipped


def on_a_clock(work: Callable[[SkippingLoop], Awaitable[CompletedToolCall]]) -> CompletedToolCall:
    loop = SkippingLoop()

    async def main() -> CompletedToolCall:
        return await work(loop)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main())


def test_the_time_limit_ends_an_agent_and_what_it_runs(project: Path):
    stopped: list[str] = []
    generator = ScriptedGenerator(turn(call("hang", {})), complete_task_call("late"))

    async def work(loop: SkippingLoop) -> CompletedToolCall:
        async def hang(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
            loop.skipped += 300
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append("hang")
            raise AssertionError("nothing sets this event")

        office = Office(
            generator,
            agents=(worker(time_limit_s=180),),
            mode=ApprovalMode.YOLO,
            tools=(SmallTool("hang", hang),),
        )
        answer = await office.delegate()
        assert office.conforming()
        return answer

    answer = on_a_clock(work)
    assert stopped == ["hang"]
    assert response_of(answer)["output"].endswith("GOAL\nResult:\nlate")
    response, note = generator.seen(1)[-1]["parts"]
    assert "Operation Cancelled" in str(response)
    assert "Agent timed out after 3 minutes." in note["text"]


def test_an_agent_whose_first_request_takes_too_long_is_asked_again_with_its_task(project: Path):
    class Slow(ScriptedGenerator):
        async def stream(
            self, request: GenerateContentRequest
        ) -> AsyncGenerator[GenerateContentResponse, None]:
            async for response in super().stream(request):
                if len(self.requests) == 1:
                    asyncio.get_running_loop().skipped += 300
                    await asyncio.Event().wait()
                yield response

    generator = Slow(complete_task_call("never"), complete_task_call("late"))

    async def work(_loop: SkippingLoop) -> CompletedToolCall:
        return await Office(generator, agents=(worker(time_limit_s=180),)).delegate("Find it.")

    answer = on_a_clock(work)
    assert response_of(answer)["output"].endswith("GOAL\nResult:\nlate")
    task, note = generator.seen(1)[-1]["parts"]
    assert task["text"] == "Find it."
    assert "Agent timed out after 3 minutes." in note["text"]


def test_the_time_a_person_takes_does_not_count(project: Path):
    generator = ScriptedGenerator(
        turn(call("write_file", {"file_path": "x", "content": "y"})), complete_task_call("in time")
    )

    async def work(loop: SkippingLoop) -> CompletedToolCall:
        async def approve(request: ConfirmationRequest) -> bool:
            loop.skipped += 300
            for _ in range(5):
                await asyncio.sleep(0)
            return True

        office = Office(generator, agents=(worker(time_limit_s=180),), approve=approve)
        return await office.delegate()

    answer = on_a_clock(work)
    assert response_of(answer)["output"].endswith("in time")
    assert "timed out" not in str(generator.seen(1))
    assert (project / "x").exists()
