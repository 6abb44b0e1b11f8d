"""`kill -9` at random instants: whatever was acknowledged is there, and nothing is done twice.
`make soak-kills` kills 5,000 times."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent.parent
KILLS = 10
SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_session_that_is_killed_loses_nothing_that_was_acknowledged(seed: int):
    ran = subprocess.run(
        [sys.executable, "-m", "tests.session.killing", str(seed), str(KILLS)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seen = msgspec.json.decode(ran.stdout)
    assert seen["kills"] == KILLS
    assert seen["acknowledged"] > 0
    assert seen["unknown"] > 0


@pytest.mark.requirement("TERM-04")
def test_a_rewind_that_is_killed_leaves_the_session_or_a_whole_fork_and_can_be_repeated():
    ran = subprocess.run(
        [sys.executable, "-m", "tests.session.rewinding"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 3
