"""File checks for tests, and simulated faulty disks."""

import json
import os
import resource
import shutil
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def descriptors() -> set[str]:
    """Open descriptors of this process. Those of others may close at any time: check for new ones
    afterwards, and not for the same number."""
    return set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()


def written(*paths: Path) -> bool:
    """True if each file has a whole line: a file exists before it has content."""
    return all(path.exists() and path.read_bytes().endswith(b"\n") for path in paths)


@contextmanager
def file_size_limit(size: int) -> Generator[None]:
    """Writing past `size` bytes of a file fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def with_own_mounts(program: str, *arguments: str | Path) -> Any:
    """JSON output of a Python program that may mount; the test is skipped where mounting is not
    permitted."""
    own = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*own, "true"], check=False).returncode:
        pytest.skip("no mounts of its own can be had here")
    run = subprocess.run(
        [*own, sys.executable, "-c", program, *arguments],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return json.loads(run.stdout)
