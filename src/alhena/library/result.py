"""`Run`, a prompt on its way to its answer, and `Result`, what came of it."""

import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

from alhena.agent.limits import Usage
from alhena.agent.run import EventStream
from alhena.errors import AlhenaError, ConfigError, InterruptedRunError
from alhena.events import (
    ContentEvent,
    Event,
    RunFinishedEvent,
    RunStartedEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    WarningEvent,
)
from alhena.scheduler.question import ConfirmationRequest
from alhena.values import FailedCall, Value
from alhena.wire.content import Content

if TYPE_CHECKING:
    from alhena.agent.session import Session
    from alhena.agent.waiting import WaitingRun
    from alhena.library.program import AgentProgram

T = TypeVar("T")
StopReason = Literal["done", "limit", "interrupted", "blocked", "cancelled", "cut", "pending"]

_STOPS: dict[str, StopReason] = {
    "done": "done",
    "stopped": "blocked",
    "blocked": "blocked",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "pending": "pending",
}


class DeniedCall(Value, frozen=True, kw_only=True):
    """A tool call that a rule or a person denied."""

    call_id: str
    name: str
    args: dict[str, Any]
    reason: str


class Result(Value, Generic[T], frozen=True, kw_only=True):
    """The result of a run.

    `output` is the value asked for by `output=`, otherwise the text. `text` is the text of the last
    answer. `usage` is that of this run, subagents included. `stop_reason` is "done", "blocked" (a
    hook ended the run), "cancelled" (a person refused a call without words), "cut" (the service
    ended the answer early; `warnings` say why), and, in the `result` of an error, "limit" or
    "interrupted". With "pending", `pending` are the calls that wait for answers: `state` is
    what `Agent.resume` continues with, and `output` is the text so far. `handed_over` is the value
    of a subagent with `handoff`, whose answer ended the run and is `text`. `failed` has the calls
    whose function raised, those of subagents too. `new_contents` are what the run added to the
    history.
    """

    output: T
    text: str
    usage: Usage
    stop_reason: StopReason
    session_id: str
    warnings: tuple[str, ...] = ()
    denied: tuple[DeniedCall, ...] = ()
    failed: tuple[FailedCall, ...] = ()
    new_contents: tuple[Content, ...] = ()
    pending: tuple[ConfirmationRequest, ...] = ()
    state_json: bytes = b""
    handed_over: Any = None

    def state(self) -> bytes:
        """The run as JSON, for `Agent.resume` in this or another process: the conversation and the
        calls that wait. Raises ConfigError for a run that does not wait."""
        if not self.state_json:
            raise ConfigError(
                f'this run does not wait: its stop_reason is "{self.stop_reason}".',
                remedy='Only a run with the stop_reason "pending" has a state.',
            )
        return self.state_json

    def __repr__(self) -> str:
        return f"Result(output={self.output!r:.200}, stop_reason={self.stop_reason!r})"


def warnings_of(event: Event) -> tuple[str, ...]:
    """The warnings for a person in an event."""
    if isinstance(event, WarningEvent):
        return (event.message,)
    return event.notices if isinstance(event, RunStartedEvent) else ()


class ResultCollector:
    """Collects the result of a run from its events. `output` returns the value that the run was
    asked for; without it that is the text."""

    def __init__(
        self,
        program: "AgentProgram",
        output: Callable[[], Any] | None = None,
        resumes: "WaitingRun | None" = None,
    ) -> None:
        """`resumes`: the run that waited before."""
        self._program = program
        self.result: Result[Any] | None = None
        self._output = output
        self._resumes = resumes
        self._earlier = None if resumes is None else resumes.state.spent
        self._warnings: list[str] = []
        self._denied: list[DeniedCall] = []
        self._args: dict[str, dict[str, Any]] = {}
        if resumes is not None:
            self._args |= {each.call_id: each.args for each in resumes.state.requests}

    def start(self, session: "Session") -> Callable[[Event], None]:
        """Returns the function that takes the events of a run of `session`, which begins now."""
        self._session = session
        self._usage = session.bench.spending.usage()
        contents = session.chat.history.contents
        self._last, self._length = (contents[-1] if contents else None), len(contents)
        return self.feed

    def feed(self, event: Event) -> None:
        """Takes an event."""
        self._warnings += warnings_of(event)
        match event:
            case ToolCallRequestEvent():
                self._args[event.call_id] = event.args
            case ToolCallResponseEvent():
                args = self._args.pop(event.call_id, {})
                if event.denied:
                    self._denied.append(
                        DeniedCall(
                            call_id=event.call_id,
                            name=event.name,
                            args=event.args or args,
                            reason=event.error or "",
                        )
                    )
            case RunFinishedEvent():
                self.result = self._build_result(event)
            case _:
                pass

    def _build_result(self, event: RunFinishedEvent) -> Result[Any]:
        stop = _STOPS.get(event.reason, "limit")
        if stop == "done" and event.finish_reason not in ("", "STOP"):
            stop = "cut"
            self._warnings.append(f"the service ended the answer early: {event.finish_reason}")
        entries = self._session.chat.history.contents
        kept = self._length if entries[self._length - 1 : self._length] == (self._last,) else 0
        if self._resumes is not None:
            kept = len(self._resumes.state.contents)
        usage = self._session.bench.spending.usage() - self._usage
        if self._earlier is not None:
            usage = usage + self._earlier.usage
        waiting = self._session.guard.waiting if stop == "pending" else None
        state = b""
        if waiting is not None:
            from alhena.agent.waiting import EarlierUsage, encode_state

            before = 0.0 if self._earlier is None else self._earlier.seconds
            seconds = round(before + event.duration_ms / 1000, 3)
            spent = EarlierUsage(turns=event.turns, seconds=seconds, usage=usage)
            contents, name = self._session.chat.export_contents(), self._session.session_id
            asks = self._output is not None
            state = encode_state(waiting, contents, name, spent, asks=asks)
        text, value = self._read_handoff(event)
        output: Any = text
        if self._output is not None and waiting is None:
            output = self._output() if value is None else value
        return Result(
            output=output,
            text=text,
            handed_over=value,
            usage=usage,
            stop_reason=stop,
            session_id=self._session.session_id,
            warnings=tuple(self._warnings),
            denied=tuple(self._denied),
            failed=tuple(self._program.failed),
            new_contents=self._session.chat.export_contents(kept),
            pending=() if waiting is None else waiting.requests,
            state_json=state,
        )

    def _read_handoff(self, event: RunFinishedEvent) -> tuple[str, Any]:
        """The text of the run, and the value of the subagent that ended it, if one did."""
        call = self._session.guard.handed
        data = None if call is None else call.response.data
        if call is None or data is None:
            return event.text, None
        for agent in self._session.bench.agents.local:
            if agent.name == data["agent"] and agent.handoff is not None:
                return str(call.response.result_display or ""), agent.handoff.read(data["result"])
        return event.text, None


Release = Callable[[], Awaitable[None]]
Hold = Callable[[], Awaitable[Release | None]]
"""Opens the agent of a run, if it is not open; returns what closes it then."""


class Run(AsyncIterator[Event], Generic[T]):
    """A prompt on its way to its answer: await it for its Result, or iterate over its events and
    await it afterwards. `async with` it to stop it when the block is left early.

    It starts when the first event is asked for. When it fails, its ErrorEvent and RunFinishedEvent
    come first, then the AlhenaError is raised; `error.result` is the Result until then.
    """

    def __init__(
        self,
        events: EventStream,
        collector: ResultCollector,
        hold: Hold,
        cause: Callable[[AlhenaError], Exception],
        output: Any = str,
    ) -> None:
        self._output = output
        self._events = events
        self._collector = collector
        self._hold = hold
        self._cause = cause
        self._started = False
        self._release: Release | None = None
        self._error: Exception | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if not self._started:
            self._started = True
            self._release = await self._hold()
        try:
            return await anext(self._events)
        except BaseException as error:
            await self._let_go()
            if not isinstance(error, AlhenaError):
                raise
            self._error = self._cause(error)
            if isinstance(self._error, AlhenaError):
                self._error.result = self._collector.result
            raise self._error from self._error.__cause__

    def __await__(self) -> Generator[Any, None, Result[T]]:
        return self._wait_for_result().__await__()

    async def _wait_for_result(self) -> Result[T]:
        async for _ in self:
            pass
        if self._error is not None:
            raise self._error
        if self._collector.result is None:
            raise InterruptedRunError("the run was left before its end.")
        return self._collector.result

    def partial(self) -> AsyncIterator[T]:
        """The output while it grows: values of the run's `output`, in which what has not arrived
        is None (in a TypedDict absent), then the whole value. Raises what the run raises.

            async for recipe in agent.run("…", output=Recipe).partial():
                print(recipe.title)
        """
        from alhena.library.partial import grow

        return grow(self, self._output)

    async def stream_text(self) -> AsyncIterator[str]:
        """The texts of the run in pieces, as they come. Raises what the run raises; leaving the
        loop ends the run. A request that is repeated after a failure may repeat pieces: the events
        tell of it (`retract`).

            async for text in agent.run("…").stream_text():
                print(text, end="")
        """
        async with self:
            async for event in self:
                if isinstance(event, ContentEvent):
                    yield event.text

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the run: tools are stopped and every call has its response when this returns."""
        self._started = True
        try:
            await self._events.aclose()
        finally:
            await self._let_go()

    async def _let_go(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            await release()

    def __del__(self) -> None:
        if not self._started:
            warnings.warn(
                "a run was never started: await it, or iterate over it.",
                RuntimeWarning,
                stacklevel=2,
            )
