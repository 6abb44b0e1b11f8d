"""Old sessions go beside the session that begins, which does not wait for them."""

import os
import threading
from pathlib import Path

from alhena.config.home import project_checkpoints, project_temp
from alhena.config.settings import GeneralSettings, SessionRetention, Settings
from alhena.events import Event, WarningEvent
from alhena.session.checkpoints.records import Checkpoint, CheckpointFiles
from alhena.session.records import new_session_id
from alhena.session.store import open_store, prune_in_background
from tests.agent.kit import agent
from tests.session.kit import header_of, turns, write
from tests.support.patience import PATIENCE_S
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


def old_sessions(project: Path, count: int) -> list[str]:
    temp = project_temp(os.environ, project)
    store, files = open_store(temp), CheckpointFiles(project_checkpoints(temp))
    store.directory.mkdir(parents=True)
    records = (header_of(project), *turns(1)[1:])
    ids = [new_session_id() for _ in range(count)]
    for number, session_id in enumerate(ids):
        os.utime(write(store.path(session_id), *records), (number, number))
        files.write(f"of-{session_id}", Checkpoint(session_id=session_id))
    return ids


async def test_a_session_that_begins_removes_the_oldest_with_their_checkpoints(project: Path):
    temp = project_temp(os.environ, project)
    ids = old_sessions(project, 23)
    async with agent(ScriptedGenerator([text("ok")])) as running:
        assert await running.ask("hi") == "ok"
        mine = running.session_id
    for each in threading.enumerate():  # the session waits a little only
        if each.name == "alhena-retention":
            each.join(PATIENCE_S)
    found = {item.session_id for item in open_store(temp).summaries()}
    assert found == {mine, *ids[20:]}
    left = CheckpointFiles(project_checkpoints(temp)).names()
    assert [name.partition("Z-of-")[2] for name in left] == ids[20:]


def test_it_is_done_by_a_thread_of_its_own(project: Path):
    temp = project_temp(os.environ, project)
    ids = old_sessions(project, 2)
    heard: list[Event] = []
    thread = prune_in_background(temp, Settings(), ids[1], heard.append)
    assert thread is not None
    thread.join(PATIENCE_S)
    assert [item.session_id for item in open_store(temp).summaries()] == [ids[1]]
    wrong = SessionRetention(max_age="soon")
    settings = Settings(general=GeneralSettings(session_retention=wrong))
    assert prune_in_background(temp, settings, "", heard.append) is None
    (warning,) = heard
    assert isinstance(warning, WarningEvent)
    assert "maxAge" in warning.message
