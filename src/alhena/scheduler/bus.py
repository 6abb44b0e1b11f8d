"""The message bus: typed messages, subscriptions, and requests that always come to an answer
(SCHED-09).

A request carries a correlation id, which its response repeats. `refused` is the response that
means no: it is what a request comes to when nobody answers.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import Any, Protocol, TypeVar, cast

import msgspec

from alhena.errors import AlhenaError
from alhena.events import ToolCallState
from alhena.values import Value

R_co = TypeVar("R_co", covariant=True)


class Message(Value, frozen=True, kw_only=True, tag_field="type", rename="camel"):
    """What all messages share."""


class Request(Protocol[R_co]):
    """A message that wants a response."""

    @property
    def correlation_id(self) -> str:
        """What the response repeats."""
        ...

    def refused(self, reason: str) -> R_co:
        """The response that means no, for this reason."""
        ...


class LastingRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an answer would make hold beyond its call.

    Either `rule`, under the keys of a `[[rule]]` table (`toml` is that table as it would be
    written), or the approval `mode` the session would go over to. `words` says it to people.
    `persist`: it is saved, and holds for later sessions, too. `shown` stands for what the question
    shows of the tools of a server; "" for other tools.
    """

    outcome: str
    words: str
    toml: str = ""
    rule: dict[str, Any] | None = None
    mode: str | None = None
    persist: bool = False
    shown: str = ""


class ToolConfirmationResponse(
    Message, frozen=True, kw_only=True, tag="tool-confirmation-response"
):
    """The answer to a call that waits. Without an `outcome`, `confirmed` means proceed_once, and
    not `confirmed` cancel. `payload` is what goes with the outcome. `requires_user_confirmation`:
    there was no answer at all, for this `reason`; that is never an approval."""

    correlation_id: str
    confirmed: bool
    outcome: str | None = None
    payload: dict[str, Any] | None = None
    requires_user_confirmation: bool = False
    reason: str = ""


class ToolConfirmationRequest(Message, frozen=True, kw_only=True, tag="tool-confirmation-request"):
    """A call waits for an answer.

    `name` is what the model called, `tool_name` the declared name of the tool; `args` are the
    parameters under their declared names, `details` what to show. `reason` and `parts` say why it
    is asked. `outcomes` are the answers it takes, `lasting` what those of them would leave that
    hold beyond the call. `modifiable`: {newContent} may come with an answer that lets the call run.
    `problem` says why it is asked once more.
    """

    call_id: str
    name: str
    tool_name: str
    args: dict[str, Any]
    details: Any
    correlation_id: str = ""
    server_name: str | None = None
    reason: str = ""
    parts: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ("proceed_once", "cancel")
    lasting: tuple[LastingRule, ...] = ()
    modifiable: bool = False
    problem: str = ""

    def refused(self, reason: str) -> ToolConfirmationResponse:
        """No answer; the call does not run."""
        return ToolConfirmationResponse(
            correlation_id=self.correlation_id,
            confirmed=False,
            requires_user_confirmation=True,
            reason=reason,
        )


class ToolPolicyRejection(Message, frozen=True, kw_only=True, tag="tool-policy-rejection"):
    """The policy does not let a call run; `message` is what the model is told."""

    call_id: str
    name: str
    tool_name: str
    message: str
    reason: str = ""


class UpdatePolicy(Message, frozen=True, kw_only=True, tag="update-policy"):
    """An answer holds beyond its call: the policy is to say so from now on (SCHED-10).

    `command_prefix` is set for shell commands, `mcp_name` for tools of a server; `rule`, `mode`,
    `persist` and `shown` are those of the `LastingRule` that was shown.
    """

    call_id: str
    tool_name: str
    outcome: str
    command_prefix: tuple[str, ...] = ()
    mcp_name: str | None = None
    rule: dict[str, Any] | None = None
    mode: str | None = None
    persist: bool = False
    shown: str = ""


class ToolCallsUpdate(Message, frozen=True, kw_only=True, tag="tool-calls-update"):
    """All calls of a batch, some of which have changed."""

    calls: tuple[ToolCallState, ...]


class AskUserResponse(Message, frozen=True, kw_only=True, tag="ask-user-response"):
    """Answers to questions, by the index of the question as text; what was left open is missing.
    `cancelled`: the questions were dismissed, or nobody answered."""

    correlation_id: str
    answers: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    cancelled: bool = False


class AskUserRequest(Message, frozen=True, kw_only=True, tag="ask-user-request"):
    """The model has questions to a person; each is an encoded `tools.confirmation.Question`."""

    correlation_id: str
    questions: tuple[dict[str, Any], ...]

    def refused(self, reason: str) -> AskUserResponse:
        """No answers."""
        del reason
        return AskUserResponse(correlation_id=self.correlation_id, cancelled=True)


class BusError(AlhenaError):
    """A request that cannot be made: its correlation id is taken."""

    kind = "bus"


REQUEST_TIMEOUT_S = 60.0
GRACE_S = 2.0

M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Message)
Listener = Callable[[M], Awaitable[object] | None]
"""Takes a message. It runs beside whoever published, and a failure of it is its own."""

_RESPONSES = (ToolConfirmationResponse, AskUserResponse)


class _Subscription:
    __slots__ = ("kind", "listener")

    def __init__(self, kind: type[Message], listener: Listener[Any]) -> None:
        self.kind = kind
        self.listener = listener


class _Open:
    """A request on its way: who has it, and what will be its answer."""

    __slots__ = ("answer", "answerer", "listeners", "request", "settled")

    def __init__(
        self,
        request: Request[Message],
        answer: asyncio.Future[Message],
        settled: Callable[[Any], None],
    ) -> None:
        self.request = request
        self.answer = answer
        self.settled = settled
        self.answerer: asyncio.Task[Any] | None = None
        self.listeners: dict[_Subscription, asyncio.Task[Any]] = {}

    def settle(self, response: Message) -> bool:
        """Takes the first answer; False when there was one."""
        if self.answer.done():
            return False
        self.answer.set_result(response)
        self.settled(response)
        return True


class MessageBus:
    """For one event loop and its thread. `report` is told, in words, of listeners that failed."""

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
        """A correlation id that no other request has."""
        self._count += 1
        return f"{self._token}-{self._count}"

    def subscribe(self, kind: type[M], listener: Listener[M]) -> Callable[[], None]:
        """Calls `listener` with every message of this type from now on. Returns what ends the
        subscription; a request that nobody else has is then refused."""
        subscription = _Subscription(kind, listener)
        self._subscriptions.append(subscription)

        def unsubscribe() -> None:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
                for request in tuple(self._open.values()):
                    task = request.listeners.get(subscription)
                    _leave(request, subscription, "whoever was asked has gone")
                    if task is not None and task is not asyncio.current_task():
                        task.cancel()

        return unsubscribe

    def has(self, kind: type[Message]) -> bool:
        """True when anybody listens for messages of this type."""
        return any(issubclass(kind, each.kind) for each in self._subscriptions)

    def publish(self, message: Message) -> int:
        """Gives a message to its listeners, without waiting for them. Returns how many there are;
        the request that a response answers counts, an answer that comes too late does not."""
        return len(self._start(message)) + self._answered(message)

    async def deliver(self, message: Message) -> int:
        """As `publish`, and returns when the listeners are done with it."""
        started = self._start(message)
        if started:
            await asyncio.wait(started.values())
        return len(started) + self._answered(message)

    async def request(
        self,
        message: Request[R],
        timeout_s: float | None = REQUEST_TIMEOUT_S,
        settled: Callable[[R], None] = lambda _response: None,
    ) -> R:
        """The first answer to a request; never raises for want of one.

        It is refused at once when nobody listens, when all that do have failed or gone, and after
        `timeout_s` seconds. Listeners that are still at it when there is an answer are cancelled
        before this returns; `settled` hears of the answer the moment it comes. Raises BusError when
        the correlation id belongs to another open request.
        """
        if message.correlation_id in self._open:
            raise BusError(f"the request {message.correlation_id!r} is open already.")
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        opened = self._open[message.correlation_id] = _Open(message, answer, settled)
        late: asyncio.TimerHandle | None = None
        if timeout_s is not None:
            refused = cast("Message", message.refused(_too_late(timeout_s)))
            late = asyncio.get_running_loop().call_later(timeout_s, opened.settle, refused)
        try:
            self._ask(opened)
            return cast("R", await answer)
        finally:
            if late is not None:
                late.cancel()
            del self._open[message.correlation_id]
            await self._stop(opened)

    async def aclose(self) -> None:
        """Waits a moment for listeners that are still at work, then cancels them."""
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
            opened.settle(opened.request.refused("nobody listens"))
        for subscription, task in started.items():
            task.add_done_callback(partial(_listened, opened, subscription))

    def _start(self, message: Message) -> dict[_Subscription, asyncio.Task[Any]]:
        """A task for each listener: what one of them raises stays in it."""
        started: dict[_Subscription, asyncio.Task[Any]] = {}
        for subscription in tuple(self._subscriptions):
            if isinstance(message, subscription.kind):
                task = asyncio.ensure_future(_heard(subscription.listener, message))
                self._tasks.add(task)
                task.add_done_callback(partial(self._ended, type(message)))
                started[subscription] = task
        return started

    def _answered(self, message: Message) -> bool:
        if not isinstance(message, _RESPONSES):
            return False
        opened = self._open.get(message.correlation_id)
        if opened is None or type(opened.request.refused("")) is not type(message):
            return False
        opened.answerer = asyncio.current_task()
        return opened.settle(message)

    def _ended(self, kind: type[Message], task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self.report(f"a listener for {kind.__name__} failed: {type(error).__name__}: {error}")

    async def _stop(self, opened: _Open) -> None:
        """Ends the listeners of a request, but for the one that answers: it may finish."""
        running = {
            task
            for task in opened.listeners.values()
            if task is not opened.answerer and not task.done()
        }
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=self._grace_s)


def _too_late(timeout_s: float) -> str:
    return f"nobody answered within {timeout_s:g} seconds"


async def _heard(listener: Listener[Any], message: Message) -> None:
    answer = listener(message)
    if isawaitable(answer):
        await answer


def _listened(opened: _Open, subscription: _Subscription, task: asyncio.Task[Any]) -> None:
    """A listener that has returned may still answer; one that has failed will not."""
    if task.cancelled():
        _leave(opened, subscription, "whoever was asked has given up")
    elif task.exception() is not None:
        _leave(opened, subscription, "whoever was asked has failed")


def _leave(opened: _Open, subscription: _Subscription, why: str) -> None:
    if opened.listeners.pop(subscription, None) is not None and not opened.listeners:
        opened.settle(opened.request.refused(why))
