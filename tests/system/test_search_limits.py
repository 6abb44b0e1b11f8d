import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from alhena.system.errors import SearchError, SearchTimeoutError
from alhena.system.search import FileSearch, Query, SearchResult, choose_search

Write = Callable[[str, str], None]


@pytest.fixture
def tree(project: Path) -> Path:
    (project / ".git").mkdir()
    return project


@pytest.fixture
def write(tree: Path) -> Write:
    def one(name: str, content: str) -> None:
        (tree / name).write_text(content, encoding="utf-8")

    return one


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
    backend = FileSearch(time_limit=0.3)
    with pytest.raises(SearchTimeoutError, match=r"timed out after 300ms|takes too long"):
        await backend.search(Query(pattern=pattern, path=tree, root=tree))


async def test_the_event_loop_runs_on_while_a_pattern_explodes(tree: Path, write: Write) -> None:
    write("a.txt", "a" * 5_000 + "\n")
    backend = FileSearch(time_limit=0.5)
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
    threads = set(threading.enumerate())
    searching = asyncio.create_task(
        FileSearch().search(Query(pattern=r"a*a*[bc]", path=tree, root=tree))
    )
    while set(threading.enumerate()) <= threads:
        await asyncio.sleep(0)
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching


async def test_a_cancellation_event_ends_the_search(tree: Path, write: Write) -> None:
    write("a.txt", "needle\n")
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(SearchError, match="cancelled"):
        await FileSearch().search(Query(pattern="needle", path=tree, root=tree), cancelled)


async def test_a_finder_that_fails_is_done_without(tree: Path, write: Write) -> None:
    write("a.txt", "needle\n")
    query = Query(pattern="needle", path=tree, root=tree)
    results: list[SearchResult] = []
    failing = tree.parent / "failing"
    failing.write_text("#!/bin/sh\nexit 2\n", encoding="utf-8")
    failing.chmod(0o755)
    for broken in ("/no/such/program", str(failing)):
        results += [await FileSearch(broken).search(query)]
    assert [(r.matches[0].text, len(r.matches)) for r in results] == [("needle", 1)] * 2


@pytest.mark.requirement("COST-06")
async def test_files_that_cannot_be_read_are_told(tree: Path, write: Write) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    write("locked.txt", "needle\n")
    (tree / "locked.txt").chmod(0)
    result = await FileSearch().search(Query(pattern="needle", path=tree, root=tree))
    assert any("locked.txt" in note for note in result.notes)


async def test_ripgrep_is_used_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    assert choose_search().name == "python"
    (programs / "rg").write_text("#!/bin/sh\n", encoding="utf-8")
    (programs / "rg").chmod(0o755)
    assert choose_search().name == "ripgrep"
    elsewhere = {"PATH": str(tmp_path), "HOME": "/"}
    assert choose_search(environ=elsewhere).name == "python"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert choose_search(environ={"PATH": str(programs)}).name == "ripgrep"


@pytest.mark.requirement("TOOLS-14")
@pytest.mark.requirement("COST-06")
async def test_a_line_that_takes_too_long_is_named(
    tree: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alhena.system.search.LINE_SECONDS", 0.2)
    write("seq.fasta", ">one 1\n" + "ACGT" * 20_000 + "\nACAC 2\n")
    for query in (
        Query(pattern=r"(AC|GT)+ ?\d", path=tree, root=tree),
        Query(pattern="ACGT", exclude=r"(AC|GT)+ ?\d", path=tree, root=tree),
    ):
        with pytest.raises(SearchTimeoutError, match=r"too long at line 2 of .*/seq\.fasta"):
            await FileSearch().search(query)


async def test_a_pattern_needs_no_memory_that_grows_with_the_line(tree: Path) -> None:
    (tree / "x.txt").write_text("ab" * 1_900_000 + "\n", encoding="utf-8")
    limited = (
        "import asyncio, resource, sys\n"
        "from pathlib import Path\n"
        "from alhena.system.search import FileSearch, Query\n"
        "import regex\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 250_000_000, -1))\n"
        "query = Query(pattern=r'(a|ab|b)*c?!?$z*\\d', path=Path('.').resolve(),\n"
        "    root=Path('.').resolve())\n"
        "try:\n"
        "    asyncio.run(FileSearch().search(query))\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    ran = await asyncio.create_subprocess_exec(
        sys.executable, "-c", limited, cwd=tree, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await ran.communicate()
    assert out.decode().startswith("SearchTimeoutError The pattern takes too long at line 1 of")


async def test_no_program_needs_memory_that_grows_with_a_binary_file(
    backend: FileSearch, tree: Path, write: Write
) -> None:
    for number in range(20):  # of few files, ripgrep maps the memory
        write(f"{number}.txt", "needle\n")
    with (tree / "zeros.img").open("wb") as file:
        file.truncate(400_000_000)
    # Of a process of its own: `ru_maxrss` starts at the memory of who started it, VmHWM does not.
    measured = (
        "import asyncio, resource, sys\n"
        "from pathlib import Path\n"
        "from alhena.system.search import FileSearch, Query\n"
        "query = Query(pattern='needle', path=Path('.').resolve(), root=Path('.').resolve())\n"
        "result = asyncio.run(FileSearch(sys.argv[1]).search(query))\n"
        "own = int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
        "programs = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "print(len(result.matches), result.backend, max(own, programs))\n"
    )
    ran = await asyncio.create_subprocess_exec(
        sys.executable, "-c", measured, backend.program, cwd=tree, stdout=asyncio.subprocess.PIPE
    )
    matches, used, peak = (await ran.communicate())[0].split()
    assert (int(matches), used.decode()) == (20, backend.name)
    assert int(peak) <= 200_000  # kB


@pytest.mark.requirement("COST-06")
@pytest.mark.parametrize(
    ("line", "pattern", "matches"),
    [
        ("x" * 500_000 + "needle" + "x" * 500_000, "needle", True),
        ("x" * 99_997 + "needle" + "x" * 500_000, "needle", True),
        ("x" * 500_000 + "needle", "needle$", True),
        ("needle" + "x" * 500_000, "^needle", True),
        ("x" * 500_000 + "needle", "^needle", False),
        ("x" * 99_994 + "needle" + "x" * 200_000, "needle$", False),
        ("x" * 99_994 + "needle" + "x" * 200_000, "needle.*", True),
        ("x" * 79_999 + "y" + "x" * 200_000, "(?<=y)x", True),
        ("x" * 250_000, "y", False),
    ],
)
async def test_a_long_line_is_searched(
    tree: Path, write: Write, line: str, pattern: str, matches: bool
) -> None:
    write("a.txt", f"one\n{line}\nx needle\n")
    result = await FileSearch().search(Query(pattern=pattern, path=tree, root=tree))
    assert (2 in [match.line for match in result.matches]) is matches
    assert not result.notes
    if pattern == "needle":
        assert [match.line for match in result.matches] == [2, 3]
