"""Visibility of the parent process to a command. Each test uses its own process, since the change
is permanent."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has /proc")

SOURCES = Path(__file__).parents[2] / "src"
_UNPRIVILEGED = """
import ctypes, os, sys
for capability in range(64):  # root gives all up; for others there is nothing to drop
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""
_TELL = """
import asyncio, ctypes, json, os, subprocess, sys
from pathlib import Path
LOOK = "cat /proc/$PPID/environ 2>&1 | tr '\\\\0' ' '"

def dumpable():
    return ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)

def looked():
    return subprocess.run(["sh", "-c", LOOK], capture_output=True, text=True).stdout

before = {"dumpable": dumpable(), "seen": looked()}
"""
_SHELL = """
from alhena.system.workspace import Workspace
from alhena.tools.builtin.run_shell_command import RunShellCommand
from alhena.tools.contract import ExecutionContext
tool = RunShellCommand(Workspace(Path.cwd()))
result = asyncio.run(tool.build({"command": LOOK}).execute(ExecutionContext(Path.cwd())))
after = {"dumpable": dumpable(), "seen": result.llm_content, "files": len(os.listdir("/proc/self/fd"))}
"""
_SEARCH = """
from alhena.system.search import Query
from alhena.system.search import FileSearch
here = Path.cwd()
program = here / "rg"
program.write_text("#!/bin/sh\\n" + LOOK + f" > {here}/seen; exit 1\\n")
(here / "a.txt").touch()
program.chmod(0o755)
asyncio.run(FileSearch(str(program)).search(Query(pattern="needle", path=here, root=here)))
after = {"dumpable": dumpable(), "seen": (here / "seen").read_text()}
"""
_END = "\nprint(json.dumps([before, after]))\n"


def views_of_process(project: Path, does: str) -> list[dict[str, Any]]:
    """Views of an unprivileged process before and after its first command."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(project), "PYTHONPATH": str(SOURCES)}
    done = subprocess.run(
        [sys.executable, "-c", _UNPRIVILEGED, _TELL + does + _END],
        env={**environ, "GEMINI_API_KEY": "the-key"},
        cwd=project,
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    before_and_after: list[dict[str, Any]] = json.loads(done.stdout)
    return before_and_after


@pytest.mark.requirement("TOOLS-23")
@pytest.mark.parametrize("does", [_SHELL, _SEARCH], ids=["shell", "search"])
def test_a_command_cannot_read_the_environment_of_the_agent(project: Path, does: str) -> None:
    before, after = views_of_process(project, does)
    assert "GEMINI_API_KEY=the-key" in before["seen"]
    assert "the-key" not in after["seen"]
    assert "Permission denied" in after["seen"]
    assert (before["dumpable"], after["dumpable"]) == (1, 0)
    assert after.get("files", 1) > 0


@pytest.mark.parametrize(
    ("breaks", "reason"),
    [
        ("sys.modules['ctypes'] = None", "this Python has no ctypes"),
        ("ctypes.CDLL = lambda *a, **k: type('C', (), {'prctl': lambda *a: -1})", "Success"),
    ],
)
def test_no_command_runs_where_the_memory_cannot_be_kept(
    project: Path, breaks: str, reason: str
) -> None:
    _before, after = views_of_process(
        project, f"dumps = dumpable; dumpable = lambda: 1\n{breaks}\n{_SHELL}"
    )
    assert "Permission denied" not in after["seen"]
    assert f"as it could read this process's secrets: {reason}." in after["seen"]
    assert "Exit Code: (none)" in after["seen"]
