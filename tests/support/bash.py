"""bash as the oracle of what a command line does."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.patience import PATIENCE_S

BASH = shutil.which("bash") or ""


def run_silently(command: str, environ: Mapping[str, str], cwd: Path) -> None:
    """Runs a command line without input and output, in a session that ends with it."""
    with subprocess.Popen(
        [BASH, "-c", command],
        env=environ,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as shell:
        try:
            shell.wait(PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
