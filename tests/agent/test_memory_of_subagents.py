"""Memory files of subagents: those of the session, and their own."""

from pathlib import Path
from typing import Any

from tests.agent.kit import agent, conforming, instruction
from tests.agent.test_memory import SKIP, reading, text_of_result
from tests.memory.kit import put
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

AGENT = "codebase_investigator"


def delegating() -> list[Any]:
    given = {"agent_name": AGENT, "objective": "look"}
    return [chunk(call("delegate_to_agent", given, id="d"), finish="STOP")]


def reporting() -> list[Any]:
    report = {
        "summary_of_findings": "seen",
        "exploration_trace": ["read"],
        "relevant_locations": [],
    }
    return [chunk(call("complete_task", {"result": report}, id="e"), finish="STOP")]


async def test_a_subagent_knows_what_the_user_wants_every_session_to_know(
    home: Path, project: Path
):
    put(home, ".gemini/GEMINI.md", "I like brevity.")
    put(project, "GEMINI.md", "Use tabs.")
    generator = ScriptedGenerator(delegating(), reporting(), [text("done")])
    async with agent(generator, approval_mode="yolo", **SKIP) as running:
        await running.ask("go")
    said = instruction(generator, 1)
    assert said.startswith("You are")
    assert "alhena, an agent for software work" not in said
    assert "I like brevity." in said
    assert said.endswith("</global_context>\n</loaded_context>")
    assert "Use tabs." in str(generator.seen(1)[0])
    assert conforming(generator)


async def test_a_subagent_is_told_of_a_place_that_the_session_was_told_of(project: Path):
    put(project, "a/x.txt", "content")
    path = put(project, "a/GEMINI.md", "Only snake_case here.")
    first = ScriptedGenerator(reading("a/x.txt", 0), [text("1")])
    async with agent(first, record=True, **SKIP) as running:
        await running.ask("one")
        session = running.session_id
    generator = ScriptedGenerator(
        delegating(), reading("a/x.txt", 1), reporting(), reading("a/x.txt", 2), [text("done")]
    )
    async with agent(generator, resume=session, approval_mode="yolo", **SKIP) as running:
        await running.ask("go")
    assert len(generator.requests) == 5
    said = text_of_result(path, "Only snake_case here.")
    assert [part.get("text") for part in generator.seen(2)[-1]["parts"]] == [None, said]
    assert str(generator.seen(4)).count("snake_case") == 2  # once before and once after the resume
    assert conforming(generator)
