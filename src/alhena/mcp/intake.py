"""What a server sends on its way to the SDK: nothing of it holds up the loop, whatever it is.

Results that are long, or all structure, are kept here; the SDK, which would look at all of them
more than once, is given one that says where the real one is.
"""

from typing import Any, cast

import msgspec

from alhena.mcp.readable import LONG, understood
from alhena.mcp.scan import Scan, scanned_in_steps
from alhena.mcp.slimming import slimmed
from alhena.tools.daemon import in_daemon_thread

KEPT = "alhena/kept"
MAX_KEPT = 100
"""Results on their way. One that nobody waits for any more may stay behind."""

MAX_HELD = 128 * 1024 * 1024
"""Bytes of memory that they may take."""

_WIDE = 4
"""Bytes that each character of a text takes in memory where one of them is far from ASCII."""

HEAVY = 16 * 1024
"""Bytes of a message that count as much as a message does."""

MANIFOLD = 100
"""Values of a message that do."""


class Intake:
    """The messages of one connection: what they weigh, and results that go around the SDK.
    `most` bytes of memory are taken by these."""

    def __init__(self, most: int = MAX_HELD) -> None:
        self._most = most
        self._kept: dict[str, tuple[dict[str, Any], int]] = {}
        self._held = 0
        self._count = 0
        self._answers: dict[str | int, int] = {}
        self._told = 0

    async def value(self, data: bytes) -> object:
        """A message as a value. Raises ValueError for what is none."""
        return (await self._understood(data))[0]

    async def text(self, data: bytes) -> bytes:
        """A message for a reader that would hold up the loop with a long one. What is no message is
        left to it."""
        try:
            value, text = await self._understood(data)
        except ValueError:
            return data if len(data) <= LONG else b'"no message"'
        if not isinstance(value, dict):
            return text
        message = cast("dict[str, Any]", value)
        result: object = message.get("result")
        if not isinstance(result, dict) or (text and len(text) <= LONG):
            return text or msgspec.json.encode(message)
        marked = {"_meta": {KEPT: self._keep(cast("dict[str, Any]", result), _size(data))}}
        return msgspec.json.encode({"jsonrpc": "2.0", "id": message.get("id"), "result": marked})

    def real(self, result: dict[str, Any]) -> dict[str, Any] | None:
        """The result that this one stands for, itself for one that stands for none; None for one
        that had to make room for others."""
        meta: object = result.get("_meta")
        mark: object = cast("dict[str, Any]", meta).get(KEPT) if isinstance(meta, dict) else None
        if not isinstance(mark, str):
            return result
        real, size = self._kept.pop(mark, (None, 0))
        self._held -= size
        return real

    def _keep(self, result: dict[str, Any], size: int) -> str:
        """The mark by which a result of this size is found again."""
        while self._kept and (len(self._kept) >= MAX_KEPT or self._held + size > self._most):
            self._held -= self._kept.pop(next(iter(self._kept)))[1]
        self._count += 1
        self._kept[str(self._count)] = result, size
        self._held += size
        return str(self._count)

    def weight(self, number: object = None) -> int:
        """What the answer with this id weighs beside that it is a message; without one, what has
        been told since this was last asked."""
        if isinstance(number, str | int):
            return self._answers.pop(number, 0)
        told, self._told = self._told, 0
        return told

    async def _understood(self, data: bytes) -> tuple[object, bytes]:
        """A message, and how it is written; b"" where that was too much."""
        scan = await scanned_in_steps(data)
        try:
            if scan.too_many:
                value, text = await slimmed(data), b""
            elif len(data) > LONG:
                value, text = await in_daemon_thread(lambda: understood(data))
            else:
                value, text = understood(data)
        except ValueError:
            self._told += _weight(scan, data)
            raise
        self._weigh(value, _weight(scan, data))
        return value, text

    def _weigh(self, value: object, weight: int) -> None:
        message = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        number: object = message.get("id")
        if not weight:
            return
        if "method" in message or not isinstance(number, str | int):
            self._told += weight
        else:
            self._answers[number] = weight
            while len(self._answers) > MAX_KEPT:
                del self._answers[next(iter(self._answers))]


def _size(data: bytes) -> int:
    """Bytes of memory that the texts of a message may take, as a value."""
    return len(data) if data.isascii() and b"\\u" not in data else _WIDE * len(data)


def _weight(scan: Scan, data: bytes) -> int:
    return max(len(data) // HEAVY, scan.values // MANIFOLD)
