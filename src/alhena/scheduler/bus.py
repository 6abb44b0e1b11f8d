"""The message bus: subscriptions, and requests that always get an answer (SCHED-09).

A request has a correlation id, which its response repeats. `make_refusal` makes the negative
response that a request gets when there is no answer.
"""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from alhena.errors import AlhenaError
from alhena.scheduler.messages import (
    AskUserRequest,
    AskUserResponse,
    LastingRule,
    Message,
    ToolCallsUpdate,
    ToolConfirmationRequest,
    ToolConfirmationResponse,
    ToolPolicyRejection,
    UpdatePolicy,
)

__all__ = [
    "AskUserRequest",
    "AskUserResponse",
    "BusError",
    "LastingRule",
    "Message",
    "MessageBus",
    "ToolCallsUpdate",
    "ToolConfirmationRequest",
    "ToolConfirmationResponse",
    "ToolPolicyRejection",
    "UpdatePolicy",
]

R_co = TypeVar("R_co", covariant=True)


class Request(Protocol[R_co]):
    """A message that expects a response."""

    @property
    def correlation_id(self) -> str:
        """The id that the response repeats."""
        ...

    def make_refusal(self, reason: str) -> R_co:
        """Makes the negative response, with this reason."""
        ...


if TYPE_CHECKING:
    import asyncio  # a program that makes an agent needs no event loop yet


class BusError(AlhenaError):
    """The correlation id of a request is already in use."""

    kind = "bus"


REQUEST_TIMEOUT_S = 60.0
GRACE_S = 2.0

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Message)
Listener = Callable[[M], Awaitable[object] | None]
"""Receives a message. Runs concurrently with the publisher, which its failures do not reach."""

_RESPONSES = (ToolConfirmationResponse, AskUserResponse)


class _Subscription:
    __slots__ = ("kind", "listener")

    def __init__(self, kind: type[Message], listener: Listener[Any]) -> None:
        self.kind = kind
        self.listener = listener


class _Open:
    """An open request with its listeners and its answer."""

    __slots__ = ("answer", "answerer", "listeners", "request")

    def __init__(self, request: Request[Message], answer: "asyncio.Future[Message]") -> None:
        self.request = request
        self.answer = answer
        self.answerer: asyncio.Task[Any] | None = None
        self.listeners: dict[_Subscription, asyncio.Task[Any]] = {}

    def settle(self, response: Message) -> bool:
        """Takes the first answer; False if there already was one."""
        import asyncio

        self.answerer = asyncio.current_task()
        if self.answer.done():
            return False
        self.answer.set_result(response)
        return True

    def cancel_listeners(self) -> "set[asyncio.Task[Any]]":
        """Cancels the listeners except the one that answered, which may finish. Returns them."""
        running = {
            task
            for task in self.listeners.values()
            if task is not self.answerer and not task.done()
        }
        for task in running:
            task.cancel()
        return running


class MessageBus:
    """Delivers messages within one event loop and its thread. `report` receives messages about
    listeners that failed."""

    def __init__(
        self, report: Callable[[str], None] = lambda _text: None, *, grace_s: float = GRACE_S
    ) -> None:
        self.report = report
        self._grace_s = grace_s
        self._subscriptions: list[_Subscription] = []
        self._open: dict[str, _Open] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._token = os.urandom(8).hex()
        self._count = 0

    def new_id(self) -> str:
        """Returns a new correlation id."""
        self._count += 1
        return f"{self._token}-{self._count}"

    def subscribe(self, kind: type[M], listener: Listener[M]) -> Callable[[], None]:
        """Calls `listener` with every later message of this type. Returns the function that
        unsubscribes; it refuses open requests that have no other listener."""
        subscription = _Subscription(kind, listener)
        self._subscriptions.append(subscription)

        def unsubscribe() -> None:
            from asyncio import current_task

            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
                for request in tuple(self._open.values()):
                    task = request.listeners.get(subscription)
                    _remove_listener(request, subscription, "whoever was asked has gone")
                    if task is not None and task is not current_task():
                        task.cancel()

        return unsubscribe

    def has(self, kind: type[Message]) -> bool:
        """True if there is a listener for messages of this type."""
        return any(issubclass(kind, each.kind) for each in self._subscriptions)

    def publish(self, message: Message) -> int:
        """Sends a message to its listeners without waiting for them. Returns their number; the
        request that a response answers counts too, unless the answer is late."""
        return len(self._start(message)) + self._settle(message)

    async def deliver(self, message: Message) -> int:
        """Like `publish`, but returns when the listeners are done."""
        import asyncio

        started = self._start(message)
        if started:
            await asyncio.wait(started.values())
        return len(started) + self._settle(message)

    async def request(self, message: Request[R], timeout_s: float | None = REQUEST_TIMEOUT_S) -> R:
        """Sends a request and returns its first answer; always returns one.

        The request is refused at once if there is no listener, when all listeners have failed or
        unsubscribed, and after `timeout_s` seconds. Listeners that still run when there is an
        answer are cancelled. Raises BusError if another open request has the same correlation id.
        """
        import asyncio

        if message.correlation_id in self._open:
            raise BusError(f"the request {message.correlation_id!r} is open already.")
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        opened = self._open[message.correlation_id] = _Open(message, answer)
        late: asyncio.TimerHandle | None = None
        if timeout_s is not None:
            refused = cast("Message", message.make_refusal(_describe_timeout(timeout_s)))
            late = asyncio.get_running_loop().call_later(timeout_s, opened.settle, refused)
        try:
            self._ask(opened)
            return cast("R", await answer)
        finally:
            if late is not None:
                late.cancel()
            del self._open[message.correlation_id]
            running = opened.cancel_listeners()
            if running and answer.cancelled():
                await asyncio.wait(running, timeout=self._grace_s)

    async def aclose(self) -> None:
        """Waits up to `grace_s` seconds for running listeners, then cancels them."""
        import asyncio

        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._grace_s)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._grace_s)

    def _ask(self, opened: _Open) -> None:
        started = self._start(cast("Message", opened.request))
        opened.listeners.update(started)
        if not started:
            opened.settle(opened.request.make_refusal("nothing listens"))
        for subscription, task in started.items():
            task.add_done_callback(partial(_remove_failed, opened, subscription))

    def _start(self, message: Message) -> "dict[_Subscription, asyncio.Task[Any]]":
        """Starts a task for each listener; its exceptions stay in the task."""
        import asyncio

        started: dict[_Subscription, asyncio.Task[Any]] = {}
        for subscription in tuple(self._subscriptions):
            if isinstance(message, subscription.kind):
                task = asyncio.ensure_future(_call_listener(subscription.listener, message))
                self._tasks.add(task)
                task.add_done_callback(partial(self._report_failure, type(message)))
                started[subscription] = task
        return started

    def _settle(self, message: Message) -> bool:
        if not isinstance(message, _RESPONSES):
            return False
        opened = self._open.get(message.correlation_id)
        if opened is None or type(opened.request.make_refusal("")) is not type(message):
            return False
        return opened.settle(message)

    def _report_failure(self, kind: type[Message], task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self.report(f"a listener for {kind.__name__} failed: {type(error).__name__}: {error}")


def _describe_timeout(timeout_s: float) -> str:
    return f"no answer within {timeout_s:g} seconds"


async def _call_listener(listener: Listener[Any], message: Message) -> None:
    answer = listener(message)
    if isawaitable(answer):
        await answer


def _remove_failed(opened: _Open, subscription: _Subscription, task: "asyncio.Task[Any]") -> None:
    """Removes a failed listener; one that returned may still answer."""
    if task.cancelled():
        _remove_listener(
            opened, subscription, "the listener that was asked stopped before it answered"
        )
    elif task.exception() is not None:
        _remove_listener(opened, subscription, "whoever was asked has failed")


def _remove_listener(opened: _Open, subscription: _Subscription, why: str) -> None:
    if opened.listeners.pop(subscription, None) is not None and not opened.listeners:
        opened.settle(opened.request.make_refusal(why))
