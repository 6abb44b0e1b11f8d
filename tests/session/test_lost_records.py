"""Records that are gone with a damaged end: people and the model are told, whatever comes between."""

import os
from pathlib import Path

import pytest

from alhena.session.recording import GONE
from alhena.session.replay import NOT_STARTED
from alhena.session.store import project_store
from alhena.wire.conformance.content_repair import UNKNOWN_OUTCOME
from tests.agent.kit import agent, conforming, events_of
from tests.agent.test_checkpoints import shell, turn
from tests.session.kit import replay_journal, started_record
from tests.session.test_unknown_outcomes import resume_session, write_crashed_journal
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


def damage_record(path: Path, what: bytes = b'"type":"started"') -> tuple[bytes, bytes]:
    """Has a bit of the last record of a kind turn; what can be trusted, and what is after it."""
    whole = path.read_bytes()
    at = whole.rindex(what)
    path.write_bytes(whole[:at] + b"#" + whole[at + 1 :])
    begin = whole.rindex(b"\n", 0, at) + 1
    return path.read_bytes()[:begin], path.read_bytes()[begin:]


def texts_of(generator: ScriptedGenerator) -> list[str]:
    sent = generator.seen(0)
    return [part["text"] for content in sent for part in content["parts"] if "text" in part]


@pytest.mark.parametrize("copied", ["nothing", "a part", "all", "all, and cut off"])
async def test_wherever_a_run_ends_that_moves_an_end_away_the_next_one_knows(
    project: Path, copied: str
):
    path = write_crashed_journal(project, started_record("a"), started_record("b"))
    trusted, behind = damage_record(path)
    aside = path.with_name("s.damaged-1")
    aside.write_bytes(
        {"nothing": b"", "a part": behind[:10]}[copied]
        if copied in ("nothing", "a part")
        else behind
    )
    if copied == "all, and cut off":
        path.write_bytes(trusted)
    responses, notice, generator = await resume_session(project)
    assert responses == [{"error": UNKNOWN_OUTCOME}, {"error": UNKNOWN_OUTCOME}]
    assert "may have started" in notice
    assert f"{len(behind)} bytes of its end were moved to" in notice
    assert texts_of(generator).count(GONE) == 1
    assert conforming(generator)


@pytest.mark.parametrize("size", [1, 30])
async def test_of_a_line_that_was_not_written_to_its_end_nothing_is_gone(project: Path, size: int):
    path = write_crashed_journal(project, started_record("a"))
    path.with_name("s.damaged-1").write_bytes(b'{"type":"event","at":"2026-01-31T12:00:00'[:size])
    responses, notice, generator = await resume_session(project)
    assert responses == [{"error": UNKNOWN_OUTCOME}, {"error": NOT_STARTED}]
    assert f"{size} bytes of its end were moved" in notice
    assert GONE not in texts_of(generator)


async def test_a_model_whose_own_words_are_gone_is_told_so(project: Path):
    generator = ScriptedGenerator(
        turn(shell("echo once >> log.txt", "c1")),
        turn(shell("echo twice >> log.txt", "c2")),
        [text("Done.")],
    )
    async with agent(generator, approval_mode="yolo") as running:
        await running.ask("deploy")
        path = project_store(os.environ, project).path(running.session_id)
    damage_record(path, b'"functionCall":{"id":"c1"')
    generator = ScriptedGenerator([text("I see.")], [text("Still.")])
    async with agent(generator, resume="latest") as running:
        events, error = await events_of(running, "go on")
        assert error is None
        assert "damaged" in str(events[0])
        said = texts_of(generator)
        assert said.index("deploy") < said.index(GONE) < said.index("go on")
        assert conforming(generator)
        await running.ask("and now?")
    found, extent = replay_journal(path)
    assert extent.damage is None
    assert not found.incomplete
    assert str(generator.seen(1)).count(GONE) == 1
