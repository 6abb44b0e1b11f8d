"""The loopback address that the browser comes back to at the end of a login (RFC 8252, 7.3)."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from alhena.config.errors import ConfigError
from alhena.models.auth.authorization import Attempt, StrayAnswerError, answered_code, new_attempt
from alhena.models.errors import CredentialsError

PATH = "/oauth2callback"
HOST = "127.0.0.1"
Read = Callable[[str], str]
"""What is made of the query that the browser brings. Raises StrayAnswerError for that of another
login, CredentialsError for a refusal."""

_HEAD_LIMIT = 16 * 1024
_PATIENCE = 10.0
"""Seconds that one connection has to send its request."""

_VERDICT_LIMIT = 60.0

DONE = "You are signed in. You can close this page and go back to the terminal."
FAILED = "Signing in failed. The terminal says why."
STRAY = "This is not the login that was begun. Nothing was changed."
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


class Callback:
    """Waits for the browser. The page it gets is held back until `conclude` says how the login
    ended; nothing of the request is on it. Requests that belong to another login are turned away,
    and this one goes on waiting."""

    def __init__(self, attempt: Attempt, read: Read | None = None, path: str = PATH) -> None:
        self.attempt = attempt
        self._read: Read = read or (lambda query: answered_code(query, attempt))
        self._path = path
        self._code: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._verdict: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._serving: set[asyncio.Task[None]] = set()
        self._asked: set[asyncio.Task[None]] = set()

    async def code(self) -> str:
        """The authorization code, or what `read` made of the answer. Raises CredentialsError when
        the person or the service refused."""
        return await self._code

    def conclude(self, *, done: bool) -> None:
        """Lets the waiting page say how it ended."""
        if not self._verdict.done():
            self._verdict.set_result(done)

    async def aclose(self) -> None:
        """Waits until the page is delivered. Connections on which nothing was asked, as browsers
        keep some open in advance, are not waited for."""
        self.conclude(done=False)
        for task in self._serving - self._asked:
            task.cancel()
        if self._asked:
            await asyncio.wait(self._asked, timeout=_PATIENCE)
        for task in self._serving:
            task.cancel()
        if self._code.done() and not self._code.cancelled():
            self._code.exception()  # seen: a refusal that nobody waited for is no defect

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one connection."""
        task = asyncio.current_task()
        if task is not None:
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        try:
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            if task is not None:
                self._asked.add(task)
                task.add_done_callback(self._asked.discard)
            status, text = await self._answer(head)
            writer.write(_page(status, text))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            # A browser that opens connections in advance, a port scanner: nothing to answer.
            return
        finally:
            writer.close()

    async def _answer(self, head: bytes) -> tuple[int, str]:
        line = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(line) != 3 or not line[2].startswith("HTTP/"):
            return 400, STRAY
        path, _, query = line[1].partition("?")
        if path != self._path:
            return 404, STRAY
        if line[0] != "GET":
            return 405, STRAY
        if self._code.done():
            return 400, STRAY
        try:
            code = self._read(query)
        except StrayAnswerError:
            return 400, STRAY
        except CredentialsError as error:
            self._code.set_exception(error)
            return 200, FAILED
        self._code.set_result(code)
        async with asyncio.timeout(_VERDICT_LIMIT):
            done = await asyncio.shield(self._verdict)
        return 200, DONE if done else FAILED


@asynccontextmanager
async def listening(
    host: str = HOST,
    port: int = 0,
    *,
    named: str = HOST,
    path: str = PATH,
    read: Read | None = None,
) -> AsyncGenerator[Callback]:
    """A callback at a port of this machine, 0 for any that is free. The redirect address names
    `named` whatever `host` the server listens at; `read` takes the place of the check of a Google
    login. Raises ConfigError when it cannot."""
    made: list[Callback] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made[0].serve(reader, writer)

    try:
        server = await asyncio.start_server(serve, host, port, limit=_HEAD_LIMIT)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot wait for the browser at {host}, port {port}: {error}.",
            remedy="Set OAUTH_CALLBACK_PORT to a free port, or unset it.",
        ) from error
    bound: int = server.sockets[0].getsockname()[1]
    made.append(Callback(new_attempt(f"http://{named}:{bound}{path}"), read, path))
    try:
        yield made[0]
    finally:
        server.close()
        await made[0].aclose()


def _page(status: int, text: str) -> bytes:
    body = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>alhena</title>'
        f'<body style="font-family:sans-serif;margin:4em"><p>{text}</p></body></html>\n'
    ).encode()
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\n"
        "content-type: text/html; charset=utf-8\r\n"
        f"content-length: {len(body)}\r\n"
        "cache-control: no-store\r\n"
        "content-security-policy: default-src 'none'; style-src 'unsafe-inline'\r\n"
        "referrer-policy: no-referrer\r\n"
        "x-content-type-options: nosniff\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
