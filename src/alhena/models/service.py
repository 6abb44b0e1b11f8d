"""A model service over HTTP: authenticated requests, answered whole or as events."""

import re
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import quote

from alhena.errors import ConfigError, ModelError, NetworkError, NoServerError, StreamCutError
from alhena.http import Timeouts
from alhena.http.addresses import Endpoint
from alhena.http.transports import Transports
from alhena.models.errors import RequestDetails, RequestRejectedError
from alhena.values import Value
from alhena.version import __version__
from alhena.wire.errors import DecodeError, SseError
from alhena.wire.request import GenerateContentRequest, ServiceTier
from alhena.wire.sse import END_MARKER, SseDecoder

if TYPE_CHECKING:
    from alhena.http.client import BodyReader, Response
    from alhena.http.exchange import Body

T = TypeVar("T")
Pause = Callable[[float], None]

FLEX_IDLE_S = 1200.0
"""Timeout of silence for requests that may wait: the service promises them within 15 minutes."""
MAX_BODY_BYTES = 256 * 1024 * 1024
MAX_ERROR_BYTES = 256 * 1024
_TOO_MANY = 429
_PUBLIC = frozenset(
    {
        *("x-goog-user-project", "x-goog-api-client", "x-goog-request-params"),
        *("x-vertex-ai-llm-request-type", "x-vertex-ai-llm-shared-request-type"),
        *("anthropic-version", "anthropic-beta", "openai-organization", "openai-project"),
        *("content-type", "accept", "accept-language"),
    }
)
"""Headers without secrets: messages may quote their values, such as a project's name."""
_ARCHITECTURES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}


class ServiceOptions(Value, frozen=True, kw_only=True):
    """The connections of a model: further `headers` of each request, by lower-case name, and
    timeouts."""

    headers: Mapping[str, str] = {}
    timeouts: Timeouts | None = None


class Access(Protocol):
    """Authentication of requests. `remedy` is the advice when it fails."""

    @property
    def remedy(self) -> str:
        """The advice when the service rejects the credentials."""
        ...

    async def headers(self) -> dict[str, str]:
        """The headers of the next request, by lower-case name. Raises ModelError."""
        ...

    async def renew_headers(self, refused: Mapping[str, str]) -> dict[str, str] | None:
        """Headers for one retry after a 401; None without any."""
        ...


class FixedAccess:
    """The same headers for every request: a key."""

    def __init__(self, headers: Mapping[str, str], remedy: str) -> None:
        self._headers = dict(headers)
        self._remedy = remedy

    @property
    def remedy(self) -> str:
        """The advice when the key is rejected."""
        return self._remedy

    async def headers(self) -> dict[str, str]:
        """Returns the headers."""
        return self._headers

    async def renew_headers(self, refused: Mapping[str, str]) -> dict[str, str] | None:
        """Returns None: there is only one key."""
        del refused
        return None


class HttpService:
    """Sends requests to one endpoint. `headers` are added to each, by lower-case name.

    Opens nothing before the first request. Requests may run concurrently; successive ones share a
    connection. `environ` supplies proxies and certificates. Values of `access` and `headers` are
    redacted from messages, unless they are public (`_PUBLIC`). `quota_tip` is added to quota
    errors.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        access: Access,
        *,
        environ: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | None = None,
        quota_tip: str = "",
    ) -> None:
        self._quota_tip = quota_tip
        self._endpoint = endpoint
        self._access = access
        self._extra = dict(headers or {})
        self._transports = Transports(endpoint, environ or {}, timeouts or Timeouts())
        self._answered = False

    @property
    def endpoint(self) -> Endpoint:
        """The address of requests."""
        return self._endpoint

    async def ask(
        self,
        path: str,
        model: str,
        body: "Body | None",
        decode: Callable[[bytes], T],
        pause: Pause | None = None,
        idle: float | None = None,
    ) -> T:
        """Posts `body` (None: sends a GET) and returns the answer decoded by `decode`.

        `path` is appended to the endpoint's own and is already quoted. `pause` is called as that of
        a GenerateContentRequest; `idle` is its `idle_s`. Raises ModelError, and the errors of
        `decode` when the answer has no API error.
        """
        response, asked = await self._send_request(path, model, body, pause, idle)
        try:
            payload = await _read_all(response.body(), MAX_BODY_BYTES)
        finally:
            await response.aclose()
        return _decode_answer(payload, asked, decode)

    async def events(
        self,
        path: str,
        model: str,
        encode: "Callable[[], Body]",
        decode: Callable[[bytes], T],
        pause: Pause | None = None,
        idle: float | None = None,
    ) -> AsyncGenerator[T, None]:
        """Posts a request and yields the events of its stream, each decoded by `decode`. The end
        marker `[DONE]` ends the stream, unless it is an event to `decode`.

        `encode` builds the body when the stream is read, so that its errors are raised there.
        Raises StreamCutError when the connection, or the JSON of the last event, ends too early,
        and SseError when the body is not an event stream.
        """
        response, asked = await self._send_request(path, model, encode(), pause, idle)
        try:
            reader, decoder = response.body(), SseDecoder()
            try:
                while data := await reader.read():
                    for payload in decoder.feed(data):
                        if _ends_stream(payload, decode):
                            return
                        yield _decode_answer(payload, asked, decode)
                rest = decoder.finish()
            except SseError as error:
                from alhena.models.status import explain_body

                raise explain_body(error, error.body, asked) from error.__cause__
            for payload in rest:
                if _ends_stream(payload, decode):
                    return
                yield _decoded_last(payload, asked, decode)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._transports.aclose()

    async def _send_request(
        self, path: str, model: str, body: "Body | None", pause: Pause | None, idle: float | None
    ) -> "tuple[Response, RequestDetails]":
        """Returns a 2xx response with unread body; raises the error of any other status."""
        credentials = await self._access.headers()
        renewed = False
        while True:
            response = await self._send(path, self._headers(model, credentials), body, idle)
            asked = self._describe_request(model, credentials)
            if 200 <= response.status < 300:
                if pause is not None and (seconds := _renewal(response)):
                    pause(seconds)
                return response, asked
            try:
                start = await _read_start(response.body(), MAX_ERROR_BYTES)
            finally:
                await response.aclose()
            if response.status == 401 and not renewed:
                renewed = True
                other = await self._access.renew_headers(credentials)
                if other is not None:
                    credentials = other
                    continue
            from alhena.models.status import refusal

            raise refusal(response.status, start, asked, retry_after_s=_requested_wait(response))

    async def _send(
        self, path: str, headers: list[tuple[str, str]], body: "Body | None", idle: float | None
    ) -> "Response":
        transport = await self._transports.here()
        method = "GET" if body is None else "POST"
        target = f"{self._endpoint.prefix}{path}"
        try:
            response = await transport.send(method, target, headers, body or b"", idle)
        except NoServerError as error:
            if not self._answered:
                raise
            # It was there before, so it restarts: that is worth a retry.
            raise NetworkError(error.message, remedy=error.remedy) from error.__cause__
        self._answered = True
        return response

    def _headers(self, model: str, credentials: Mapping[str, str]) -> list[tuple[str, str]]:
        headers = {
            "host": self._endpoint.authority,
            "user-agent": user_agent(model),
            "content-type": "application/json",
            **credentials,
            "accept": "*/*",
            "accept-encoding": "gzip",
        }
        return list((headers | self._extra).items())

    def _describe_request(self, model: str, credentials: Mapping[str, str]) -> RequestDetails:
        shown = {**credentials, **self._extra}.items()
        secrets = [value.removeprefix("Bearer ") for name, value in shown if name not in _PUBLIC]
        return RequestDetails(
            model,
            self._endpoint.place,
            secrets,
            source=self._endpoint.source,
            remedy=self._access.remedy,
            quota_tip=self._quota_tip,
        )


def idle_s(request: GenerateContentRequest) -> float | None:
    """The timeout of silence of a request in seconds; None: the usual one."""
    return FLEX_IDLE_S if request.config.service_tier is ServiceTier.FLEX else None


def parse_version(text: str, source: str) -> str:
    """Validates an API version such as "v1beta" as one path segment. Raises ConfigError."""
    if not re.fullmatch(r"v[0-9A-Za-z_-]+", text):
        raise ConfigError(
            f"{source} is no API version: {text[:40]!r}.", remedy="Set it to v1beta, or unset it."
        )
    return text


def model_path(model: str) -> str:
    """The path of a model under the API version: "models/…" or "tunedModels/…".

    All characters of the name that could end the path segment are percent-encoded.
    """
    kind, separator, name = model.partition("/")
    if separator and kind in {"models", "tunedModels"}:
        return f"{kind}/{quote(name, safe='', errors='replace')}"
    return f"models/{quote(model, safe='', errors='replace')}"


@cache
def user_agent(model: str) -> str:
    """The user agent: "alhena/VERSION/MODEL (PLATFORM; ARCHITECTURE; terminal)"."""
    import os

    machine = os.uname().machine if sys.platform != "win32" else "x86_64"
    architecture = _ARCHITECTURES.get(machine.lower(), machine)
    name = model_path(model).partition("/")[2]
    return f"alhena/{__version__}/{name} ({sys.platform}; {architecture}; terminal)"


def _decode_answer(payload: bytes, asked: RequestDetails, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(payload)
    except DecodeError as error:
        from alhena.models.status import explain_body

        raise explain_body(error, payload, asked) from error.__cause__


def _ends_stream(payload: bytes, decode: Callable[[bytes], object]) -> bool:
    """True for the end marker, unless it is an event to `decode`."""
    if not payload.startswith(END_MARKER):
        return False
    try:
        decode(payload)
    except DecodeError:
        return payload.strip() == END_MARKER
    return False


def _decoded_last(payload: bytes, asked: RequestDetails, decode: Callable[[bytes], T]) -> T:
    """Decodes an event ended by the stream's end instead of a blank line: it may be truncated."""
    try:
        return _decode_answer(payload, asked, decode)
    except DecodeError as error:
        raise StreamCutError(
            f"the answer of {asked.place} ended in the middle of an event.", remedy="Run again."
        ) from error


def _requested_wait(response: "Response") -> float | None:
    """The wait in seconds requested by Retry-After or, like OpenAI's clients, in milliseconds; else
    that of a limit that is used up."""
    header, milliseconds = response.header("retry-after"), response.header("retry-after-ms")
    if not header and not milliseconds:
        return _renewal(response) if response.status == _TOO_MANY else None
    from time import time

    from alhena.models.quota import longest, retry_after_ms, retry_after_s

    said = retry_after_s(header, response.header("date"), time())
    return longest((said, retry_after_ms(milliseconds)))


def _renewal(response: "Response") -> float | None:
    """The wait in seconds until a limit is renewed that the headers say is used up."""
    from time import time

    from alhena.models.quota import renewal_s

    return renewal_s(response.header, time())


async def _read_all(body: "BodyReader", limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := await body.read():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise RequestRejectedError(f"the answer is larger than {limit} bytes.")
    return b"".join(pieces)


async def _read_start(body: "BodyReader", limit: int) -> bytes:
    """The first `limit` bytes, fewer if reading fails: the status is known anyway."""
    start = b""
    try:
        while len(start) < limit and (piece := await body.read()):
            start += piece
    except ModelError:
        return start
    return start
