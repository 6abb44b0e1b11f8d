"""An agent over several prompts: one conversation, calls of the person's own, a new beginning."""

import asyncio
from pathlib import Path

import pytest

from alhena.agent.limits import BusyError
from alhena.errors import InterruptedRunError
from alhena.events import Event, ToolCallRequestEvent, ToolCallResponseEvent
from alhena.wire.content import Part
from tests.agent.kit import agent, conforming, events_of, kinds
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


async def test_a_failed_prompt_does_not_keep_the_next_from_its_answer():
    generator = ScriptedGenerator([InterruptedRunError("cut")], [text("fine")])
    async with agent(generator) as running:
        _, error = await events_of(running, "first")
        assert error is not None
        assert await running.ask("second") == "fine"
    assert "first" not in str(generator.seen(1))
    assert conforming(generator)


async def test_what_goes_with_a_prompt_stands_around_its_text_and_goes_once():
    generator = ScriptedGenerator([text("one")], [text("two")])
    async with agent(generator) as running:
        around = {"before": [Part(text="note")], "attached": [Part(text="file"), Part(text="end")]}
        async for _ in running.run("prompt", **around):
            pass
        await running.ask("next")
    texts = [part["text"] for part in generator.seen(0)[-1]["parts"]]
    assert texts == ["note", "prompt", "file", "end"]
    assert generator.seen(1)[-1]["parts"] == [{"text": "next"}]


async def test_a_person_calls_a_tool_through_the_same_gate(project: Path):
    (project / "a.txt").write_text("alpha", encoding="utf-8")
    asked: list[str] = []

    def approve(request: object) -> bool:
        asked.append(request.call_id)
        return False

    generator = ScriptedGenerator([text("hi")])
    async with agent(generator, approve=approve) as running:
        reading = running.call("read_file", {"absolute_path": "a.txt"})
        events = [event async for event in reading]
        assert kinds(events)[0] == "tool_call_request"
        assert kinds(events).count("tool_call_response") == 1
        assert reading.completed is not None
        answer = reading.completed.response.response_parts[0].function_response
        assert answer.response == {"output": "alpha"}
        writing = running.call("write_file", {"file_path": "b.txt", "content": "x"})
        events = [event async for event in writing]
        assert asked == [writing.call_id]
        assert writing.completed.status == "cancelled"
        assert await running.ask("hello") == "hi"
    assert not (project / "b.txt").exists()
    assert "alpha" not in str(generator.seen(0))


async def test_a_call_can_be_interrupted_and_leaves_nothing_behind():
    async with agent(ScriptedGenerator([text("still here")]), approve=lambda _r: True) as running:
        sleeping = running.call("run_shell_command", {"command": "echo on; sleep 60"})
        ended: list[Event] = []

        async def follow() -> None:
            async for event in sleeping:
                ended.append(event)
                if getattr(event, "pid", None):
                    assert running.interrupt()

        with pytest.raises(InterruptedRunError):
            await follow()
        responses = [event for event in ended if isinstance(event, ToolCallResponseEvent)]
        assert [response.status for response in responses] == ["cancelled"]
        assert await running.ask("hello") == "still here"


async def test_a_call_waits_for_no_prompt_and_a_prompt_for_no_call():
    reached = asyncio.Event()

    class Held(ScriptedGenerator):
        async def stream(self, request):
            reached.set()
            await asyncio.Event().wait()
            yield

    async with agent(Held()) as running:
        run = running.run("slow")
        first = asyncio.ensure_future(anext(run))
        await first
        await reached.wait()
        with pytest.raises(BusyError):
            await anext(running.call("read_file", {"absolute_path": "a"}))
        await run.aclose()


async def test_ids_of_own_calls_are_unique_in_a_session():
    async with agent(ScriptedGenerator()) as running:
        ids: set[str] = set()
        for _ in range(3):
            events = [event async for event in running.call("nope", {})]
            ids |= {event.call_id for event in events if isinstance(event, ToolCallRequestEvent)}
        assert len(ids) == 3


async def test_hooks_of_a_session_that_is_left_are_ended_when_the_person_hurries(project: Path):
    hook = {"command": "echo begun > begun; exec sleep 3600"}
    hooks = {"hooks": {"SessionEnd": [{"hooks": [hook]}]}}
    async with agent(ScriptedGenerator([text("One.")]), hooks=hooks) as running:
        await running.ask("first")
        first = running.session_id
        clearing = asyncio.create_task(running.clear())
        while not (project / "begun").exists():
            await asyncio.sleep(0.01)
        assert running.interrupt()
        await clearing
        assert running.session_id != first
        assert not running.interrupt()
