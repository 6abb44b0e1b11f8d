"""Another process holds the checkpoints of the project, and does not come to its end."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from alhena.agent.checkpointing import Checkpoints
from alhena.config.home import project_history, project_temp
from alhena.events import CheckpointEvent, Event, WarningEvent
from alhena.tools.contract import ToolLocation
from alhena.wire.content import ToolCallRequestInfo


@contextmanager
def held(project: Path) -> Generator[None]:
    history = project_history(os.environ, project_temp(os.environ, project))
    history.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(history / "alhena.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def words(heard: list[Event]) -> list[str]:
    found = [each.message if isinstance(each, WarningEvent) else "made" for each in heard]
    heard.clear()
    return found


async def test_it_is_said_that_a_call_waits_and_of_each_that_it_has_no_checkpoint(project: Path):
    heard: list[Event] = []
    checkpoints = Checkpoints(project, os.environ, "s", heard.append)
    checkpoints.patience_s = 0.2

    async def keep(name: str) -> list[str]:
        request = ToolCallRequestInfo(call_id="c", name=name, args={}, prompt_id="p")
        made = await checkpoints.keep(request, (ToolLocation(path=str(project / "a")),))
        assert (made is not None) == any(isinstance(each, CheckpointEvent) for each in heard)
        return words(heard)

    with held(project):
        waits, missing = await keep("write_file")
        assert waits.startswith("the checkpoints of this project are in use: waiting")
        assert "no checkpoint was made before this call of write_file: another process" in missing
        assert "continue or end it" in missing
        (missing,) = await keep("replace")
        assert "before this call of replace" in missing
        (missing,) = await keep("replace")
        assert "before this call of replace" in missing
    assert await keep("write_file") == ["made"]
    with held(project):
        assert len(await keep("write_file")) == 2
