"""One request and its streamed answer on their way through the gateway.

Each message of an ASGI application passes every layer of it and of the server, and becomes an
event of the HTTP library. For the pieces of a stream, which are one chunk each, nothing of that
matters; what begins and what ends an answer goes the usual way.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from starlette.types import Receive, Send

from alhena.errors import AlhenaError
from alhena.gateway.access_log import Entry, Line
from alhena.gateway.body import ClientGoneError, Closing, Limits
from alhena.gateway.faults import Fault, FaultKind, fault_of, refused
from alhena.gateway.speech import Speech, StreamForm
from alhena.wire.encoded import encode_value
from alhena.wire.response import GenerateContentResponse

T = TypeVar("T")

Headers = list[tuple[bytes, bytes]]

_JSON = b"application/json; charset=utf-8"


class Terms(msgspec.Struct, frozen=True):
    """What every answer keeps to."""

    limits: Limits
    closing: Closing


class Exchange:
    """Writes the answer to one request in the `speech` of its client."""

    def __init__(
        self, send: Send, speech: Speech, entry: Entry, terms: Terms, line: Line | None
    ) -> None:
        self._send = send
        self._line = line
        self.speech = speech
        self._limits = terms.limits
        self._closing = terms.closing
        self._quiet_since = 0.0
        self._begun = False
        self._beginning = asyncio.Lock()
        self.entry = entry

    async def reply(self, status: int, body: Any, headers: Headers | None = None) -> None:
        """A whole answer, as JSON."""
        data = encode_value(body)
        length = (b"content-length", b"%d" % len(data))
        await self._start(status, _JSON, [length, *(headers or [])])
        await self._write(data, more=False)

    async def refuse(self, fault: Fault) -> None:
        """An error instead of an answer."""
        form = self.speech.error(fault)
        self._note(fault)
        headers: Headers = []
        if fault.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % math.ceil(fault.retry_after_s)))
        if fault.kind is FaultKind.QUOTA:  # what the clients of both other dialects heed
            headers.append((b"x-should-retry", b"false"))
        await self.reply(form.status, form.body, headers)

    async def within_time(self, answer: Awaitable[T]) -> T:
        """What a service answers, if it does in time. Raises AlhenaError."""
        async with self._closing.within(self._limits.total_s, self._late):
            return await answer

    async def stream(
        self, chunks: AsyncGenerator[GenerateContentResponse, None], form: StreamForm
    ) -> None:
        """A streamed answer. A chunk is taken when the client has taken what came before it.

        The answer begins with the first chunk, or with a ping when that is long in coming. Raises
        AlhenaError for what fails before; later failures are told in the stream, which they end.
        """
        async with aclosing(chunks):
            self._quiet_since = asyncio.get_running_loop().time()
            pulse = asyncio.create_task(self._pulse(form))
            try:
                last = await self._told(chunks, form)
            finally:
                pulse.cancel()
                await asyncio.wait((pulse,))
            await self._begin(form)
            await self._write(last, more=False)

    async def _told(
        self, chunks: AsyncGenerator[GenerateContentResponse, None], form: StreamForm
    ) -> bytes:
        """Writes what comes; returns the bytes to end with."""
        counted: GenerateContentResponse | None = None
        try:
            async with self._closing.within(self._limits.total_s, self._late):
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
        """Sends the head of a streamed answer if it is not sent yet, by whoever comes first.

        It waits where an answer before it is not taken yet; what is cancelled there has sent
        nothing, so that the answer has begun only behind that.
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
        """Says now and then that the answer is still under way, where nothing else says it."""
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
        return refused(FaultKind.TIMEOUT, message)

    async def _start(self, status: int, media_type: bytes, headers: Headers) -> None:
        told = [(b"content-type", media_type), *headers]
        await self._send({"type": "http.response.start", "status": status, "headers": told})

    async def _write(self, data: bytes, *, more: bool) -> None:
        if more and self._line is not None:
            await self._line.write(data)
        else:
            await self._send({"type": "http.response.body", "body": data, "more_body": more})
        self._quiet_since = asyncio.get_running_loop().time()


async def until_gone(receive: Receive, work: Awaitable[None]) -> None:
    """Carries out `work` as long as the client is there, whose request has been read. When it goes
    the work is cancelled, and ClientGoneError raised once it has come to its end."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
