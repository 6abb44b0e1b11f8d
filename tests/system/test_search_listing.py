import asyncio
import os
import sys
import threading
from pathlib import Path

import pytest

from alhena.system.environment import shield_memory
from alhena.system.errors import SearchError, SearchTimeoutError
from alhena.system.search.files import Query
from alhena.system.search.finders import Listing, RipgrepSearch, listing_environment
from alhena.system.search.lines import Deadline
from tests.support.disk import written
from tests.support.patience import PATIENCE_S

ENVIRONMENT = {"PATH": os.defpath}


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def endless() -> Deadline:
    return Deadline(PATIENCE_S, lambda: False)


class Until(Deadline):
    """Time that runs out when a file is written."""

    def __init__(self, path: Path) -> None:
        super().__init__(PATIENCE_S, lambda: False)
        self._path = path

    def left(self) -> float:
        return Deadline(0, lambda: False).left() if written(self._path) else super().left()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split(") ")[1][0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def test_all_that_is_written_comes_back_and_as_it_comes(project: Path) -> None:
    program = script(project / "p", "printf 'a\\0b'; printf '\\0c\\0'; exit 0")
    pieces: list[bytes] = []
    with Listing((program,), str(project), ENVIRONMENT) as listing:
        assert listing.output(endless(), pieces.append) == b"a\0b\0c\0"
    assert b"".join(pieces) == b"a\0b\0c\0"


@pytest.mark.parametrize(("code", "output"), [(0, b"x"), (1, b"x"), (2, None), (127, None)])
def test_what_a_failing_program_wrote_does_not_count(
    project: Path, code: int, output: bytes | None
) -> None:
    program = script(project / "p", f"printf x; exit {code}")
    with Listing((program,), str(project), ENVIRONMENT) as listing:
        assert listing.output(endless()) == output


def test_a_program_that_is_not_there_has_no_output(project: Path) -> None:
    with Listing(("/no/such/program",), str(project), ENVIRONMENT) as listing:
        assert listing.output(endless()) is None
    with Listing(("ls",), str(project / "gone"), ENVIRONMENT) as listing:
        assert listing.output(endless()) is None


def test_a_mark_in_what_it_says_is_seen_wherever_it_is_cut(project: Path) -> None:
    said = "printf 'DEBUG from: Some(\"./.rgig' >&2; sleep 0.1; printf 'nore\")' >&2"
    program = script(project / "p", f"{said}; printf x")
    with Listing((program,), str(project), ENVIRONMENT, mark=b'.rgignore")') as listing:
        assert listing.output(endless()) == b"x"
        assert listing.marked
    quiet = script(project / "q", "printf 'rgignore' >&2")
    with Listing((quiet,), str(project), ENVIRONMENT, mark=b'.rgignore")') as listing:
        listing.output(endless())
        assert not listing.marked


def test_a_program_that_hangs_is_ended_with_its_children(project: Path) -> None:
    starts = "sleep 60 & echo $! > child; echo $$ > self; printf x"
    program = script(project / "p", f"{starts}; while :; do :; done")
    with (
        pytest.raises(SearchTimeoutError),
        Listing((program,), str(project), ENVIRONMENT) as listing,
    ):
        listing.output(Until(project / "self"))
    assert not alive(int((project / "self").read_text(encoding="utf-8")))
    child = int((project / "child").read_text(encoding="utf-8"))
    while alive(child):  # killed, but nobody here learns when it is gone
        os.sched_yield()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell")
def test_a_program_that_waits_for_nothing_is_not_waited_for(project: Path) -> None:
    program = script(project / "p", "sleep 60 & echo $! > child; printf x; wait")
    with Listing((program,), str(project), ENVIRONMENT) as listing:
        assert listing.output(endless()) is None
    child = int((project / "child").read_text(encoding="utf-8"))
    while alive(child):
        os.sched_yield()
    busy = script(
        project / "q", "(i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done) & wait; printf x"
    )
    with Listing((busy,), str(project), ENVIRONMENT) as listing:
        assert listing.output(endless()) == b"x"


def test_a_search_that_is_stopped_ends_its_program(project: Path) -> None:
    program = script(project / "p", "echo $$ > self; printf x; exec sleep 60")
    stop = threading.Event()
    with (
        pytest.raises(SearchError, match="cancelled"),
        Listing((program,), str(project), ENVIRONMENT) as listing,
    ):
        listing.output(Deadline(PATIENCE_S, stop.is_set), lambda _data: stop.set())
    assert not alive(int((project / "self").read_text(encoding="utf-8")))


def test_a_flood_is_read_to_its_end(project: Path) -> None:
    program = script(project / "p", "head -c 20000000 /dev/zero; head -c 3000000 /dev/zero >&2")
    with Listing((program,), str(project), ENVIRONMENT, mark=b"x") as listing:
        assert listing.output(endless()) == bytes(20_000_000)


async def test_cancelling_a_search_ends_the_program_it_waits_for(project: Path) -> None:
    program = script(project / "rg", "echo $$ > self; exec sleep 60")
    running = asyncio.create_task(
        RipgrepSearch(program).search(Query(pattern="needle", path=project, root=project))
    )
    started = project / "self"
    while not (started.exists() and started.read_text(encoding="utf-8").endswith("\n")):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not alive(int(started.read_text(encoding="utf-8")))


async def test_a_search_program_sees_the_session_without_its_secrets(project: Path) -> None:
    program = script(project / "rg", "env > seen; exit 1")
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/home/me",
        "LANG": "tr_TR.UTF-8",
        "XDG_CONFIG_HOME": "/home/me/.settings",
        "GIT_CONFIG_GLOBAL": "/home/me/gitconfig",
        "GIT_DIR": "/elsewhere",
        "GEMINI_API_KEY": "secret-1",
        "MY_TOKEN": "secret-2",
        "PROXY": "http://me:secret-3@host",
        "RIPGREP_CONFIG_PATH": "/home/me/.ripgreprc",
    }
    query = Query(pattern="needle", path=project, root=project, environ=environ)
    await RipgrepSearch(program).search(query)
    seen = (project / "seen").read_text(encoding="utf-8")
    variables = dict(line.split("=", 1) for line in seen.splitlines())
    assert "secret" not in seen
    assert "GIT_DIR" not in variables
    assert {name: variables[name] for name in ("HOME", "LANG", "XDG_CONFIG_HOME", "LC_ALL")} == {
        "HOME": "/home/me",
        "LANG": "tr_TR.UTF-8",
        "XDG_CONFIG_HOME": "/home/me/.settings",
        "LC_ALL": "C",
    }
    assert variables["GIT_CONFIG_GLOBAL"] == "/home/me/gitconfig"
    assert (variables["GIT_OPTIONAL_LOCKS"], variables["GIT_TERMINAL_PROMPT"]) == ("0", "0")
    assert variables["GIT_ALLOW_PROTOCOL"] == "none"


@pytest.mark.parametrize("strict", [{}, {"GITHUB_SHA": "abc"}])
def test_where_ignore_rules_are_is_told_in_strict_surroundings_too(strict: dict[str, str]) -> None:
    made = listing_environment({"XDG_CONFIG_HOME": "/x", "HOME": "/h", "A_KEY": "k", **strict})
    assert (made["XDG_CONFIG_HOME"], made["HOME"], "A_KEY" in made) == ("/x", "/h", False)


async def test_where_the_parents_memory_cannot_be_kept_the_search_does_without_the_program(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.txt").write_text("needle\n", encoding="utf-8")
    program = script(project / "rg", "touch ran")
    shield_memory.cache_clear()
    monkeypatch.setitem(sys.modules, "ctypes", None)
    query = Query(pattern="needle", path=project, root=project)
    result = await RipgrepSearch(program).search(query)
    assert (result.backend, len(result.matches)) == ("python", 1)
    assert not (project / "ran").exists()
