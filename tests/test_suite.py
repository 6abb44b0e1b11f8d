import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent
BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
PYTEST = [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml")]
PYTEST += ["-p", "pytest_timeout", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider"]
"""With the plugins that its configuration names alone: to load the others takes a second."""


def test_a_slow_report_of_a_test_does_not_end_the_run(tmp_path: Path):
    (tmp_path / "conftest.py").write_text(
        "import time\n\n\n"
        "def pytest_runtest_makereport(item, call):\n"
        "    if (item.name, call.when) == ('test_one', 'call'):\n"
        "        time.sleep(1.5)\n"
    )
    (tmp_path / "test_two.py").write_text("def test_one(): pass\n\n\ndef test_two(): pass\n")
    ran = subprocess.run(
        [*PYTEST, f"--rootdir={tmp_path}", "--timeout=1", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | BARE,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert "2 passed" in ran.stdout, ran.stdout


@pytest.mark.parametrize(("reason", "code"), [("no bubblewrap", 1), ("root reads everything", 0)])
def test_a_skip_without_grounds_fails_an_unattended_run(tmp_path: Path, reason: str, code: int):
    (tmp_path / "conftest.py").write_text("from tests.support.skips import *  # noqa: F403\n")
    (tmp_path / "test_one.py").write_text(
        "import pytest\n\n\ndef test_one(): pass\n\n\n"
        f"@pytest.mark.skipif(True, reason={reason!r})\ndef test_two(): pass\n"
    )
    ran = subprocess.run(
        [*PYTEST, f"--rootdir={tmp_path}", str(tmp_path), "--no-skips"],
        env=os.environ | BARE | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == code, ran.stdout
    assert reason in ran.stdout
    assert ("scripts/test_programs.sh" in ran.stdout) is bool(code)


def test_every_slow_file_is_there():
    listed = (ROOT / "tests" / "slow_files.txt").read_text("utf-8").split()
    assert [each for each in listed if not (ROOT / "tests" / each).is_file()] == []
    assert len(listed) > 100
