"""A program's part of a search: which text is looked for, and how its process is started and ended."""

import asyncio
import os
import sys
import threading
from pathlib import Path

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from alhena.system.environment import shield_memory
from alhena.system.errors import SearchError, SearchTimeoutError
from alhena.system.search import FileSearch, Query, required_literals
from tests.support.each import for_each
from tests.support.patience import PATIENCE_S


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split(") ")[1][0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


@for_each(
    ("pattern", "literals"),
    [
        ("TODO", ("todo",)),
        ("TODO|FIXME", ("fixme", "todo")),
        (r"def \w+\(self", ("(self",)),
        (r"\bimport\s+os\b", ("import",)),
        (r"colou?r", ("colo",)),
        (r"ab+c", ("ab",)),
        (r"ab{2,}cd", ("ab",)),
        (r"ab{0,2}cd", ("cd",)),
        (r"(foo|ba)r+", ()),
        (r"(?:foo|bar)quux", ("quux",)),
        (r"a\.b\[c\]", ("a.b[c]",)),
        (r"[abc]def", ("def",)),
        (r"[]x]yz", ("yz",)),
        (r"(abc)?de", ("de",)),
        (r"(?P<name>abc)+de", ("de",)),
        (r"abc|", ()),
        (r"a.b.c", ()),
        (r"\d+", ()),
        ("caf\u00e9s? bar", (" bar",)),
        (r"(?i)abc", ()),
        (r"(?<=xyz)abc", ()),
        (r"abc{e<=1}", ()),
        (r"[[:alpha:]]]]", ()),
        (r"abc\1", ()),
        (r"\x41bc", ()),
        ("", ()),
    ],
)
def test_required_text_is_found_in_patterns(pattern: str, literals: tuple[str, ...]) -> None:
    assert required_literals(pattern) == literals


ATOMS = st.sampled_from(
    ["ab", "Sk", "i", "é", ".", r"\d", r"\w", r"\.", "[a-c]", "[^x]", r"\b", "(ab)", "(?:c|d)", "|"]
)
PATTERNS = st.lists(
    st.tuples(ATOMS, st.sampled_from(["", "", "?", "*", "+", "{0,1}", "{2}", "+?"])).map("".join),
    max_size=6,
).map("".join)


@given(PATTERNS, st.text(alphabet="abcdSki.é1 x", max_size=12))
def test_every_line_that_matches_contains_required_text(pattern: str, line: str) -> None:
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE)
    except regex.error:
        return
    literals = required_literals(pattern)
    if literals and compiled.search(line):
        assert any(each in line.lower() for each in literals)


async def test_a_program_that_hangs_is_ended_with_its_children(project: Path) -> None:
    program = script(
        project / "rg",
        f"cd {project}; sleep 60 & echo $! > child; echo $$ > self; while :; do :; done",
    )
    cancelled = threading.Event()
    running = asyncio.create_task(
        FileSearch(program, time_limit=PATIENCE_S).search(
            Query(pattern="needle", path=project, root=project), cancelled
        )
    )
    started = project / "self"
    while not (started.exists() and started.read_text(encoding="utf-8").endswith("\n")):
        await asyncio.sleep(0)
    cancelled.set()
    with pytest.raises(SearchError, match="cancelled"):
        await running
    assert not alive(int(started.read_text(encoding="utf-8")))
    child = int((project / "child").read_text(encoding="utf-8"))
    while alive(child):  # killed, but nobody here learns when it is gone
        os.sched_yield()


async def test_a_program_that_takes_too_long_ends_the_search(project: Path) -> None:
    program = script(project / "rg", "exec sleep 60")
    with pytest.raises(SearchTimeoutError):
        await FileSearch(program, time_limit=0.2).search(
            Query(pattern="needle", path=project, root=project)
        )


async def test_what_the_program_names_is_read_and_nothing_else(project: Path) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        (project / name).write_text("needle\n", encoding="utf-8")
    listed = "".join(f"{project}/{name}\\0" for name in ("a.txt", "c.txt", "gone.txt", "rg"))
    program = script(project / "rg", f"printf '{listed}'")
    result = await FileSearch(program).search(Query(pattern="needle", path=project, root=project))
    assert [match.path.name for match in result.matches] == ["a.txt", "c.txt"]
    assert result.backend == "ripgrep"


async def test_a_search_program_sees_the_session_without_its_secrets(project: Path) -> None:
    program = script(project / "rg", f"env > {project}/seen; exit 1")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/home/me",
        "XDG_CONFIG_HOME": "/home/me/.settings",
        "GEMINI_API_KEY": "secret-1",
        "MY_TOKEN": "secret-2",
        "PROXY": "http://me:secret-3@host",
    }
    query = Query(pattern="needle", path=project, root=project, environ=environ)
    await FileSearch(program).search(query)
    seen = (project / "seen").read_text(encoding="utf-8")
    variables = dict(line.split("=", 1) for line in seen.splitlines())
    assert "secret" not in seen
    assert (variables["HOME"], variables["XDG_CONFIG_HOME"]) == ("/home/me", "/home/me/.settings")


async def test_where_the_parents_memory_cannot_be_kept_the_search_does_without_the_program(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.txt").write_text("needle\n", encoding="utf-8")
    program = script(project / "rg", f"touch {project}/ran")
    shield_memory.cache_clear()
    monkeypatch.setitem(sys.modules, "ctypes", None)
    query = Query(pattern="needle", path=project, root=project)
    result = await FileSearch(program).search(query)
    assert (result.backend, len(result.matches)) == ("python", 1)
    assert not (project / "ran").exists()
