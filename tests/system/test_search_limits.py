import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from alhena.system.errors import SearchError, SearchTimeoutError
from alhena.system.search import PythonSearch, Query, SearchResult
from alhena.system.search_finders import GitGrepSearch, RipgrepSearch, choose_backend

Write = Callable[[str, str], None]


@pytest.fixture
def tree(project: Path) -> Path:
    (project / ".git").mkdir()
    return project


@pytest.fixture
def write(tree: Path) -> Write:
    return lambda name, content: (tree / name).write_text(content, encoding="utf-8") and None


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("(a|a)*[bc]$", "a" * 5_000),
        ("(a|ab)*[cd]$", "ab" * 3_000),
        ("a*a*a*a*a*a*[bc]", "a" * 400),
        ("(x+x+)+y", "x" * 3_000),
        ("([a-z]+)*[0-9]", "abc" * 1_000),
    ],
)
async def test_a_pattern_that_explodes_ends_with_an_error(
    tree: Path, write: Write, pattern: str, line: str
) -> None:
    write("a.txt", line)
    backend = PythonSearch(time_limit=0.3)
    with pytest.raises(SearchTimeoutError, match=r"timed out after 300ms|takes more than"):
        await backend.search(Query(pattern=pattern, path=tree, root=tree))


async def test_the_event_loop_runs_on_while_a_pattern_explodes(tree: Path, write: Write) -> None:
    write("a.txt", "a" * 5_000 + "\n")
    backend = PythonSearch(time_limit=0.5)
    searching = asyncio.create_task(
        backend.search(Query(pattern="(a|a)*[bc]$", path=tree, root=tree))
    )
    turns = 0
    while not searching.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 100
    assert isinstance(searching.exception(), SearchTimeoutError)


async def test_cancelling_ends_the_search_and_its_thread(tree: Path, write: Write) -> None:
    write("a.txt", ("a" * 100 + "\n") * 20_000)
    threads = threading.active_count()
    searching = asyncio.create_task(
        PythonSearch().search(Query(pattern=r"a*a*[bc]", path=tree, root=tree))
    )
    while threading.active_count() == threads:
        await asyncio.sleep(0)
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching


async def test_a_cancellation_event_ends_the_search(tree: Path, write: Write) -> None:
    write("a.txt", "needle\n")
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(SearchError, match="cancelled"):
        await PythonSearch().search(Query(pattern="needle", path=tree, root=tree), cancelled)


async def test_a_finder_that_fails_is_done_without(tree: Path, write: Write) -> None:
    write("a.txt", "needle\n")
    query = Query(pattern="needle", path=tree, root=tree)
    results: list[SearchResult] = []
    failing = tree.parent / "failing"
    failing.write_text("#!/bin/sh\nexit 2\n", encoding="utf-8")
    failing.chmod(0o755)
    for broken in ("/no/such/program", str(failing)):
        results += [await RipgrepSearch(broken).search(query)]
        results += [await GitGrepSearch(broken).search(query)]
    assert [(r.matches[0].text, len(r.matches)) for r in results] == [("needle", 1)] * 4


async def test_files_that_cannot_be_read_are_told(tree: Path, write: Write) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    write("locked.txt", "needle\n")
    (tree / "locked.txt").chmod(0)
    result = await PythonSearch().search(Query(pattern="needle", path=tree, root=tree))
    assert any("locked.txt" in note for note in result.notes)


async def test_the_backend_is_chosen_by_what_is_there(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    assert choose_backend(tree).name == "python"
    for name, expected in (("git", "git grep"), ("rg", "ripgrep")):
        (programs / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (programs / name).chmod(0o755)
        assert choose_backend(tree).name == expected
    elsewhere = {"PATH": str(tmp_path), "HOME": "/"}
    assert choose_backend(tree, environ=elsewhere).name == "python"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert choose_backend(tree, environ={"PATH": str(programs)}).name == "ripgrep"
    monkeypatch.setenv("PATH", str(programs))
    (programs / "rg").unlink()
    assert choose_backend(tmp_path / "home").name == "python"
