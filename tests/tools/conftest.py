from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from alhena.system.processes import ProcessGroups
from alhena.tools.output_store import OutputStore


@pytest.fixture
async def groups() -> AsyncIterator[ProcessGroups]:
    """Processes of a session, ended with the test."""
    kept = ProcessGroups()
    yield kept
    await kept.close()


@pytest.fixture
def store(tmp_path: Path) -> OutputStore:
    return OutputStore(tmp_path / "outputs", "s1")
