"""A session that another run goes on with: the same bytes, and nothing done twice."""

import os
from pathlib import Path

import pytest

from alhena.agent.recording import open_store
from alhena.config.home import project_temp
from alhena.policy.model import ApprovalMode
from alhena.session.errors import HeldSessionError, NoSessionError
from alhena.session.store import SessionStore
from tests.agent.kit import agent, conforming, events_of
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


def store(project: Path) -> SessionStore:
    return open_store(project_temp(os.environ, project))


def raws(generator: ScriptedGenerator, index: int) -> list[bytes]:
    return [bytes(content.raw) for content in generator.requests[index].contents]


def reading() -> ScriptedGenerator:
    return ScriptedGenerator(
        [chunk(call("read_file", {"absolute_path": "a.txt"}, id="1"), finish="STOP")],
        [text("It says alpha.")],
    )


@pytest.mark.requirement("CHAT-07")
async def test_a_resumed_session_sends_the_same_bytes_as_if_it_had_never_ended(project: Path):
    (project / "a.txt").write_text("alpha ⚡", encoding="utf-8")
    first = reading()
    async with agent(first) as running:
        await running.ask("read a.txt")
        session_id = running.session_id
        before = [bytes(entry.raw) for entry in running._opened().chat.history.contents]
    second = ScriptedGenerator([text("As I said.")])
    async with agent(second, resume="latest") as running:
        assert running.session_id == session_id
        assert await running.ask("again?") == "As I said."
    assert raws(second, 0)[:-1] == before
    assert second.seen(0)[-1] == {"role": "user", "parts": [{"text": "again?"}]}
    assert conforming(second)
    third = ScriptedGenerator([text("Yes.")])
    async with agent(third, resume=session_id[:8]) as running:
        await running.ask("and again?")
    assert len(raws(third, 0)) == len(raws(second, 0)) + 2
    assert raws(third, 0)[: len(before) + 1] == raws(second, 0)


async def test_a_session_is_a_private_file_of_its_project(project: Path):
    async with agent(ScriptedGenerator([text("hello")])) as running:
        await running.ask("hi")
    (only,) = store(project).summaries()
    assert only.title == "hi"
    path = Path(only.path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_an_agent_that_was_asked_nothing_leaves_no_session(project: Path, home: Path):
    async with agent(ScriptedGenerator()):
        pass
    assert store(project).summaries() == ()


async def test_a_session_may_go_unrecorded(project: Path):
    async with agent(ScriptedGenerator([text("hello")]), record=False) as running:
        await running.ask("hi")
    assert store(project).summaries() == ()


async def test_the_latest_of_no_sessions_is_a_new_one_and_is_said():
    async with agent(ScriptedGenerator([text("hello")]), resume="latest") as running:
        events, error = await events_of(running, "hi")
    assert error is None
    assert "No previous sessions found for this project." in str(events[0])


async def test_a_name_that_no_session_has_is_refused(project: Path):
    async with agent(ScriptedGenerator([text("hello")])) as running:
        await running.ask("hi")
    with pytest.raises(NoSessionError, match="no session is called '7'"):
        async with agent(ScriptedGenerator(), resume="7"):
            pass


async def test_a_session_that_is_at_work_is_not_taken_over(project: Path):
    async with agent(ScriptedGenerator([text("hello")])) as running:
        await running.ask("hi")
        with pytest.raises(HeldSessionError, match="in use by another process"):
            async with agent(ScriptedGenerator(), resume="latest"):
                pass
        with pytest.raises(HeldSessionError):
            store(project).delete(running.session_id)
    async with agent(ScriptedGenerator([text("again")]), resume="latest") as running:
        assert await running.ask("hi") == "again"


async def test_a_session_that_cannot_begin_holds_nothing(project: Path):
    async with agent(ScriptedGenerator([text("hello")])) as running:
        await running.ask("hi")
    broken = agent(ScriptedGenerator(), resume="latest", policy=["no-such-policy.toml"])
    with pytest.raises(Exception, match="no-such-policy"):
        await broken.__aenter__()
    async with agent(ScriptedGenerator([text("again")]), resume="latest") as running:
        assert await running.ask("hi") == "again"


async def test_clearing_begins_another_session(project: Path):
    generator = ScriptedGenerator([text("one")], [text("two")])
    async with agent(generator) as running:
        await running.ask("first")
        await running.clear()
        await running.ask("second")
    assert [item.title for item in store(project).summaries()] in (
        ["first", "second"],
        ["second", "first"],
    )


async def test_a_failed_prompt_is_not_in_the_resumed_history():
    generator = ScriptedGenerator([text("one")], [RuntimeError("cut")])
    async with agent(generator) as running:
        await running.ask("first")
        with pytest.raises(RuntimeError):
            await running.ask("second")
    later = ScriptedGenerator([text("three")])
    async with agent(later, resume="latest") as running:
        await running.ask("third")
    assert "first" in str(later.seen(0))
    assert "second" not in str(later.seen(0))


async def test_what_a_tool_did_is_recorded_before_it_begins(project: Path):
    """The call sees, on the disk, that it has been started."""
    command = "cat ../home/.gemini/tmp/project/sessions/*.jsonl > seen.txt"
    generator = ScriptedGenerator(
        [chunk(call("run_shell_command", {"command": command}, id="s1"), finish="STOP")],
        [text("done")],
    )
    async with agent(generator, approval_mode=ApprovalMode.YOLO) as running:
        await running.ask("look")
    seen = (project / "seen.txt").read_text(encoding="utf-8")
    assert '"type":"started"' in seen
    assert '"callId":"s1"' in seen.splitlines()[-1]
