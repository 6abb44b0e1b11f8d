"""A model service on loopback that takes nothing but valid requests, and fails as it is told.

What it answers depends on nothing but the conversation it is sent: for each prompt two calls at
once, then one call, then a text. So an answer that is asked for again is the same answer.
"""

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

from alhena.wire.conformance.check import check_json
from alhena.wire.errors import Level
from tests.models.asking import read_request, response
from tests.support.server import call, chunk

STEPS = 3
SIGNATURE = "c2lnbmF0dXJl"
ANSWER = ("All ", "is ", "well.")

Play = Callable[["StrictModel", asyncio.StreamWriter, list[bytes]], Awaitable[bool]]
"""Answers with events, or fails to; whether the connection can take another request."""


class StrictModel:
    """`faults` maps the number of a request (from 0) to what happens instead of its answer. With
    `signed` calls have to be; without `identified` they have no ids. `patience_s`: how long its
    client bears silence. `half_called` counts answers that ended in good order before all of their
    calls were there."""

    def __init__(
        self,
        *,
        signed: bool,
        faults: dict[int, Play],
        patience_s: float,
        identified: bool = True,
    ) -> None:
        self.identified = identified
        self.half_called = 0
        self.signed = signed
        self.patience_s = patience_s
        self.faults = faults
        self.bodies: list[dict[str, Any]] = []
        self.violations: list[str] = []
        self.released = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one connection."""
        while True:
            _, _, body = await read_request(reader)
            number = len(self.bodies)
            self.bodies.append(json.loads(body))
            found = check_json(self.bodies[-1], needs_signatures=self.signed)
            wrong = [str(item) for item in found if item.level is Level.ERROR]
            if wrong:
                self.violations += wrong
                writer.write(refused(400, "INVALID_ARGUMENT", "Request contains an invalid one."))
                continue
            play = self.faults.get(number, whole)
            if not await play(self, writer, self.answer(self.bodies[-1])):
                return

    def mend(self) -> None:
        """From now on nothing fails."""
        self.faults.clear()
        self.released.set()

    def answer(self, body: dict[str, Any]) -> list[bytes]:
        """The events that the conversation so far is answered with."""
        prompts, step = 0, 0
        for content in body["contents"]:
            if content["role"] == "user" and _says(content, "Prompt"):
                prompts, step = prompts + 1, 0
            elif content["role"] == "model" and any("functionCall" in p for p in content["parts"]):
                step += 1
        return [event(item) for item in self._chunks(prompts, step)]

    def _chunks(self, prompt: int, step: int) -> list[dict[str, Any]]:
        thought = chunk({"text": "**Plan** what next", "thought": True})
        extra = {"thoughtSignature": SIGNATURE} if self.signed else {}
        if step >= STEPS - 1:
            texts = [chunk({"text": piece}) for piece in ANSWER]
            return [thought, *texts, chunk({"text": ""}, finish="STOP")]
        keys = ("a", "b") if step == 0 else ("a",)
        calls = [
            chunk(
                call(
                    "note",
                    {"key": f"{prompt}.{step}.{key}"},
                    id=f"{prompt}-{step}-{key}" if self.identified else None,
                    **(extra if position == 0 else {}),
                )
            )
            for position, key in enumerate(keys)
        ]
        return [thought, chunk({"text": "Looking. "}), *calls, chunk(finish="STOP")]


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\r\n\r\n"


def refused(status: int, name: str, message: str, *details: Any, **headers: str) -> bytes:
    body = {"error": {"code": status, "status": name, "message": message, "details": details}}
    headers = {"content_type": "application/json"} | headers
    return response(json.dumps(body).encode(), status=f"{status} Refused", **headers)


async def whole(_: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
    """The whole answer."""
    writer.write(response(b"".join(events)))
    return True


def begin(writer: asyncio.StreamWriter, data: bytes) -> None:
    """The start of an answer of unknown length."""
    head = (
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    writer.write(head.encode())
    if data:
        writer.write(b"%x\r\n%s\r\n" % (len(data), data))


def ending_after(count: int, *, reset: bool = False) -> Play:
    """The connection ends behind `count` events."""

    async def play(_: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
        begin(writer, b"".join(events[: count % len(events)]))
        await writer.drain()
        if reset:
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return False

    return play


def ending_within(share: float) -> Play:
    """The connection ends anywhere, within an event or a character."""

    async def play(_: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
        data = b"".join(events[:-1]) + events[-1]
        begin(writer, data[: int(len(data) * share)])
        return False

    return play


def silent_after(count: int) -> Play:
    """Nothing comes any more behind `count` events; at 0 not even a head."""

    async def play(self: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
        if count:
            begin(writer, b"".join(events[: count % len(events)]))
        await self.released.wait()
        return False

    return play


def changed(change: Callable[[list[bytes]], list[bytes]]) -> Play:
    """Other events than those of the answer, in an orderly response."""

    async def play(self: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
        sent = b"".join(change(events))
        if b"functionCall" in sent and b"finishReason" not in sent and b"error" not in sent:
            self.half_called += 1
        writer.write(response(sent))
        return True

    return play


def instead(data: bytes) -> Play:
    """Another response."""

    async def play(_: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
        del events
        writer.write(data)
        return True

    return play


async def hung_up(_: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
    """The connection ends without a byte."""
    del events
    with suppress(ConnectionError):
        writer.close()
    return False


def _says(content: dict[str, Any], word: str) -> bool:
    return any(str(part.get("text", "")).startswith(word) for part in content["parts"])


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s"}
METADATA = event({"usageMetadata": {"promptTokenCount": 3}, "modelVersion": "m"})


def doubled(events: list[bytes], position: int) -> list[bytes]:
    """With one event sent twice."""
    at = position % len(events)
    return [*events[:at], events[at], *events[at:]]


def broken_off(kind: str, random: Random) -> Play:
    """An answer that came and was none, by the name of what is wrong with it."""
    at = random.randrange(1, 4)
    error = event({"error": {"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}})
    ends = {
        "unfinished": lambda events: events[: min(at + 1, len(events) - 1)],
        "error object": lambda events: [*events[:at], error],
        "bad json": lambda events: [*events[:at], b'data: {"candidates": [\r\n\r\n'],
        "no events": lambda _: [],
        "only thoughts": lambda events: [events[0], event(chunk(finish="STOP"))],
        "malformed call": lambda events: [
            *events[:at],
            event(chunk(finish="MALFORMED_FUNCTION_CALL")),
        ],
        "no output left": lambda _: [event(chunk(finish="MAX_TOKENS"))],
    }
    return changed(ends[kind])
