"""A small tree with a copy of the script: what it says of faults that are caught, left and lost."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent
TESTS = """
import pytest
from thing import double


@pytest.mark.requirement("A-01")
def test_claimed():
    assert double(2) == 4


def test_not_claimed():
    assert double(3) == 6
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    for name in ("src", "tests", "scripts"):
        (tree / name).mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "mutate.py", tree / "scripts")
    shutil.copy(ROOT / "tests" / "support" / "claims.py", tree / "tests" / "conftest.py")
    (tree / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["requirement(id): x"]\n'
    )
    (tree / "requirements.toml").write_text('[a]\nA-01 = "x"\nA-02 = "y"\n')
    (tree / "src" / "thing.py").write_text("def double(n):\n    return n + n\n")
    (tree / "tests" / "test_thing.py").write_text(TESTS)
    return tree


def mutate(tree: Path, faults: str, *rows: str) -> subprocess.CompletedProcess[str]:
    (tree / "scripts" / "faults.toml").write_text(faults)
    return subprocess.run(
        [sys.executable, str(tree / "scripts" / "mutate.py"), *rows],
        cwd=tree,
        env=os.environ
        | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # each start loads them for nothing
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def fault(old: str, new: str, file: str = "src/thing.py") -> str:
    return f"[[A-01]]\nfile = '{file}'\nold = '{old}'\nnew = '{new}'\n"


def test_a_fault_that_no_claiming_test_catches_is_named(tree: Path):
    ran = mutate(tree, fault("n + n", "n * n") + fault("n + n", "n - n"))
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert ran.stdout.endswith("\n1 faults left\nA-01 src/thing.py: 'n + n' -> 'n * n'\n")
    assert "'n + n' -> 'n - n'\n    caught by tests/test_thing.py::test_claimed\n" in ran.stdout
    assert (tree / "src" / "thing.py").read_text() == "def double(n):\n    return n + n\n"


def test_a_fault_is_found_where_its_text_has_moved(tree: Path):
    ran = mutate(tree, fault("n + n", "n - n", "src/gone.py"), "A-01")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "src/thing.py: 'n + n' -> 'n - n'\n    caught by" in ran.stdout


def test_a_test_that_fails_anyway_catches_nothing(tree: Path):
    (tree / "src" / "thing.py").write_text("def double(n):\n    return n + n + 1\n")
    ran = mutate(tree, fault("n + 1", "n + 2"))
    assert ran.returncode == 1
    assert "tests/test_thing.py::test_claimed fails without it too" in ran.stdout


@pytest.mark.parametrize(
    ("faults", "rows", "told"),
    [
        (
            fault("m + m", "0"),
            [],
            "'m + m' -> '0': the old text has to occur once; it occurs nowhere",
        ),
        (fault("n", "0"), [], "it occurs 4 in src/thing.py"),
        ("", [], "A-01 has no fault"),
        ("", ["A-02"], "A-02 is claimed by no test"),
    ],
)
def test_a_fault_that_cannot_be_planted_is_an_error(
    tree: Path, faults: str, rows: list[str], told: str
):
    ran = mutate(tree, faults, *rows)
    assert ran.returncode == 2
    assert told in ran.stderr


def test_every_claimed_row_has_a_fault_that_can_be_planted() -> None:
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "scripts" / "mutate.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "mutate", script)  # where its dataclass looks for itself
        spec.loader.exec_module(script)
        faults, problems = script.planned()
    assert problems == []
    assert {fault.row for fault in faults} == set(script.claimed())
