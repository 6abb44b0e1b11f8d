"""HTTP transports for servers: the SDK's two transports over a client with bounded input."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2
import msgspec
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from alhena.http.certificates import tls_context
from alhena.mcp.connection import (
    lost_body,
    lost_session,
    refusal_body,
    scope_words,
    wanted_scopes,
)
from alhena.mcp.message_guard import MAX_MESSAGE, readable

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

OPERATION_S = 30.0
SILENCE_S = 900.0
"""Seconds without data after which a stream is closed; calls have their own timeouts."""

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

_EVENTS = "text/event-stream"


class HttpAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The URL of a server, and the headers sent with every request."""

    url: str
    headers: Mapping[str, str]
    auth: httpx2.Auth | None = None


class Answers:
    """Records the last HTTP answer: its status if that is an error, else 0, and its challenge.
    `unheard` receives error messages that the transport would drop."""

    def __init__(self, unheard: Callable[[str], None] | None = None) -> None:
        self.status = 0
        self.challenge = ""
        self._unheard = unheard

    async def feed(self, response: httpx2.Response) -> None:
        """Records an answer and limits its body."""
        self.status = response.status_code if response.status_code >= 400 else 0
        self.challenge = response.headers.get("www-authenticate", "") if self.status else ""
        if response.headers.get("content-encoding", "identity") != "identity":
            # The compressed size does not bound the unpacked size.
            raise httpx2.DecodingError("the answer is compressed, which was not asked for")
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream):
            response.stream = _Events(stream) if kind == _EVENTS else _Body(stream)
            response.headers.pop("content-length", None)  # the body may get shorter
        # The transports report at most the status of an HTTP error.
        scopes = wanted_scopes(self.status, self.challenge)
        if scopes is not None and response.request.method == "POST":
            self._replace(response, refusal_body(scopes), scope_words(scopes))
        elif self.status in _LOSSES and _is_request(response.request):
            body = await _read(response)
            known = "mcp-session-id" in response.request.headers
            why = lost_session(self.status, body, in_session=known)
            self._replace(response, lost_body(why) if why else body, why)

    def _replace(self, response: httpx2.Response, body: bytes, why: str) -> None:
        """Gives the transport another body; tells `why` where that does not read it."""
        response.stream = _ReplacementBody(body, response.stream)
        if why:
            response.headers["content-type"] = "application/json"
            if self._unheard is not None:
                self._unheard(why)


async def _read(response: httpx2.Response) -> bytes:
    stream = response.stream
    if not isinstance(stream, httpx2.AsyncByteStream):
        return b""
    return b"".join([chunk async for chunk in stream])


_LOSSES = frozenset({400, 404, 410, 503})


def _is_request(request: httpx2.Request) -> bool:
    """True for a JSON-RPC request other than the first one of a session."""
    if request.method != "POST":
        return False
    try:
        message = msgspec.json.decode(request.content, type=_Sent)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return message.id is not None and message.method != "initialize"


class _Sent(msgspec.Struct):
    """The kind of a message: without an id it is a notification."""

    id: int | str | None = None
    method: str = ""


class _ReplacementBody(httpx2.AsyncByteStream):
    """A replacement body; the original is not read."""

    def __init__(self, body: bytes, other: object) -> None:
        self._body = body
        self._other = other

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body

    async def aclose(self) -> None:
        if isinstance(self._other, httpx2.AsyncByteStream):
            await self._other.aclose()


class _Body(httpx2.AsyncByteStream):
    """A complete answer, limited in length and checked."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = bytearray()
        async for chunk in self._inner:
            body += chunk
            if len(body) > MAX_MESSAGE:
                raise httpx2.StreamError(f"the answer has more than {MAX_MESSAGE:,} bytes")
        yield readable(bytes(body))

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Events(httpx2.AsyncByteStream):
    """An event stream whose events are limited in length and checked."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner
        self._data: list[bytes] = []
        self._length = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        begun = bytearray()
        async for chunk in self._inner:
            *whole, rest = chunk.split(b"\n")
            if whole:
                first, *others = whole
                lines = [bytes(begun) + first, *others]
                begun = bytearray(rest)
                yield b"".join(map(self._line, lines))
            else:
                begun += rest
            if len(begun) + self._length > MAX_MESSAGE:
                raise httpx2.StreamError(f"an event has more than {MAX_MESSAGE:,} bytes")
        yield self._event() + bytes(begun)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _line(self, line: bytes) -> bytes:
        """Passes a line on; data lines wait until their event is complete."""
        if line.startswith(b"data:"):
            self._data.append(line[5:].strip())
            self._length += len(line)
            return b""
        ends = not line.rstrip(b"\r")
        return (self._event() if ends else b"") + line + b"\n"

    def _event(self) -> bytes:
        if not self._data:
            return b""
        data = readable(b"\n".join(self._data))
        self._data.clear()
        self._length = 0
        return b"".join(b"data: " + line + b"\n" for line in data.split(b"\n"))


@asynccontextmanager
async def http_transport(
    access: HttpAccess, answers: Answers
) -> AsyncGenerator["TransportStreams"]:
    """Opens the streamable HTTP transport."""
    timeout = httpx2.Timeout(OPERATION_S, read=SILENCE_S)
    async with (
        _client(access, answers, access.headers, timeout) as client,
        streamable_http_client(access.url, http_client=client, **_limits()) as streams,
    ):
        yield streams


def _limits() -> dict[str, Any]:
    """The limit of an event, which `_Events` keeps, for versions of the SDK that have one."""
    name = "max_sse_event_size"
    return {name: MAX_MESSAGE} if name in signature(streamable_http_client).parameters else {}


@asynccontextmanager
async def sse_transport(access: HttpAccess, answers: Answers) -> AsyncGenerator["TransportStreams"]:
    """Opens the older transport: server-sent events and POST requests."""

    def factory(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        del auth
        return _client(access, answers, headers or {}, timeout)

    async with sse_client(
        access.url,
        headers=dict(access.headers),
        timeout=OPERATION_S,
        sse_read_timeout=SILENCE_S,
        httpx_client_factory=factory,
    ) as streams:
        yield streams


def _client(
    access: HttpAccess,
    answers: Answers,
    headers: Mapping[str, str],
    timeout: httpx2.Timeout | None,
) -> httpx2.AsyncClient:
    hook: Callable[[httpx2.Response], object] = answers.feed
    host = urlsplit(access.url).hostname or ""
    return _McpClient(
        verify=tls_context(os.environ),
        trust_env=host not in LOOPBACK,  # no proxy reaches this machine's own servers
        headers={**headers, "Accept-Encoding": "identity"},
        timeout=timeout or httpx2.Timeout(OPERATION_S),
        auth=access.auth,
        event_hooks={"response": [hook]},
    )


class _McpClient(httpx2.AsyncClient):
    """Answers a request of a session that cannot be delivered as one to a server that does not know
    the session: it can be sent again."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Sends a request."""
        try:
            return await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if not _is_request(request):
                raise
            body = lost_body(f"it cannot be reached ({type(error).__name__})")
            headers = {"content-type": "application/json"}
            return httpx2.Response(503, headers=headers, content=body, request=request)
