"""Sandbox mechanisms available here, and commands run inside them."""

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from alhena.system.errors import ProcessStartError
from alhena.system.sandbox.layout import Mechanism, SandboxRequest
from alhena.system.sandbox.opening import CommandEnvironment, open_sandbox
from alhena.system.sandbox.sandbox import Sandbox
from tests.support.patience import PATIENCE_S


@cache
def why_not(mechanism: Mechanism) -> str:
    """Why a mechanism does not work on this machine; "" where it does."""
    wish = SandboxRequest(origin="the tests", mechanism=mechanism)
    around = CommandEnvironment((str(Path(__file__).parent),), {"HOME": "/nonexistent"})
    try:
        open_sandbox(wish, around)
    except ProcessStartError as error:
        return error.message
    return ""


def mechanisms() -> list[Any]:
    """Each mechanism, skipped with the reason where it does not work."""
    return [
        pytest.param(
            each, id=str(each), marks=pytest.mark.skipif(bool(why_not(each)), reason=why_not(each))
        )
        for each in Mechanism
    ]


needs_bwrap = pytest.mark.skipif(
    bool(why_not(Mechanism.BWRAP)), reason=why_not(Mechanism.BWRAP) or "-"
)
needs_landlock = pytest.mark.skipif(
    bool(why_not(Mechanism.LANDLOCK)), reason=why_not(Mechanism.LANDLOCK) or "-"
)


def open_test_sandbox(mechanism: Mechanism, *roots: Path, **wish: Any) -> Sandbox:
    """A sandbox over workspace directories; the current one when none is given."""
    tops = tuple(os.path.realpath(root) for root in roots or (Path.cwd(),))
    asked = SandboxRequest(origin="the test", mechanism=mechanism, **wish)
    return open_sandbox(asked, CommandEnvironment(tops, dict(os.environ)))


def inside(sandbox: Sandbox, script: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Runs a bash script in the sandbox, in its first workspace directory."""
    cwd = sandbox.layout.roots[0]
    plan = sandbox.wrap(("/bin/bash", "-c", script), cwd, dict(os.environ) | environ)
    return subprocess.run(
        plan.argv,
        cwd=cwd,
        env=plan.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        start_new_session=True,
    )
