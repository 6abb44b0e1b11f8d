"""An OAuth authorization request (RFC 6749, PKCE): opens the browser and receives the redirect on a
loopback address."""

import asyncio
import secrets
import sys
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from threading import Thread
from urllib.parse import parse_qs, urlencode

import msgspec

from alhena.errors import ConfigError
from alhena.models.auth.exchange import SCOPES, OAuthClient
from alhena.models.errors import CredentialsError
from alhena.wire.json_values import excerpt, is_token

_REMEDY = "Sign in again: alhena auth login."


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """The secrets of one login. The repr shows neither state nor verifier."""

    redirect_uri: str
    state: str
    verifier: str

    def __repr__(self) -> str:
        return f"Attempt(redirect_uri={self.redirect_uri!r})"


class StrayAnswerError(CredentialsError):
    """The redirect belongs to another login, or to none."""


def new_attempt(redirect_uri: str) -> Attempt:
    """A login that redirects to `redirect_uri`, with 256 random bits in each secret."""
    return Attempt(
        redirect_uri=redirect_uri,
        state=secrets.token_hex(32),
        verifier=secrets.token_urlsafe(48),
    )


def authorization_url(
    page: str, client: OAuthClient, attempt: Attempt, scopes: Sequence[str] = SCOPES
) -> str:
    """URL of the consent page."""
    from hashlib import sha256

    digest = sha256(attempt.verifier.encode("ascii")).digest()
    fields = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": attempt.redirect_uri,
        "scope": " ".join(scopes),
        "access_type": "offline",
        "state": attempt.state,
        "code_challenge": urlsafe_b64encode(digest).rstrip(b"=").decode("ascii"),
        "code_challenge_method": "S256",
    }
    return f"{page}{'&' if '?' in page else '?'}{urlencode(fields)}"


def answered_code(query: str, attempt: Attempt) -> str:
    """Extracts the code from the query of the redirect.

    Raises StrayAnswerError when the state does not match, CredentialsError when the person or the
    service refused. No message quotes a code or a state.
    """
    try:
        fields = parse_qs(query, max_num_fields=32)
    except ValueError as error:
        raise StrayAnswerError("the answer of the browser cannot be read.") from error
    state = fields.get("state", [])
    if len(state) != 1 or not secrets.compare_digest(_bytes(state[0]), _bytes(attempt.state)):
        raise StrayAnswerError(
            "what came back belongs to another login: its state differs.", remedy=_REMEDY
        )
    refused, codes = fields.get("error", []), fields.get("code", [])
    if refused:
        said = excerpt(": ".join((refused[0], *fields.get("error_description", [])[:1])), 200)
        raise CredentialsError(f"the service did not sign you in: {said}.", remedy=_REMEDY)
    if len(codes) != 1:
        raise CredentialsError("the response contains no code.", remedy=_REMEDY)
    return codes[0]


def pasted_code(text: str, attempt: Attempt) -> str:
    """Extracts the code from a person's input: the code itself, or the browser's final address.
    Raises CredentialsError, like `answered_code`."""
    given = text.strip()
    if given.startswith(("http://", "https://")):
        return answered_code(given.partition("?")[2].partition("#")[0], attempt)
    if not is_token(given):
        raise CredentialsError(
            "that is no authorization code: it is empty, or has blanks or characters that none has."
        )
    return given


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


PATH = "/oauth2callback"
HOST = "127.0.0.1"
Read = Callable[[str], str]
"""Parses the query of the redirect. Raises StrayAnswerError for another login, CredentialsError for
a refusal."""

_HEAD_LIMIT = 16 * 1024
_PATIENCE = 10.0
"""Seconds that a connection has to send its request."""

_VERDICT_LIMIT = 60.0

DONE = "You are signed in. You can close this page and go back to the terminal."
FAILED = "Signing in failed. The terminal says why."
STRAY = "This is not the login that was begun. Nothing was changed."
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}


class Callback:
    """Waits for the browser. Its page is sent after `conclude` reports the result of the login, and
    quotes nothing of the request. Requests of other logins are rejected without ending the wait."""

    def __init__(self, attempt: Attempt, read: Read | None = None, path: str = PATH) -> None:
        self.attempt = attempt
        self._read: Read = read or (lambda query: answered_code(query, attempt))
        self._path = path
        self._code: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._verdict: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._serving: set[asyncio.Task[None]] = set()
        self._asked: set[asyncio.Task[None]] = set()

    async def code(self) -> str:
        """Waits for the authorization code, or the result of `read`. Raises CredentialsError when
        the person or the service refused."""
        return await self._code

    def conclude(self, *, done: bool) -> None:
        """Sends the result page to the browser."""
        if not self._verdict.done():
            self._verdict.set_result(done)

    async def aclose(self) -> None:
        """Waits until the page is delivered. Idle connections, which browsers open in advance, are
        dropped."""
        self.conclude(done=False)
        for task in self._serving - self._asked:
            task.cancel()
        if self._asked:
            await asyncio.wait(self._asked, timeout=_PATIENCE)
        for task in self._serving:
            task.cancel()
        if self._code.done() and not self._code.cancelled():
            self._code.exception()  # retrieved: an unawaited refusal must not be logged

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handles one connection."""
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
            # A connection opened in advance, or a port scanner: nothing to answer.
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
    """Opens a callback server on this machine, port 0 for any free one. The redirect address uses
    `named` whatever `host` the server listens on; `read` replaces the check of a Google login.
    Raises ConfigError when it cannot listen."""
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


_TEXT_BROWSERS = frozenset({"www-browser", "lynx", "links", "links2", "elinks", "w3m"})
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "MIR_SOCKET")


def has_browser(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """True when a page can be shown to the person at this terminal.

    False with NO_BROWSER, in CI, with a text browser, without a display on Linux, or in an ssh
    session on other systems.
    """
    if environ.get("NO_BROWSER") or environ.get("CI"):
        return False
    if environ.get("DEBIAN_FRONTEND") == "noninteractive":
        return False
    if environ.get("BROWSER", "").rpartition("/")[2] in _TEXT_BROWSERS:
        return False
    if platform == "linux":
        return any(environ.get(name) for name in _DISPLAYS)
    return not environ.get("SSH_CONNECTION")


async def open_browser(url: str, begin: Callable[[str], bool]) -> bool:
    """Opens a page by `begin`; False when no browser could be started.

    Some browsers keep their starter process until they are closed: a thread that does not block
    exit waits for it.
    """
    loop = asyncio.get_running_loop()
    started: asyncio.Future[bool] = loop.create_future()

    def settle(*, opened: bool) -> None:
        if not started.done():
            started.set_result(opened)

    def start() -> None:
        opened = begin(url)
        with suppress(RuntimeError):  # the loop may be closed: nobody waits any more
            loop.call_soon_threadsafe(partial(settle, opened=opened))

    Thread(target=start, daemon=True).start()
    return await started
