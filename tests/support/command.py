"""The command `alhena`: its front end in this process, or the real command in one of its own."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO
from unittest import mock

from alhena.frontends.main import run
from alhena.frontends.shared import pipes
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer

ALHENA = str(Path(sys.executable).parent / "alhena")


@dataclass
class Ran:
    """Exit code and output of a command."""

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


def message_lines(err: str) -> list[str]:
    """The lines of standard error, without a last one that names the page to read."""
    lines = err.splitlines()
    return lines[:-1] if lines and lines[-1].startswith("More: alhena docs ") else lines


def keyed(server: ScriptedServer) -> dict[str, str]:
    """The variables by which the command asks this server."""
    return {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": server.url}


def alhena(*arguments: str, **environ: str) -> Ran:
    """Runs the front end in this process, with empty input and these variables besides the test's
    own."""
    return alhena_reads(b"", *arguments, **environ)


def alhena_reads(stdin: bytes, /, *arguments: str, **environ: str) -> Ran:
    """As `alhena`, with this on standard input."""
    with (
        TemporaryFile("w+", encoding="utf-8") as piped,
        TemporaryFile("w+", encoding="utf-8") as out,
        TemporaryFile("w+", encoding="utf-8") as err,
        mock.patch.dict(os.environ, environ),
        mock.patch.multiple(sys, stdin=piped, stdout=out, stderr=err),
        warnings.catch_warnings(),
    ):
        piped.buffer.write(stdin)
        piped.seek(0)
        warnings.simplefilter("default", RuntimeWarning)  # shown as the process shows them
        try:
            code = run(list(arguments))
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Ran(code, _written(out), _written(err))


def _written(stream: TextIO) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


def alhena_process(*arguments: str, stdin: bytes = b"", **environ: str) -> Ran:
    """Runs the real command, for tests whose subject is the process."""
    ran = subprocess.run(
        [ALHENA, *arguments],
        input=stdin,
        capture_output=True,
        env=os.environ | environ,
        timeout=PATIENCE_S,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


@asynccontextmanager
async def at_work(*arguments: str, **environ: str) -> AsyncIterator[socket.socket]:
    """A command that serves the client at its standard streams, at work in this process; the
    client's end of a connection in place of these."""
    from alhena.frontends.acp import server

    ours, its = socket.socketpair()

    def open_incoming(ended: pipes.Ended, most: int = pipes.MAX_LINE) -> pipes.Incoming:
        return pipes.Incoming(os.dup(its.fileno()), ended, most)

    def open_outgoing(ended: pipes.Ended) -> pipes.Outgoing:
        return pipes.Outgoing(os.dup(its.fileno()), ended)

    ends = {
        "open_incoming": open_incoming,
        "open_outgoing": open_outgoing,
        "check_streams": lambda *_: None,
    }
    begun: list[Coroutine[Any, Any, None]] = []
    with (
        ours,
        its,
        mock.patch.dict(os.environ, environ),
        mock.patch.multiple(pipes, **ends),
        mock.patch.multiple(server, **ends),
    ):
        with mock.patch.object(asyncio, "run", begun.append):
            assert run(list(arguments)) == 0
        serving = asyncio.create_task(begun[0])
        serving.add_done_callback(lambda _: its.close())
        try:
            yield ours
        finally:
            ours.close()
            await serving
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().remove_signal_handler(number)
