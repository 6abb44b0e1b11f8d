"""Compression together with hooks, memory, subagents, interruptions and the record on disk."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.between_prompts import compress
from alhena.agent.compression import in_words
from alhena.config.home import project_temp
from alhena.errors import InterruptedRunError
from alhena.events import CompressedEvent, HookCallEvent, OutputsMaskedEvent
from alhena.wire.content import (
    Content,
    EncodedContent,
    FunctionCall,
    FunctionResponse,
    Part,
    text_content,
)
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import GenerateContentResponse
from tests.agent.delegating import Office, complete_task_call, turn, worker
from tests.agent.kit import agent, conforming, events_of
from tests.agent.test_compression import LONG, SNAPSHOT, compression_events, set_to, used
from tests.memory.kit import put
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


def long_ago() -> list[Any]:
    """Answers to two prompts, the first of them long ago, and a summary of that."""
    return [used(1, "one"), used(1, "two"), [text(SNAPSHOT)], [text(SNAPSHOT)]]


@pytest.mark.requirement("HOOK-04")
@pytest.mark.parametrize("matcher", ["manual", "auto", "*"])
async def test_hooks_hear_of_a_compression_before_it_and_cannot_keep_it_from_happening(
    project: Path, matcher: str
):
    command = 'cat > heard.json; echo \'{"decision": "block", "reason": "no"}\''
    hooks = {"hooks": {"PreCompress": [{"matcher": matcher, "hooks": [{"command": command}]}]}}
    generator = ScriptedGenerator(
        used(1, "one"), used(600_000, "two"), [text(SNAPSHOT)], [text(SNAPSHOT)], used(1, "three")
    )
    async with agent(generator, hooks=hooks) as running:
        await running.ask("first " + LONG)
        await running.ask("second")
        events, error = await events_of(running, "third")
    assert error is None
    assert [event.status for event in compression_events(events)] == ["compressed"]
    heard = [event for event in events if isinstance(event, HookCallEvent)]
    assert len(heard) == (matcher != "manual")
    if heard:
        told = json.loads((project / "heard.json").read_text(encoding="utf-8"))
        assert told["trigger"] == "auto"
        assert told["hook_event_name"] == "PreCompress"
        kinds = [type(event).__name__ for event in events]
        assert kinds.index("HookCallEvent") < kinds.index("ApiRequestEvent")


async def test_what_memory_files_say_is_told_again_when_it_was_in_what_is_gone(project: Path):
    put(project, "a/GEMINI.md", "Only snake_case here.")
    put(project, "a/x.txt", "content of x")
    put(project, "GEMINI.md", "first rule")
    read = [chunk(call("read_file", {"absolute_path": "a/x.txt"}, id="1"), finish="STOP")]
    generator = ScriptedGenerator(
        read, used(1, "one"), *long_ago()[1:], read, used(1, "three"), used(1, "four")
    )
    async with agent(generator, skip_trust=True) as running:
        await running.ask("read a/x.txt " + LONG)
        await running.ask("second")
        assert (await compress(running)).status == "compressed"
        assert "snake_case" not in str(running.history)
        await running.ask("read it again")
        assert "Only snake_case here." in str(generator.seen(-1)[-1])
        put(project, "GEMINI.md", "second rule")
        memory = running.toolset.memory
        assert memory is not None
        memory.refresh()
        await running.ask("go on")
    assert "first rule" in str(generator.seen(-1)[0])
    assert "second rule" in str(generator.seen(-1)[-1])
    assert conforming(generator)


async def test_a_subagents_conversation_is_compressed_too(project: Path):
    (project / "a.txt").write_text("alpha\n" * 1_900, encoding="utf-8")
    reads = [
        turn(call("read_file", {"absolute_path": "a.txt", "offset": number}, id=f"c{number}"))
        for number in range(4)
    ]
    reads[-1][-1]["usageMetadata"] = {"promptTokenCount": 900_000}
    generator = ScriptedGenerator(*reads, [text(SNAPSHOT)], [text(SNAPSHOT)], complete_task_call())
    office = Office(generator, agents=[worker()])
    answer = await office.delegate("Find alpha.")
    assert answer.response.error is None
    (event,) = [event for event in office.events if isinstance(event, CompressedEvent)]
    assert event.status == "compressed"
    assert event.role == "subagent"
    sent = generator.seen(-1)
    assert SNAPSHOT in sent[0]["parts"][0]["text"]
    assert sent[2]["parts"] == [{"text": "Find alpha."}]
    assert office.conforming()


class Waiting(ScriptedGenerator):
    """Never gives a summary."""

    def __init__(self, *turns: Any) -> None:
        super().__init__(*turns)
        self.asked = asyncio.Event()

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError("it was cancelled")


async def test_an_interrupted_compression_leaves_the_conversation_as_it_was():
    generator = Waiting(used(1, "one"), used(1, "two"), used(1, "three"))
    async with agent(generator) as running:
        await running.ask("first " + LONG)
        await running.ask("second")
        before = running.history
        compressing = asyncio.ensure_future(compress(running))
        await generator.asked.wait()
        assert running.interrupt()
        with pytest.raises(InterruptedRunError):
            await compressing
        assert running.history == before
        assert await running.ask("third") == "three"
    assert conforming(generator)


async def test_results_are_answered_when_the_run_is_interrupted_while_room_is_made(project: Path):
    (project / "a.txt").write_text("alpha\n" * 1_900, encoding="utf-8")
    read = call("read_file", {"absolute_path": "a.txt"}, id="c")
    usage = {"promptTokenCount": 600_000}
    generator = Waiting(used(1, "one"), [chunk(read, finish="STOP", usage=usage)], used(1, "three"))
    async with agent(generator) as running:
        await running.ask("first " + LONG)
        run = asyncio.ensure_future(events_of(running, "second"))
        await generator.asked.wait()
        running.interrupt()
        _, error = await run
        assert isinstance(error, InterruptedRunError)
        last = running.history[-1].parts[0].function_response
        assert last is not None
        assert last.id == "c"


async def test_a_crash_while_a_compression_is_recorded_leaves_the_old_or_the_new_conversation(
    project: Path,
):
    generator = ScriptedGenerator(*long_ago())
    async with agent(generator) as running:
        await running.ask("first " + LONG)
        await running.ask("second")
        before = running.history
        assert (await compress(running)).status == "compressed"
        after = running.history
        session_id = running.session_id
    path = project_temp(os.environ, project) / "sessions" / f"{session_id}.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    last = max(index for index, line in enumerate(lines) if b'"contents"' in line[:20])
    begin = sum(map(len, lines[:last]))
    size = len(lines[last])
    for cut in (begin, begin + 1, begin + size // 2, begin + size - 2, begin + size):
        path.write_bytes(whole[:cut])
        for left in path.parent.glob("*.damaged*"):
            left.unlink()
        async with agent(ScriptedGenerator(), resume=session_id) as running:
            expected = after if cut == begin + size else before
            assert running.history == expected


async def test_what_cannot_be_kept_on_the_disk_stays_whole(project: Path):
    for number in range(4):
        (project / f"{number}.txt").write_text(f"{number} words\n" * 1_800, encoding="utf-8")
    reads = [
        [chunk(call("read_file", {"absolute_path": f"{n}.txt"}, id=f"c{n}"), finish="STOP")]
        for n in range(4)
    ]
    (project_temp(os.environ, project)).mkdir(parents=True)
    (project_temp(os.environ, project) / "tool-outputs").write_text("in the way", encoding="utf-8")
    generator = ScriptedGenerator(*reads, [text("done")])
    limits = set_to(protectionThresholdTokens=5_000, minPrunableThresholdTokens=5_000)
    async with agent(generator, settings=limits) as running:
        events, error = await events_of(running, "read all")
    assert error is None
    assert not [event for event in events if isinstance(event, OutputsMaskedEvent)]
    assert "masked" not in str(generator.seen(-1))


def test_calls_can_be_told_in_words():
    call_part = Part(function_call=FunctionCall(id="1", name="read", args={"a": 1}))
    response = FunctionResponse(id="1", name="read", response={"error": "gone"})
    contents = [
        Content(role="model", parts=(call_part,)),
        Content(role="user", parts=(Part(function_response=response),)),
        text_content("model", "hm"),
    ]
    told = in_words([EncodedContent(content) for content in contents])
    assert [entry.content.parts[0].text for entry in told] == [
        '[Calls read with {"a":1}]',
        "[Result of read]\ngone",
        "hm",
    ]
