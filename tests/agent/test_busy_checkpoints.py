"""Another process holds the checkpoints of the project, and does not come to its end."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from alhena.agent.checkpointing import Checkpoints
from alhena.config.home import project_history, project_temp
from alhena.events import Event, WarningEvent
from alhena.tools.contract import ToolLocation
from alhena.wire.content import ToolCallRequestInfo


@contextmanager
def hold_lock(project: Path) -> Generator[None]:
    history = project_history(os.environ, project_temp(os.environ, project))
    history.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(history / "alhena.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


async def test_a_command_waits_for_another_process_and_then_has_no_snapshot(project: Path):
    heard: list[Event] = []
    checkpoints = Checkpoints(project, os.environ, "s", heard.append, patience_s=0.2)

    async def keep() -> list[str]:
        request = ToolCallRequestInfo(call_id="c", name="write_file", args={}, prompt_id="p")
        place = ToolLocation(path=str(project / "a"))
        name = await checkpoints.keep(request, (place,), edits=False)
        await checkpoints.turn_over()
        assert name is not None
        warnings = [each.message for each in heard if isinstance(each, WarningEvent)]
        heard.clear()
        made = bool(checkpoints.files.read(name).commit_hash)
        return [*warnings, *(["made"] if made else [])]

    with hold_lock(project):
        (missing,) = await keep()
        assert "cannot be restored: Another program holds " in missing
        assert await keep() == []
    assert await keep() == ["made"]
