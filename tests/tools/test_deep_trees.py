"""Trees whose paths are longer than the system takes."""

import os
from pathlib import Path

import pytest

from alhena.system.workspace import Workspace
from alhena.tools.builtin.list_directory import Glob
from alhena.tools.builtin.read_many_files import ReadManyFiles
from tests.tools.files import call, text_of

NAME = "d" * 200
MOST = os.pathconf("/", "PC_PATH_MAX")


@pytest.fixture
def deep(project: Path) -> Path:
    """Directories within each other, from the project's own to some that no path reaches."""
    here = os.getcwd()
    os.chdir(project)
    for _ in range(depth(project) + 4):
        os.mkdir(NAME)
        os.chdir(NAME)
        Path("f.txt").touch()
    os.chdir(here)
    return project


def depth(project: Path) -> int:
    """The number of these directories whose file has a path that the system takes."""
    return (MOST - 1 - len(os.fsencode(project)) - len("/f.txt")) // (len(NAME) + 1)


@pytest.mark.requirement("TOOLS-13")
async def test_glob_says_once_where_it_could_not_go_on(deep: Path) -> None:
    text = text_of(await call(Glob(Workspace(deep)), pattern="**/*.txt"))
    assert text.count("Path is too long: ") == 1
    assert "\n(1 directory could not be read: Path is too long: " in text
    assert text.startswith(f"Found {depth(deep)} file(s) ")  # too long to be listed whole


@pytest.mark.requirement("TOOLS-15")
async def test_read_many_files_says_once_where_it_could_not_go_on(deep: Path) -> None:
    result = await call(ReadManyFiles(Workspace(deep)), paths=["**/*.txt"])
    assert text_of(result).count("- Path is too long: ") == 1
