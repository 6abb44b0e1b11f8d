"""A session that another run goes on with: the same bytes, and nothing done twice."""

import os
from pathlib import Path

import pytest

from alhena.config.home import project_temp
from alhena.policy.model import ApprovalMode
from alhena.session.records import HeldSessionError, NoSessionError
from alhena.session.store import SessionStore, open_store
from alhena.wire.content import MODEL, USER, text_content
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
        before = [bytes(entry.raw) for entry in running._require_session().chat.history.contents]
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


async def test_another_model_is_told_the_session_without_signatures_it_cannot_verify():
    signed = chunk(call("glob", {"pattern": "*"}, id="1", thoughtSignature="c2ln"), finish="STOP")
    async with agent(ScriptedGenerator([signed], [text("done")]), model="gemini-2.5-pro") as first:
        await first.ask("go")
    same, other, again = (ScriptedGenerator([text("yes")]) for _ in range(3))
    async with agent(same, resume="latest", model="gemini-2.5-pro") as running:
        await running.ask("more")
    assert "c2ln" in str(same.seen(0))
    async with agent(other, resume="latest", model="gemini-2.5-flash") as running:
        await running.ask("more")
    assert "c2ln" not in str(other.seen(0))
    assert "glob" in str(other.seen(0))
    async with agent(again, resume="latest", model="gemini-2.5-flash") as running:
        await running.ask("once more")
        assert running.toolset.links.resumed
    assert raws(again, 0)[: len(raws(other, 0))] == raws(other, 0)


async def test_a_conversation_that_was_given_is_recorded_and_resumed():
    given = (text_content(USER, "before"), text_content(MODEL, "indeed"))
    async with agent(ScriptedGenerator([text("one")]), history=given) as running:
        await running.ask("first")
    later = ScriptedGenerator([text("two")])
    async with agent(later, resume="latest") as running:
        await running.ask("second")
    texts = [part["text"] for content in later.seen(0) for part in content["parts"]]
    assert texts == ["before", "indeed", "first", "one", "second"]


async def test_a_project_whose_name_is_no_text_has_sessions(tmp_path: Path):
    odd = tmp_path / os.fsdecode(b"odd\xff")
    odd.mkdir()
    async with agent(ScriptedGenerator([text("one")]), cwd=odd) as running:
        await running.ask("first")
    async with agent(ScriptedGenerator([text("two")]), cwd=odd, resume="latest") as running:
        assert await running.ask("second") == "two"
        assert running.toolset.links.resumed


@pytest.mark.requirement("CHAT-07")
async def test_a_session_is_a_private_file_of_its_project(project: Path):
    async with agent(ScriptedGenerator([text("hello")])) as running:
        await running.ask("hi")
    (only,) = store(project).summaries()
    assert only.title == "hi"
    path = Path(only.path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_an_agent_that_was_asked_nothing_leaves_no_session(project: Path):
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
        assert not running.toolset.links.resumed
    assert error is None
    assert "No previous sessions found for this project." in str(events[0])


async def test_a_name_that_no_session_has_is_refused():
    async with agent(ScriptedGenerator([text("hello")])) as running:
        await running.ask("hi")
    with pytest.raises(NoSessionError, match="no session is called '7'"):
        await agent(ScriptedGenerator(), resume="7").__aenter__()


async def test_a_session_that_is_at_work_is_not_taken_over(project: Path):
    async with agent(ScriptedGenerator([text("hello")])) as running:
        await running.ask("hi")
        with pytest.raises(HeldSessionError, match="open in another terminal"):
            await agent(ScriptedGenerator(), resume="latest").__aenter__()
        with pytest.raises(HeldSessionError):
            store(project).delete(running.session_id)
    async with agent(ScriptedGenerator([text("again")]), resume="latest") as running:
        assert await running.ask("hi") == "again"


async def test_a_session_that_cannot_begin_holds_nothing():
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
        first = running.session_id
        await running.clear()
        await running.ask("second")
    found = {item.title: item.session_id for item in store(project).summaries()}
    assert set(found) == {"first", "second"}
    assert found["first"] == first


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


async def test_what_a_tool_does_is_on_record_before_it_begins(project: Path):
    """The call sees, in the file, that it has been started."""
    command = "cat ../home/.gemini/tmp/project/sessions/*.jsonl > seen.txt"
    generator = ScriptedGenerator(
        [chunk(call("run_shell_command", {"command": command}, id="s1"), finish="STOP")],
        [text("done")],
    )
    async with agent(generator, approval_mode=ApprovalMode.YOLO) as running:
        await running.ask("look")
    seen = (project / "seen.txt").read_text(encoding="utf-8")
    assert '"type":"started"' in seen.splitlines()[-1]
    assert '"callId":"s1"' in seen.splitlines()[-1]


async def test_a_run_that_is_left_is_resumed_with_an_answer_for_every_call(project: Path):
    generator = ScriptedGenerator(
        [chunk(call("run_shell_command", {"command": "sleep 9"}, id="s1"), finish="STOP")],
    )
    async with agent(generator, approval_mode=ApprovalMode.YOLO) as running:
        async for event in running.run("wait"):
            if getattr(event, "pid", None) is not None:
                break
    later = ScriptedGenerator([text("I see.")])
    async with agent(later, resume="latest") as running:
        assert await running.ask("and?") == "I see."
    answers = [
        part["functionResponse"]
        for content in later.seen(0)
        for part in content["parts"]
        if "functionResponse" in part
    ]
    assert [item["id"] for item in answers] == ["s1"]
    assert "cancelled" in str(answers[0]["response"]).lower() or answers[0]["response"]["error"]
    assert conforming(later)
