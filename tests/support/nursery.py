"""The command at a terminal, forked from a process that has its modules loaded: 0.1 s less for each
test whose subject is not how the command starts.

`python nursery.py FD` is that process; it takes and answers requests at a connection."""

import atexit
import os
import pty
import sys
import termios
from functools import cache
from importlib import import_module
from multiprocessing import reduction
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from subprocess import Popen
from typing import Any

LOADED = (
    "alhena_command",
    "alhena.frontends.main",
    "alhena.frontends.terminal.run",
    "alhena.frontends.terminal.app",
    "alhena.frontends.terminal.commands",
    "alhena.frontends.terminal.console",
    "alhena.frontends.terminal.conversation",
    "alhena.frontends.terminal.drawing.markdown",
    "alhena.frontends.terminal.entry",
    "alhena.frontends.terminal.session_start",
    "alhena.agent.checkpointing",
    "alhena.http.response",
    "alhena.models.providers.gemini_api",
)
"""With what these import, the modules of a session that has had an answer."""


class Nursery:
    """Starts commands, and says how they ended, as only their parent can."""

    def __init__(self) -> None:
        self._connection, its = Pipe()
        descriptor = its.fileno()
        self._process = Popen(
            [sys.executable, __file__, str(descriptor)],
            pass_fds=[descriptor],
            cwd="/",
            start_new_session=True,
        )
        its.close()
        atexit.register(self._end)

    def _end(self) -> None:
        self._connection.close()
        self._process.wait()

    def start(
        self, arguments: list[str], environ: dict[str, str], size: tuple[int, int]
    ) -> tuple[int, int]:
        """The process of a command in this folder, and its terminal of so many rows and columns."""
        self._connection.send((arguments, environ, os.getcwd(), size))
        return self._connection.recv(), reduction.recv_handle(self._connection)

    def wait(self, pid: int, options: int) -> tuple[int, int]:
        """As `os.waitpid`."""
        self._connection.send((pid, options))
        return self._connection.recv()


@cache
def nursery() -> Nursery:
    """This process's own."""
    return Nursery()


def serve(connection: Connection) -> None:
    """Answers requests until there are no more; a forked process leaves it as the command."""
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        match request:
            case (int(pid), int(options)):
                connection.send(os.waitpid(pid, options))
            case (arguments, environ, folder, size):
                pid, terminal = pty.fork()
                if not pid:
                    connection.close()
                    termios.tcsetwinsize(0, size)
                    become(arguments, environ, folder)
                    return
                connection.send(pid)
                reduction.send_handle(connection, terminal, None)
                os.close(terminal)


def become(arguments: list[str], environ: dict[str, str], folder: str) -> None:
    """Makes this process as one that was started for the command."""
    os.chdir(folder)
    os.environ.clear()
    os.environ |= environ
    sys.argv[1:] = arguments
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8")
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", 1, encoding="utf-8")
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace")


def main() -> None:
    command: Any = import_module("alhena_command")
    import_module("alhena.__main__")._import_msgspec()
    for name in LOADED:
        import_module(name)
    connection = Connection(int(sys.argv[1]))
    os.set_inheritable(connection.fileno(), False)
    own = os.getpid()
    serve(connection)
    if os.getpid() != own:
        sys.exit(command.main())


if __name__ == "__main__":
    sys.argv[0] = str(Path(sys.executable).parent / "alhena")
    sys.path[0] = str(Path(sys.executable).parent)
    main()
