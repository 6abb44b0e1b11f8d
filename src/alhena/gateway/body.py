"""Reads the body of a request within limits, and ends waits at shutdown."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.requests import Request

from alhena.errors import AlhenaError
from alhena.gateway.faults import FaultKind, GatewayRefusalError, refusal_error
from alhena.wire.dialects.fields import DialectError
from alhena.wire.json_values import decode_json


class Closing:
    """Ends the waits of requests when the gateway's time for shutdown is over. Each wait raises an
    error, so that a started answer ends with the reason."""

    def __init__(self) -> None:
        self._waits: set[asyncio.Timeout] = set()
        self._begun = False

    @asynccontextmanager
    async def limit_time(
        self, seconds: float, late: Callable[[], AlhenaError]
    ) -> AsyncGenerator[None, None]:
        """Limits the block to `seconds`. Raises the error from `late` after a timeout,
        GatewayRefusalError when the gateway closes."""
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
        """Ends all current and future waits."""
        self._begun = True
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(now)


def _stopping() -> GatewayRefusalError:
    message = "the gateway stops, and had no more time for this request."
    return refusal_error(FaultKind.STOPPING, message, retry_after_s=1)


MB = 1024 * 1024


class GatewayLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes, times in seconds.

    At most `concurrent` requests are answered at a time, and all their bodies together have at most
    `bodies_bytes`. The values of one body, without its texts, may use `values_bytes` of memory,
    which also count towards the total. The head of a request must arrive within `head_s`, its body
    within `body_s` and each piece of it within `body_idle_s`; its answer must be written within
    `total_s`. A client that accepts nothing for `stall_s` is disconnected. A stream sends a ping
    after `ping_s` of silence. At shutdown current answers get `stop_s`.
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
"""A body up to this multiple of the limit is read to its end, so that the client reads the error;
most clients read nothing before they have sent everything."""


_COSTS = ((b"{", 150), (b"[", 80), (b":", 60), (b",", 50))
"""Approximate bytes of memory for an object, an array, a member and a further value."""
_OTHER = bytes(set(range(256)) - set(b'{[:,"'))
_STRING = re.compile(rb'"[^"]*"')


class ClientGoneError(Exception):
    """The client has closed the connection."""


class BodyTotal:
    """Total bytes of the current bodies of all requests."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0

    def take(self, count: int) -> None:
        """Counts received bytes. Raises GatewayRefusalError above the limit."""
        if self._held + count > self._limit:
            raise refusal_error(
                FaultKind.BUSY, "too many large requests at a time.", retry_after_s=1
            )
        self._held += count

    def give_back(self, count: int) -> None:
        """Counts released bytes."""
        self._held -= count


async def read_body(
    request: Request, limits: GatewayLimits, take: Callable[[int], None], closing: Closing
) -> bytes:
    """Reads the whole body; `take` receives the size of each piece. Raises GatewayRefusalError for
    a body that is too large, too slow or compressed, ClientGoneError when the client disconnects.
    """
    async with closing.limit_time(limits.body_s, _too_slow):
        body = await _read(request, limits, take)
    coding = request.headers.get("content-encoding", "").strip().lower()
    if coding not in {"", "identity"}:
        message = (
            f"bodies with content-encoding {coding[:40]!r} are not read; send it uncompressed."
        )
        raise refusal_error(FaultKind.INVALID, message)
    return body


async def _read(request: Request, limits: GatewayLimits, take: Callable[[int], None]) -> bytes:
    declared = _declared_length(request)
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
    """Approximate bytes of memory for the values of a JSON body, without its texts; also for
    invalid JSON. Builds no values for it.

    Raises GatewayRefusalError above `limit`: a few megabytes of brackets become a hundred
    times as much.
    """
    rough = _marks(body)
    if rough <= limit:
        return rough
    # Texts may contain any number of commas and brackets. Each pair of quotes encloses a text.
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHER)
    texts = bare.count(b'"') // 2
    if (texts - 1) * _COSTS[-1][1] > limit:  # there is a value between any two
        raise _too_many()
    weight = _marks(_STRING.sub(b"", bare))
    if weight > limit:
        raise _too_many()
    return weight


def _marks(text: bytes) -> int:
    return sum(text.count(mark) * cost for mark, cost in _COSTS)


def _too_many() -> Exception:
    return refusal_error(FaultKind.TOO_LARGE, "the body contains too many values.")


def read_json(body: bytes) -> Any:
    """Parses the JSON of a body; half a character in a text becomes U+FFFD. Raises DialectError."""
    try:
        return decode_json(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DialectError(f"the body is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise DialectError("the body is nested too deeply.") from error


def _declared_length(request: Request) -> int:
    """The declared length; h11 has already rejected invalid numbers."""
    return int(request.headers.get("content-length") or 0)


def _too_slow() -> AlhenaError:
    return refusal_error(FaultKind.SLOW_REQUEST, "the body comes too slowly.")


def _too_large(limits: GatewayLimits) -> Exception:
    limit = limits.body_bytes
    shown = f"{limit // MB} MB" if limit % MB == 0 else f"{limit} bytes"
    return refusal_error(FaultKind.TOO_LARGE, f"the body is larger than {shown}.")
