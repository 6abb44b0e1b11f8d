"""Short ways to ask a model, and raw servers for what a well-behaved one never does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ssl import SSLContext
from typing import Any

from alhena.http import Timeouts
from alhena.models.generator import ContentGenerator
from alhena.models.providers.gemini_api import GeminiApi, service_from
from alhena.wire.content import text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import GenerateContentResponse

KEY = "AIzaSyTotallySecretKey-0123456789"
MODEL = "gemini-2.5-pro"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def api(url: str, *, key: str = KEY, timeouts: Timeouts | None = None, **environ: str) -> GeminiApi:
    environ = {"GOOGLE_GEMINI_BASE_URL": url} | environ
    return GeminiApi(service_from(environ, key), environ=environ, timeouts=timeouts)


def contents(*texts: str) -> tuple[EncodedContent, ...]:
    return tuple(EncodedContent(text_content("user", text)) for text in texts)


def asked(text: str = "hi", model: str = MODEL, **config: Any) -> GenerateContentRequest:
    return GenerateContentRequest(
        model=model, contents=contents(text), config=GenerateContentConfig(**config)
    )


async def chunks(
    generator: ContentGenerator, request: GenerateContentRequest | None = None
) -> list[GenerateContentResponse]:
    return [chunk async for chunk in generator.stream(request or asked())]


def texts(responses: list[GenerateContentResponse]) -> list[str]:
    return [part.text or "" for response in responses for part in response.parts]


@asynccontextmanager
async def listening(
    answer: Answer, tls: SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[int]:
    """A server on loopback; yields its port. Connections still open at the end are closed."""
    writers: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await answer(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        writers.discard(writer)

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)


async def read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    """The request line, the headers by lower-case name, the body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *rest = head.rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (h.partition(":") for h in rest)}
    return line, headers, await reader.readexactly(int(headers.get("content-length", "0")))


async def joined(
    near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Passes on what either side says, until both have ended."""

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
        sink.close()

    try:
        await asyncio.gather(copy(near[0], far[1]), copy(far[0], near[1]))
    finally:
        far[1].transport.abort()


def response(body: bytes, *, status: str = "200 OK", **headers: str) -> bytes:
    """A whole HTTP response; `content_length=` may lie."""
    fields = {"content-type": "text/event-stream", "content-length": str(len(body))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode("latin-1") + body


def event(text: str, finish: str | None = "STOP") -> bytes:
    ending = f',"finishReason":"{finish}"' if finish else ""
    content = f'{{"role":"model","parts":[{{"text":"{text}"}}]}}'
    return f'data: {{"candidates":[{{"content":{content}{ending}}}]}}\r\n\r\n'.encode()
