"""The person at the terminal, as a login talks to them."""

import asyncio
import os
from contextlib import suppress
from threading import Thread

from alhena.frontends.streams import write_stdout
from alhena.models.auth.authorization import open_browser

_LONGEST = 16 * 1024


class TerminalPerson:
    """Lines go to standard output; answers come from standard input."""

    def __init__(self, source: int = 0) -> None:
        self._source = source
        self._read = b""

    def tell(self, text: str) -> None:
        """Shows a line. Addresses are left whole, so that they can be copied."""
        write_stdout(f"{text}\n")

    async def ask(self, question: str) -> str | None:
        """A line of standard input; None at its end, or when it is closed.

        It is read on a thread of its own that does not keep the program from ending, for nothing
        can call a reader back.
        """
        write_stdout(question)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str | None] = loop.create_future()

        def settle(line: str | None) -> None:
            if not answer.done():
                answer.set_result(line)

        def read() -> None:
            line = self._line()
            with suppress(RuntimeError):  # the loop has been closed: nobody waits any more
                loop.call_soon_threadsafe(settle, line)

        Thread(target=read, daemon=True).start()
        return await answer

    async def open(self, url: str) -> bool:
        """Shows a page in the browser."""
        return await open_browser(url)

    def _line(self) -> str | None:
        """Not by sys.stdin: a program that ends while a thread is inside that crashes."""
        while b"\n" not in self._read and len(self._read) < _LONGEST:
            try:
                data = os.read(self._source, _LONGEST)
            except OSError:
                data = b""
            if not data:
                break
            self._read += data
        line, ended, self._read = self._read.partition(b"\n")
        return line.decode("utf-8", "replace") if line or ended else None
