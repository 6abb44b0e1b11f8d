"""Every search backend, over a tree in which each of them can take part."""

import subprocess
from pathlib import Path

import pytest

from alhena.system.search import FileSearch
from tests.system.searching import GIT, GREP, RG, Write


def backends() -> list[object]:
    absent_grep = pytest.mark.skipif(not GREP, reason="grep is not GNU's")
    absent_rg = pytest.mark.skipif(RG is None, reason="ripgrep is not installed")
    return [
        pytest.param(FileSearch, id="python"),
        pytest.param(lambda: FileSearch(RG or ""), id="ripgrep", marks=absent_rg),
        pytest.param(lambda: FileSearch(GREP or ""), id="grep", marks=absent_grep),
    ]


@pytest.fixture(params=backends())
def backend(request: pytest.FixtureRequest) -> FileSearch:
    made: FileSearch = request.param()
    return made


@pytest.fixture
def tree(project: Path) -> Path:
    """A git work tree, so that every backend can take part."""
    if GIT:
        subprocess.run([GIT, "init", "-q", str(project)], check=True)
    return project


@pytest.fixture
def write(tree: Path) -> Write:
    def writing(name: str, content: str | bytes) -> None:
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return writing
