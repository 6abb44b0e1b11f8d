"""The body of a request, within limits, and the end of the gateway."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.requests import Request

from alhena.errors import AlhenaError
from alhena.gateway.faults import FaultKind, RefusedError, refused
from alhena.wire.dialects.fields import DialectError


class Closing:
    """Ends what requests wait for, when the gateway stops and has no more time for it. Each learns
    of it where it waits, and still has its say: an answer that was begun ends with the reason."""

    def __init__(self) -> None:
        self._waits: set[asyncio.Timeout] = set()
        self._begun = False

    @asynccontextmanager
    async def within(
        self, seconds: float, late: Callable[[], AlhenaError]
    ) -> AsyncGenerator[None, None]:
        """What is done inside has so many seconds. Raises the error that `late` makes when it takes
        longer, RefusedError when the gateway closes."""
        if self._begun:
            raise _stopping()
        try:
            async with asyncio.timeout(seconds) as wait:
                self._waits.add(wait)
                try:
                    yield
                finally:
                    self._waits.discard(wait)
        except TimeoutError as error:
            raise (_stopping() if self._begun else late()) from error

    def close(self) -> None:
        """Ends all waits, and those that would begin."""
        self._begun = True
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(now)


def _stopping() -> RefusedError:
    message = "the gateway stops, and had no more time for this request."
    return refused(FaultKind.STOPPING, message, retry_after_s=1)


MB = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds.

    `concurrent` requests are answered at a time, and the bodies of all of them together hold
    `bodies_bytes` at most. What the values of one come to in memory, beside its texts, is
    `values_bytes` at most, and counts among those of all. The head of a request has to arrive
    within `head_s`, its body within `body_s` and each next piece of that within `body_idle_s`; its
    answer has to be written within `total_s`. A client that takes nothing for `stall_s` is given
    up. A stream says that it lives after `ping_s` of silence. When the gateway stops, answers under
    way get `stop_s`.
    """

    body_bytes: int = 32 * MB
    bodies_bytes: int = 256 * MB
    values_bytes: int = 32 * MB
    head_bytes: int = 64 * 1024
    concurrent: int = 256
    head_s: float = 10.0
    body_idle_s: float = 30.0
    body_s: float = 300.0
    total_s: float = 3600.0
    stall_s: float = 120.0
    ping_s: float = 15.0
    keep_alive_s: float = 75.0
    stop_s: float = 10.0


_SKIPPED = 4
"""A body of up to so many times the limit is read to its end, so that its client reads the answer
that it is too large; most clients read nothing before they have sent all."""


_COSTS = ((b"{", 150), (b"[", 80), (b":", 60), (b",", 50))
"""Bytes of memory that an object, an array, a member and a further value take, about."""
_OTHER = bytes(set(range(256)) - set(b'{[:,"'))
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|[^u]|u(?![dD][89a-fA-F]))"
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})",
    re.DOTALL,
)
"""What stands for a character in a text; as group 1 half of one."""
_STRING = re.compile(rb'"[^"]*"')


class ClientGoneError(Exception):
    """The client has closed the connection."""


class Bodies:
    """The number of bytes that the bodies of all requests hold now."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    def take(self, count: int) -> None:
        """Counts bytes that arrive. Raises RefusedError when there is no room for them."""
        if self._held + count > self._limit:
            raise refused(FaultKind.BUSY, "too many large requests at a time.", retry_after_s=1)
        self._held += count

    def give_back(self, count: int) -> None:
        """Counts bytes that are no longer held."""
        self._held -= count


async def read_body(
    request: Request, limits: Limits, take: Callable[[int], None], closing: Closing
) -> bytes:
    """The whole body; `take` is told how many bytes each piece has. Raises RefusedError when it is
    too large or comes too slowly, ClientGoneError when its client goes away."""
    async with closing.within(limits.body_s, _too_slow):
        return await _read(request, limits, take)


async def _read(request: Request, limits: Limits, take: Callable[[int], None]) -> bytes:
    declared = _declared(request)
    if declared > _SKIPPED * limits.body_bytes:
        raise _too_large(limits)
    pieces: list[bytes] = []
    size = 0
    more = True
    while more:
        async with asyncio.timeout(limits.body_idle_s):
            message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(piece)
        if size > _SKIPPED * limits.body_bytes:
            raise _too_large(limits)
        if max(size, declared) > limits.body_bytes:
            pieces.clear()
            continue
        take(len(piece))
        pieces.append(piece)
    if size > limits.body_bytes:
        raise _too_large(limits)
    return b"".join(pieces)


def weight_of(body: bytes, limit: int) -> int:
    """The bytes of memory that the values of a JSON body take, about, beside those of its texts;
    what is no JSON weighs what there is of it. Nothing is made of the values for it.

    Raises RefusedError above `limit`: a few megabytes of brackets become a hundred times as much.
    """
    rough = _marks(body)
    if rough <= limit:
        return rough
    # Texts may hold any number of commas and brackets. Each counts once two quotes enclose it.
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHER)
    texts = bare.count(b'"') // 2
    if (texts - 1) * _COSTS[-1][1] > limit:  # something stands between any two
        raise _too_many()
    weight = _marks(_STRING.sub(b"", bare))
    if weight > limit:
        raise _too_many()
    return weight


def _marks(text: bytes) -> int:
    return sum(text.count(mark) * cost for mark, cost in _COSTS)


def _too_many() -> Exception:
    return refused(FaultKind.TOO_LARGE, "the body holds too many values.")


def read_json(body: bytes) -> Any:
    """The JSON value of a body. Raises DialectError."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DialectError(f"the body is not valid JSON: {_half_pair(body) or error}.") from error
    except RecursionError as error:
        raise DialectError("the body is nested too deeply.") from error


def _half_pair(body: bytes) -> str:
    """Words for half of a surrogate pair, which the decoder takes for the end of its data; empty
    when there is none in its first megabyte."""
    for escape in _ESCAPE.finditer(body, 0, MB):
        if escape[1]:
            half = escape[1].decode("ascii")
            return f"{half} at byte {escape.start()} is one half of a surrogate pair"
    return ""


def _declared(request: Request) -> int:
    """The length that the head says; h11 has refused what is no number."""
    return int(request.headers.get("content-length") or 0)


def _too_slow() -> AlhenaError:
    return refused(FaultKind.SLOW_REQUEST, "the body comes too slowly.")


def _too_large(limits: Limits) -> Exception:
    limit = limits.body_bytes
    shown = f"{limit // MB} MB" if limit % MB == 0 else f"{limit} bytes"
    return refused(FaultKind.TOO_LARGE, f"the body is larger than {shown}.")
