"""One request and its streamed answer.

Each message of an ASGI application passes every layer of it and of the server, and becomes an event
of the HTTP library. Stream chunks need none of that and bypass it; the start and the end of an
answer take the usual way.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from starlette.types import Receive, Send

from alhena.errors import AlhenaError
from alhena.gateway.access_log import BodyWriter, LogEntry
from alhena.gateway.body import ClientGoneError, Closing, GatewayLimits
from alhena.gateway.dialects import ClientDialect, StreamForm
from alhena.gateway.faults import Fault, FaultKind, fault_of, refusal_error
from alhena.wire.content import encode_value
from alhena.wire.response import GenerateContentResponse

T = TypeVar("T")

Headers = list[tuple[bytes, bytes]]

_JSON = b"application/json; charset=utf-8"


class AnswerTerms(msgspec.Struct, frozen=True):
    """Settings common to all answers."""

    limits: GatewayLimits
    closing: Closing


class Exchange:
    """Writes the answer to one request in the client's dialect (`speech`), with `headers` besides
    the usual ones."""

    def __init__(
        self,
        send: Send,
        speech: ClientDialect,
        entry: LogEntry,
        terms: AnswerTerms,
        line: BodyWriter | None,
    ) -> None:
        self._send = send
        self._line = line
        self.speech = speech
        self._limits = terms.limits
        self._closing = terms.closing
        self.headers: Headers = []
        self._quiet_since = 0.0
        self._begun = False
        self._beginning = asyncio.Lock()
        self.entry = entry

    async def reply(self, status: int, body: Any, headers: Headers | None = None) -> None:
        """Sends a whole answer as JSON."""
        data = encode_value(body)
        length = (b"content-length", b"%d" % len(data))
        await self._start(status, _JSON, [length, *(headers or [])])
        await self._write(data, more=False)

    async def refuse(self, fault: Fault) -> None:
        """Sends an error instead of an answer."""
        form = self.speech.error(fault)
        self._note(fault)
        headers: Headers = []
        if fault.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % math.ceil(fault.retry_after_s)))
        if fault.kind is FaultKind.QUOTA:  # clients of both other dialects respect it
            headers.append((b"x-should-retry", b"false"))
        await self.reply(form.status, form.body, headers)

    async def within_time(self, answer: Awaitable[T]) -> T:
        """Awaits a service's answer with a timeout. Raises AlhenaError."""
        async with self._closing.limit_time(self._limits.total_s, self._late):
            return await answer

    async def stream(
        self, chunks: AsyncGenerator[GenerateContentResponse, None], form: StreamForm
    ) -> None:
        """Sends a streamed answer. Takes a chunk when the client has accepted the previous ones.

        The answer begins with the first chunk, or with a ping if that is late. Raises AlhenaError
        for a failure before that; later failures are reported in the stream, which they end.
        """
        async with aclosing(chunks):
            self._quiet_since = asyncio.get_running_loop().time()
            pulse = asyncio.create_task(self._pulse(form))
            try:
                last = await self._write_chunks(chunks, form)
            finally:
                pulse.cancel()
                await asyncio.wait((pulse,))
            await self._begin(form)
            await self._write(last, more=False)

    async def _write_chunks(
        self, chunks: AsyncGenerator[GenerateContentResponse, None], form: StreamForm
    ) -> bytes:
        """Writes chunks as they arrive; returns the final bytes."""
        counted: GenerateContentResponse | None = None
        try:
            async with self._closing.limit_time(self._limits.total_s, self._late):
                async for chunk in chunks:
                    if chunk.usage_metadata is not None:
                        counted = chunk
                    data = form.feed(chunk)
                    if not self._begun:
                        await self._begin(form)
                    if data:
                        await self._write(data, more=True)
            return form.finish()
        except AlhenaError as error:
            if not self._begun:
                raise
            self._note(fault := fault_of(error))
            return form.failure(fault)
        finally:
            if counted is not None:
                self.entry.count(counted)

    async def _begin(self, form: StreamForm) -> None:
        """Sends the head of a streamed answer once, for the first caller.

        It waits while a previous answer is not accepted yet; a caller cancelled there has sent
        nothing, so the answer counts as begun only after that.
        """
        if self._begun:
            return
        async with self._beginning:
            if not self._begun:
                headers = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
                await self._start(200, form.media_type.encode("ascii"), headers)
                self._begun = True

    def _note(self, fault: Fault) -> None:
        self.entry.outcome = fault.kind
        self.entry.detail = fault.detail[:1000]

    async def _pulse(self, form: StreamForm) -> None:
        """Sends pings while the answer is silent."""
        silence = self._limits.ping_s
        clock = asyncio.get_running_loop().time
        while True:
            quiet = clock() - self._quiet_since
            if quiet >= silence and (ping := form.ping()):
                await self._begin(form)
                await self._write(ping, more=True)
            await asyncio.sleep(silence - quiet if quiet < silence else silence)

    def _late(self) -> AlhenaError:
        message = f"the model's answer took longer than {self._limits.total_s:g} s."
        return refusal_error(FaultKind.TIMEOUT, message)

    async def _start(self, status: int, media_type: bytes, headers: Headers) -> None:
        told = [(b"content-type", media_type), *headers, *self.headers]
        await self._send({"type": "http.response.start", "status": status, "headers": told})

    async def _write(self, data: bytes, *, more: bool) -> None:
        if more and self._line is not None:
            await self._line.write(data)
        else:
            await self._send({"type": "http.response.body", "body": data, "more_body": more})
        self._quiet_since = asyncio.get_running_loop().time()


async def until_gone(receive: Receive, work: Awaitable[None]) -> None:
    """Runs `work` while the client is connected; its request has been read. On disconnection
    cancels the work, waits for its end and raises ClientGoneError."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
