"""Calls that a crash has left without a result: told as they are, and never repeated by us."""

import os
from pathlib import Path

import pytest

from alhena.config.home import claim_project_temp, project_temp
from alhena.session.records import KnownRecord
from alhena.session.replay import NOT_STARTED
from alhena.session.store import open_store
from alhena.wire.conformance.history import UNKNOWN_OUTCOME
from alhena.wire.content import USER
from tests.agent.kit import agent, conforming, events_of
from tests.session.kit import (
    answered_record,
    calls,
    contents,
    header_of,
    replay_journal,
    says,
    started_record,
    write,
)
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


def write_crashed_journal(project: Path, *records: KnownRecord) -> Path:
    """The journal of a session of this project that ended in these records."""
    temp = project_temp(os.environ, project)
    claim_project_temp(temp, project)
    store = open_store(temp)
    store.directory.mkdir()
    go = contents(0, says(USER, "go"), calls("a", "b"))
    return write(store.path("s"), header_of(project), go, *records)


async def resume_session(project: Path) -> tuple[list[dict[str, str]], str, ScriptedGenerator]:
    generator = ScriptedGenerator([text("I see.")])
    async with agent(generator, resume="s") as running:
        events, error = await events_of(running, "go on")
    assert error is None
    responses = [
        part["functionResponse"]["response"]
        for content in generator.seen(0)
        for part in content["parts"]
        if "functionResponse" in part
    ]
    return responses, str(events[0]), generator


async def test_a_call_that_had_started_has_an_unknown_outcome_and_a_person_is_told(project: Path):
    write_crashed_journal(project, answered_record("a", "fine"), started_record("b"))
    responses, notice, generator = await resume_session(project)
    assert responses == [{"output": "fine"}, {"error": UNKNOWN_OUTCOME}]
    assert "run_shell_command had started" in notice
    assert conforming(generator)


async def test_a_call_that_had_not_started_is_told_to_have_had_no_effect(project: Path):
    write_crashed_journal(project, started_record("a"))
    responses, _, _ = await resume_session(project)
    assert responses == [{"error": UNKNOWN_OUTCOME}, {"error": NOT_STARTED}]


async def test_results_that_were_recorded_are_told_as_they_were(project: Path):
    write_crashed_journal(
        project,
        started_record("b"),
        answered_record("b", "two"),
        started_record("a"),
        answered_record("a", "one"),
    )
    responses, notice, _ = await resume_session(project)
    assert responses == [{"output": "one"}, {"output": "two"}]
    assert "unknown" not in notice


async def test_what_was_said_of_an_unknown_outcome_is_said_the_same_way_ever_after(project: Path):
    path = write_crashed_journal(project, started_record("a"), started_record("b"))
    first, _, _ = await resume_session(project)
    again, notice, generator = await resume_session(project)
    assert again == first
    assert "unknown" not in notice
    assert replay_journal(path)[0].pending_responses() is None
    assert conforming(generator)


async def test_a_prompt_that_was_never_answered_is_followed_by_word_of_that(project: Path):
    temp = project_temp(os.environ, project)
    claim_project_temp(temp, project)
    store = open_store(temp)
    store.directory.mkdir()
    write(store.path("s"), header_of(project), contents(0, says(USER, "first")))
    generator = ScriptedGenerator([text("fine")])
    async with agent(generator, resume="latest") as running:
        await running.ask("second")
    assert [content["role"] for content in generator.seen(0)] == ["user", "model", "user"]
    assert conforming(generator)


@pytest.mark.parametrize("cut", range(1, 60, 7))
async def test_a_torn_end_is_moved_aside_and_said(project: Path, cut: int):
    path = write_crashed_journal(
        project, answered_record("a", "fine"), answered_record("b", "fine, too")
    )
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    torn = cut > 1  # without its newline the last line is whole
    responses, notice, generator = await resume_session(project)
    assert responses == [
        {"output": "fine"},
        {"error": NOT_STARTED} if torn else {"output": "fine, too"},
    ]
    assert ("was damaged" in notice) == torn
    aside = list(path.parent.glob("s.damaged-*"))
    assert [each.read_bytes() for each in aside] == (
        [whole.splitlines(True)[-1][:-cut]] if torn else []
    )
    assert replay_journal(path)[1].damage is None
    assert conforming(generator)


@pytest.mark.parametrize("behind", [False, True])
async def test_of_calls_whose_records_are_damaged_nobody_says_they_had_no_effect(
    project: Path, behind: bool
):
    more = (answered_record("b", "fine"),) if behind else ()
    path = write_crashed_journal(project, started_record("a"), started_record("b"), *more)
    whole = path.read_bytes()
    last = whole.rindex(b'"type":"started"')
    path.write_bytes(whole[:last] + b"#" + whole[last + 1 :])  # a bit of it has turned
    responses, notice, generator = await resume_session(project)
    assert responses == [{"error": UNKNOWN_OUTCOME}, {"error": UNKNOWN_OUTCOME}]
    assert "run_shell_command, run_shell_command may have started" in notice
    assert conforming(generator)
