"""JSON-RPC over lines: requests of the client, requests to it, and notifications."""

import asyncio
import itertools
import json
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from alhena.errors import AlhenaError
from alhena.frontends.shared.pipes import Incoming, Outgoing
from alhena.tools.threads import Boundary, one_line
from alhena.wire.content import mend

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
NO_CREDENTIALS = -32000
NOT_FOUND = -32002
HIGH_WATER = 4 << 20
"""Unwritten bytes above which `wait_drained` waits for the client."""


class RpcError(AlhenaError):
    """A request that is answered with an error of this `code`."""

    kind = "acp"

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Reply(msgspec.Struct, frozen=True):
    """The result of a request, and what to do when it is on its way."""

    result: dict[str, Any]
    then: Callable[[], None] = lambda: None


def _decode_line(line: str) -> Any:
    """The message of a line. Half of a character, as an escape, becomes U+FFFD: editors cut texts
    anywhere. Raises ValueError and RecursionError."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        if "\\u" not in line:
            raise ValueError(str(error)) from error
    return mend(json.loads(line, parse_constant=_refuse_constant))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


class Connection:
    """The messages from and to one client, in order. `request` carries out a method of the client
    with its parameters and raises RpcError; `notified` takes what needs no answer. A message that
    is none is answered with an error, and the next one is read."""

    def __init__(
        self,
        reading: Incoming,
        writing: Outgoing,
        request: Callable[[str, Any], Awaitable[Reply]],
        notified: Callable[[str, Any], None],
    ) -> None:
        self._reading = reading
        self._writing = writing
        self._request = request
        self._notified = notified
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsent: deque[bytes] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()

    async def run(self) -> None:
        """Serves the client until it sends no more; what is under way then is cancelled."""
        writing = asyncio.create_task(self._write())
        try:
            async for line in self._reading:
                if line.strip():
                    self._take(line)
        finally:
            for future in self._waiting.values():
                future.cancel()
            for task in tuple(self._tasks):
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            writing.cancel()

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Sends a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Sends a request and returns its result. Raises RpcError for an error, and CancelledError
        when the client has gone."""
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    def order(self, method: str, params: dict[str, Any]) -> None:
        """Sends a request without waiting for its answer."""
        number = next(self._numbers)
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    @property
    def behind(self) -> bool:
        """True while the client has much left to read."""
        return not self._drained.is_set()

    async def wait_drained(self) -> None:
        """Returns at once, or when the client has read most of what it was sent."""
        await self._drained.wait()

    def _take(self, line: str) -> None:
        try:
            message = _decode_line(line)
        except (ValueError, RecursionError) as error:
            self._fail(None, RpcError(PARSE_ERROR, f"Parse error: {error}"))
            return
        if not isinstance(message, dict):
            self._fail(None, RpcError(INVALID_REQUEST, "Invalid request: it is no object"))
            return
        found = cast("dict[str, Any]", message)
        number, method = found.get("id"), found.get("method")
        if isinstance(method, str):
            params = found.get("params")
            if "id" in found:
                task = asyncio.create_task(self._answer(number, method, params))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:  # after the requests before it: their tasks begin in this order
                asyncio.get_running_loop().call_soon(self._notified, method, params)
        elif "result" in found or "error" in found:
            self._settle(number, found)
        else:
            self._fail(number, RpcError(INVALID_REQUEST, "Invalid request: it has no method"))

    def _settle(self, number: object, found: dict[str, Any]) -> None:
        """Takes the answer to a request; drops it when no task waits for it."""
        future = self._waiting.get(number) if isinstance(number, int) else None
        if future is None or future.done():
            return
        if "error" in found:
            future.set_exception(RpcError(INTERNAL, f"the client failed: {found['error']}"))
        else:
            future.set_result(found["result"])

    async def _answer(self, number: Any, method: str, params: Any) -> None:
        boundary = Boundary()
        reply: Reply | None = None
        try:
            with boundary:
                reply = await self._request(method, params)
        except asyncio.CancelledError:
            self._fail(number, RpcError(INTERNAL, "the agent ends"))
            raise
        match boundary.failure:
            case None if reply is not None:
                self._send({"jsonrpc": "2.0", "id": number, "result": reply.result})
                reply.then()
            case RpcError() as error:
                self._fail(number, error)
            case AlhenaError() as error:
                self._fail(number, RpcError(INTERNAL, str(error), {"kind": error.kind}))
            case error:  # a fault of ours must not leave the client waiting
                self._fail(number, RpcError(INTERNAL, one_line(error or RuntimeError(method))))

    def _fail(self, number: Any, error: RpcError) -> None:
        body = {"code": error.code, "message": str(error)}
        if error.data is not None:
            body["data"] = error.data
        self._send({"jsonrpc": "2.0", "id": number, "error": body})

    def _send(self, message: dict[str, Any]) -> None:
        try:
            line = msgspec.json.encode(message) + b"\n"
        except UnicodeEncodeError:
            line = msgspec.json.encode(mend(message)) + b"\n"
        self._unsent.append(line)
        self._size += len(line)
        if self._size > HIGH_WATER:
            self._drained.clear()
        self._changed.set()

    async def _write(self) -> None:
        while True:
            while self._unsent:
                line = self._unsent.popleft()
                await self._writing.write(line.decode("utf-8"))
                self._size -= len(line)
                if self._size <= HIGH_WATER:
                    self._drained.set()
            self._changed.clear()
            await self._changed.wait()
