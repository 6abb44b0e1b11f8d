"""The Gemini API with an API key (WIRE-03)."""

import sys
from collections.abc import AsyncGenerator, Mapping, Sequence

import msgspec

from alhena.models.endpoint import (
    DEFAULT_API_VERSION,
    DEFAULT_BASE_URL,
    Endpoint,
    model_path,
    parse_endpoint,
    parse_headers,
    parse_version,
)
from alhena.models.errors import ModelError, RequestRejectedError, StreamCutError
from alhena.models.http import BodyReader, HttpResponse, HttpTransport, Timeouts, open_transport
from alhena.models.status import Asked, refusal, told
from alhena.version import __version__
from alhena.wire.decode import decode_count_tokens, decode_embed, decode_response
from alhena.wire.encode import (
    EncodedContent,
    encode_count_tokens,
    encode_embed,
    encode_request,
)
from alhena.wire.errors import DecodeError, SseError
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse
from alhena.wire.sse import SseDecoder

MAX_BODY_BYTES = 256 * 1024 * 1024
MAX_ERROR_BYTES = 256 * 1024
_ARCHITECTURES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}


class GeminiService(msgspec.Struct, frozen=True, kw_only=True):
    """Where the API is and how to be let in. `headers` are added to every request, by lower-case
    name. Neither the key nor a header value shows in its repr."""

    api_key: str
    endpoint: Endpoint
    version: str = DEFAULT_API_VERSION
    bearer: bool = False
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"GeminiService({self.endpoint.place}{self.endpoint.prefix}/{self.version})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not show in any message."""
        return (self.api_key, *self.headers.values())


def service_from(environ: Mapping[str, str], api_key: str) -> GeminiService:
    """The service that the environment names.

    Read are GOOGLE_GEMINI_BASE_URL, GOOGLE_GENAI_API_VERSION, GEMINI_CLI_CUSTOM_HEADERS and
    GEMINI_API_KEY_AUTH_MECHANISM; raises ConfigError for a value that cannot be used.
    """
    base = environ.get("GOOGLE_GEMINI_BASE_URL", "").strip() or DEFAULT_BASE_URL
    version = environ.get("GOOGLE_GENAI_API_VERSION", "").strip() or DEFAULT_API_VERSION
    custom = environ.get("GEMINI_CLI_CUSTOM_HEADERS", "")
    return GeminiService(
        api_key=api_key,
        endpoint=parse_endpoint(base, "GOOGLE_GEMINI_BASE_URL"),
        version=parse_version(version, "GOOGLE_GENAI_API_VERSION"),
        bearer=environ.get("GEMINI_API_KEY_AUTH_MECHANISM", "").strip().lower() == "bearer",
        headers=parse_headers(custom, "GEMINI_CLI_CUSTOM_HEADERS"),
    )


class GeminiApi:
    """Answers requests over HTTP. `environ` is read for proxies and certificates.

    Nothing is opened before the first request. Requests may run at the same time; those that
    follow one another use one connection.
    """

    def __init__(
        self,
        service: GeminiService,
        *,
        environ: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self._service = service
        self._environ = environ or {}
        self._timeouts = timeouts or Timeouts()
        self._transport: HttpTransport | None = None

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The whole answer in one piece."""
        body = encode_request(request)
        payload = await self._ask(request.model, "generateContent", body)
        return _decode(payload, self._asked(request.model))

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        """The answer chunk by chunk.

        A stream that ends in an orderly way without any finish reason yields what came; whether
        that is an answer is for `chat` to judge. Raises StreamCutError when the connection, or the
        JSON of the last event, ends too early, and SseError when the body is no event stream.
        """
        asked = self._asked(request.model)
        path = self._path(request.model, "streamGenerateContent") + "?alt=sse"
        response = await self._post(path, request.model, encode_request(request))
        try:
            body = await self._accepted(response, asked)
            decoder = SseDecoder()
            try:
                while data := await body.read():
                    for payload in decoder.feed(data):
                        yield _decode(payload, asked)
                rest = decoder.finish()
            except SseError as error:
                raise told(error, error.body, asked) from error.__cause__
            for payload in rest:
                yield _decode_last(payload, asked)
        finally:
            await response.aclose()

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """How many tokens the contents take in this model's prompt."""
        payload = await self._ask(model, "countTokens", encode_count_tokens(contents))
        try:
            return decode_count_tokens(payload).total_tokens
        except DecodeError as error:
            raise told(error, payload, self._asked(model)) from error.__cause__

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """One vector per content."""
        payload = await self._ask(model, "batchEmbedContents", encode_embed(contents, model))
        try:
            return decode_embed(payload)
        except DecodeError as error:
            raise told(error, payload, self._asked(model)) from error.__cause__

    async def aclose(self) -> None:
        """Closes the connections."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    async def _ask(self, model: str, method: str, body: bytes) -> bytes:
        """The whole body of a successful response."""
        response = await self._post(self._path(model, method), model, body)
        try:
            reader = await self._accepted(response, self._asked(model))
            return await _read_all(reader, MAX_BODY_BYTES)
        finally:
            await response.aclose()

    async def _post(self, path: str, model: str, body: bytes) -> HttpResponse:
        if self._transport is None:
            self._transport = open_transport(self._service.endpoint, self._environ, self._timeouts)
        return await self._transport.post(path, self._headers(model), body)

    async def _accepted(self, response: HttpResponse, asked: Asked) -> BodyReader:
        """The body of a 2xx response; raises the error that any other one stands for."""
        body = BodyReader(response)
        if 200 <= response.status < 300:
            return body
        raise refusal(response.status, await _read_start(body, MAX_ERROR_BYTES), asked)

    def _path(self, model: str, method: str) -> str:
        service = self._service
        return f"{service.endpoint.prefix}/{service.version}/{model_path(model)}:{method}"

    def _headers(self, model: str) -> list[tuple[str, str]]:
        service = self._service
        headers = {
            "host": service.endpoint.authority,
            "user-agent": user_agent(model),
            "content-type": "application/json",
            "x-goog-api-key": service.api_key,
            "accept": "*/*",
            "accept-encoding": "gzip",
        }
        if service.bearer and service.api_key:
            headers["authorization"] = f"Bearer {service.api_key}"
        return list((headers | service.headers).items())

    def _asked(self, model: str) -> Asked:
        return Asked(model, self._service.endpoint.place, self._service.secrets)


def user_agent(model: str) -> str:
    """What this client calls itself: "alhena/VERSION/MODEL (PLATFORM; ARCHITECTURE; terminal)"."""
    import os

    machine = os.uname().machine if sys.platform != "win32" else "x86_64"
    architecture = _ARCHITECTURES.get(machine.lower(), machine)
    name = model_path(model).partition("/")[2]
    return f"alhena/{__version__}/{name} ({sys.platform}; {architecture}; terminal)"


def _decode(payload: bytes, asked: Asked) -> GenerateContentResponse:
    try:
        return decode_response(payload)
    except DecodeError as error:
        raise told(error, payload, asked) from error.__cause__


def _decode_last(payload: bytes, asked: Asked) -> GenerateContentResponse:
    """The event that the end of the stream, and no blank line, ended: it may be cut itself."""
    try:
        return _decode(payload, asked)
    except DecodeError as error:
        raise StreamCutError(
            f"the answer of {asked.place} ended in the middle of an event.", remedy="Run again."
        ) from error


async def _read_all(body: BodyReader, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := await body.read():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            raise RequestRejectedError(f"the answer is larger than {limit} bytes.")
    return b"".join(pieces)


async def _read_start(body: BodyReader, limit: int) -> bytes:
    """The first `limit` bytes; what came when the rest fails to, for the status is known."""
    start = b""
    try:
        while len(start) < limit and (piece := await body.read()):
            start += piece
    except ModelError:
        return start
    return start
