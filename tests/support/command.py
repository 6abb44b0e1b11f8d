"""The real command in a process of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer

ALHENA = str(Path(sys.executable).parent / "alhena")


@dataclass
class Ran:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """stdout as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["type"] == kind]


def keyed(server: ScriptedServer) -> dict[str, str]:
    """The variables by which the command asks this server."""
    return {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": server.url}


def alhena(*arguments: str, **environ: str) -> Ran:
    """Runs the command, with nothing to read and these variables besides the test's own."""
    return alhena_reads(None, *arguments, **environ)


def alhena_reads(stdin: bytes | None, /, *arguments: str, **environ: str) -> Ran:
    """As `alhena`, with this on its standard input."""
    ran = subprocess.run(
        [ALHENA, *arguments],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        env=os.environ | environ,
        timeout=PATIENCE_S,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())
