"""A front end in another process: the bus as lines of JSON over a pipe or a socket (SCHED-09)."""

import asyncio
from collections import deque
from functools import partial
from typing import Any, cast

import msgspec

from alhena.bus.bus import MessageBus
from alhena.bus.errors import LinkError
from alhena.bus.messages import (
    AskUserRequest,
    AskUserResponse,
    Message,
    RequestClosed,
    ToolCallsUpdate,
    ToolConfirmationRequest,
    ToolConfirmationResponse,
    ToolPolicyRejection,
    UpdatePolicy,
)

MAX_LINE = 64 * 1024 * 1024
"""Bytes of one line from a front end."""

_CHUNK = 64 * 1024


class FrontEndLink:
    """Lets whoever is at the other end of two streams answer what is asked over a bus.

    Out go requests, what the policy rejects, and the batch at work, each a line: a message as JSON.
    Of the batch only the last state is kept for a front end that reads slowly. RequestClosed says
    that a request needs no answer any more. In come responses, and nothing else: one that belongs
    to no open request is too late and ignored; a line that is no response ends the link.
    """

    def __init__(
        self,
        bus: MessageBus,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        max_line: int = MAX_LINE,
    ) -> None:
        self._max_line = max_line
        self._bus = bus
        self._reader = reader
        self._writer = writer
        self._asked: dict[str, tuple[type[Message], asyncio.Future[None]]] = {}
        self._lines: deque[bytes] = deque()
        self._batch: ToolCallsUpdate | None = None
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Goes on until the other end closes, or this is cancelled. Requests that nobody else has
        are refused then. What was wrong with the other end is told to the bus's `report`."""
        subscribe = self._bus.subscribe
        leave = (
            subscribe(ToolConfirmationRequest, partial(self._ask, ToolConfirmationResponse)),
            subscribe(AskUserRequest, partial(self._ask, AskUserResponse)),
            subscribe(ToolPolicyRejection, self._tell),
            subscribe(UpdatePolicy, self._tell),
            subscribe(ToolCallsUpdate, self._show),
        )
        sending = asyncio.create_task(self._send())
        reading = asyncio.create_task(self._read())
        try:
            await asyncio.wait({sending, reading}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for unsubscribe in leave:
                unsubscribe()
            for task in (sending, reading):
                task.cancel()
            await asyncio.wait({sending, reading})
            self._writer.close()
        for task in (sending, reading):
            self._report(None if task.cancelled() else task.exception())

    def _report(self, error: BaseException | None) -> None:
        match error:
            case None | ConnectionError():  # it has gone, which is its right
                return
            case LinkError() | OSError():
                self._bus.report(f"a front end was cut off: {error}")
            case _:
                raise error

    async def _ask(
        self, answer: type[Message], message: ToolConfirmationRequest | AskUserRequest
    ) -> None:
        """Passes a request on, and stays until there is an answer: being cancelled means that there
        is one from elsewhere."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked[message.correlation_id] = (answer, done)
        self._tell(message)
        try:
            await done
        finally:
            if self._asked.pop(message.correlation_id, None) is not None:
                self._tell(RequestClosed(correlation_id=message.correlation_id))

    def _tell(self, message: Message) -> None:
        self._lines.append(encoded(message))
        self._wake.set()

    def _show(self, message: ToolCallsUpdate) -> None:
        self._batch = message
        self._wake.set()

    async def _send(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._lines or self._batch is not None:
                if self._lines:
                    line = self._lines.popleft()
                else:
                    line, self._batch = encoded(cast("Message", self._batch)), None
                self._writer.write(line + b"\n")
                await self._writer.drain()

    async def _read(self) -> None:
        pending = bytearray()
        while piece := await self._reader.read(_CHUNK):
            start = len(pending)
            pending += piece
            if b"\n" in piece:
                end = pending.rindex(b"\n", start)
                for line in bytes(pending[:end]).split(b"\n"):
                    if line.strip():
                        self._answer(line)
                del pending[: end + 1]
            if len(pending) > self._max_line:
                raise LinkError(f"a line of it is longer than {self._max_line:,} bytes")

    def _answer(self, line: bytes) -> None:
        try:
            response = _DECODER.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise LinkError(f"what it sent is no response ({error})") from error
        wanted, done = self._asked.get(response.correlation_id, (None, None))
        if done is None:
            return
        if wanted is not type(response):
            raise LinkError(f"{type(response).__name__} is no answer to what it was asked")
        del self._asked[response.correlation_id]
        self._bus.publish(response)
        done.set_result(None)


_DECODER = msgspec.json.Decoder(ToolConfirmationResponse | AskUserResponse)


def encoded(message: Message) -> bytes:
    """A message as JSON on one line. Halves of surrogate pairs, as names of files can have them,
    become U+FFFD."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(msgspec.to_builtins(message)))


def _whole(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            members = cast("dict[str, Any]", value)
            return {_whole(key): _whole(item) for key, item in members.items()}
        case list() | tuple():
            return [_whole(item) for item in cast("list[Any]", value)]
        case _:
            return value
