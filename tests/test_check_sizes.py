"""The figures about names: the script runs on a small tree, with the limits of this one."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CLEAR = """
from functools import cached_property


class Rule:
    @property
    def ended(self): ...
    @cached_property
    def named(self): ...
    def describe_rule(self): ...


def read(): ...
def need(): ...
def escaped(): ...
def shown_rules(): ...
"""
UNCLEAR = """
class Rule:
    def _told(self):
        def joined(): ...


async def first(): ...
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "check_sizes.py", tmp_path / "scripts")
    (tmp_path / "scripts" / "circles.toml").write_text("circle = []\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "fast_paths.json").write_text(
        '{"first request": [], "read_file turn": []}'
    )
    package = tmp_path / "src" / "alhena"
    package.mkdir(parents=True)
    (package / "clear.py").write_text(CLEAR)
    return tmp_path


def run(tree: Path, *options: str) -> tuple[int, str]:
    command = [sys.executable, str(tree / "scripts" / "check_sizes.py"), *options]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not result.stderr
    return result.returncode, result.stdout


def set_limits(tree: Path, limit: int) -> None:
    script = tree / "scripts" / "check_sizes.py"
    text, count = re.subn(
        r'("(?:participle_functions|participles_in_tests|repeated_classes)"): \d+,',
        rf"\1: {limit},",
        script.read_text(),
    )
    assert count == 3
    script.write_text(text)


def test_verbs_nouns_properties_and_changed_copies_are_clear_names(tree: Path) -> None:
    set_limits(tree, 0)
    status, output = run(tree)
    assert status == 0, output
    assert "participle_functions           0  at most 0" in output
    assert "repeated_classes               0  at most 0" in output


def test_participles_and_repeated_classes_above_the_limit_fail(tree: Path) -> None:
    (tree / "src" / "alhena" / "unclear.py").write_text(UNCLEAR)
    set_limits(tree, 0)
    status, output = run(tree)
    assert status == 1
    assert "participle_functions: 3, at most 0" in output
    assert "repeated_classes: 1, at most 0" in output


def test_participles_of_tests_have_a_limit_of_their_own(tree: Path) -> None:
    (tree / "tests" / "test_unclear.py").write_text(UNCLEAR)
    set_limits(tree, 2)
    status, output = run(tree)
    assert status == 1
    assert "participles_in_tests: 3, at most 2" in output
    assert "tests/test_unclear.py:4: joined" in run(tree, "--names")[1].splitlines()


def test_names_lists_the_unclear_names_with_their_places(tree: Path) -> None:
    (tree / "src" / "alhena" / "unclear.py").write_text(UNCLEAR)
    status, output = run(tree, "--names")
    assert status == 0
    assert output.splitlines() == [
        "src/alhena/unclear.py:3: _told",
        "src/alhena/unclear.py:4: joined",
        "src/alhena/unclear.py:7: first",
        "Rule: src/alhena/clear.py, src/alhena/unclear.py",
    ]


@pytest.mark.parametrize(("room", "status"), [("agent", 1), ("wire", 0)])
def test_classes_with_many_fields_fail_where_options_gather(
    tree: Path, room: str, status: int
) -> None:
    folder = tree / "src" / "alhena" / room
    folder.mkdir()
    fields = "\n".join(f"    field_{number}: int = 0" for number in range(21))
    (folder / "options.py").write_text(f"class Options:\n{fields}\n")
    found, output = run(tree)
    assert found == status
    assert ("Options has 21 fields, at most 20" in output) == bool(status)
