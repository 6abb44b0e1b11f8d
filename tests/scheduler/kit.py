"""Small real tools and a scheduler around them that records every event."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from alhena.events import (
    ConfirmationRequestEvent,
    Event,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
)
from alhena.policy.model import Decision, PolicyCall, PolicyOutcome, PolicyRule
from alhena.scheduler.bus import MessageBus, ToolConfirmationRequest
from alhena.scheduler.bus_approver import BusApprover
from alhena.scheduler.confirmation import Confirmations
from alhena.scheduler.executor import Executor
from alhena.scheduler.gate import CallPolicy, Check, Watch
from alhena.scheduler.question import Approver
from alhena.scheduler.scheduler import Scheduler
from alhena.scheduler.states import CompletedToolCall
from alhena.tools.contract import (
    ConfirmationDetails,
    ExecutionContext,
    InfoConfirmation,
    Kind,
    ToolFailure,
    ToolLocation,
    ToolResult,
)
from alhena.tools.params import prepare
from alhena.tools.registry import ToolRegistry
from alhena.wire.content import ToolCallRequestInfo
from alhena.wire.request import FunctionDeclaration

Body = Callable[[dict[str, Any], ExecutionContext], Awaitable[ToolResult]]
DETAILS = InfoConfirmation(title="Really?", prompt="It will happen.")


async def echo(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
    return ToolResult(llm_content=f"got {params.get('text', '')}", display="shown")


async def crash(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
    raise OSError("disk\non fire")


async def forever(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
    await asyncio.Event().wait()
    raise AssertionError("nothing sets this event")


class SmallTool:
    """A tool whose body is a coroutine function; `asks` is what its confirmation shows."""

    is_output_markdown = False

    def __init__(
        self,
        name: str,
        body: Body = echo,
        *,
        kind: Kind = Kind.READ,
        asks: ConfirmationDetails | None = DETAILS,
        live: bool = False,
    ) -> None:
        self.name = name
        self.display_name = name.title()
        self.description = f"Does {name}."
        self.kind = kind
        self.can_update_output = live
        self.parameter_schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        self.body = body
        self.asks = asks

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=self.parameter_schema,
        )

    def build(self, params: dict[str, Any]) -> "SmallCall | ToolFailure":
        prepared = prepare(self.name, self.parameter_schema, params)
        return prepared if isinstance(prepared, ToolFailure) else SmallCall(self, prepared)


class SmallCall:
    def __init__(self, tool: SmallTool, params: dict[str, Any]) -> None:
        self.tool = tool
        self.params = params

    def describe(self) -> str:
        return f"{self.tool.name} {self.params.get('text', '')}".strip()

    def locations(self) -> tuple[ToolLocation, ...]:
        return ()

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails | None:
        return self.tool.asks

    async def execute(self, context: ExecutionContext) -> ToolResult:
        return await self.tool.body(self.params, context)


def deciding(**outcomes: PolicyOutcome | Decision) -> Callable[[PolicyCall], Decision]:
    """A policy by tool name; what is not named is allowed."""

    def decide(call: PolicyCall) -> Decision:
        outcome = outcomes.get(call.names[0], PolicyOutcome.ALLOW)
        if isinstance(outcome, Decision):
            return outcome
        rule = PolicyRule(decision=outcome, priority=500)
        return Decision(outcome=outcome, reason=f"rule for {call.names[0]}", rule=rule)

    return decide


class Stage:
    """A scheduler over `tools`, its events in order, and hooks on them."""

    def __init__(
        self,
        *tools: SmallTool,
        decide: Callable[[PolicyCall], Decision] | None = None,
        executor: Executor | None = None,
        check: Check | None = None,
        approver: Approver | None = None,
        watch: Watch | None = None,
        timeout_s: float | None = None,
        **asking: Any,
    ) -> None:
        self.reports: list[str] = []
        self.bus = MessageBus(self.reports.append)
        self.listeners = BusApprover(self.bus, timeout_s)
        if approver is None:  # whoever uses the stage answers through `confirm` or the bus
            self.bus.subscribe(ToolConfirmationRequest, lambda message: None)
            approver = self.listeners.approve
        self.events: list[Event] = []
        self.on_event: Callable[[Event], None] = lambda event: None
        self.registry = ToolRegistry(tools)
        self.executor = executor or Executor(Path.cwd())
        self.scheduler = Scheduler(
            self.registry,
            CallPolicy(decide or deciding(), check, watch),
            self.emit,
            self.executor,
            asking=Confirmations(approve=approver, **asking),
        )

    def emit(self, event: Event) -> None:
        msgspec.json.encode(event)
        self.events.append(event)
        self.listeners.feed(event)
        self.on_event(event)

    async def run(self, *calls: str | ToolCallRequestInfo) -> list[CompletedToolCall]:
        return await self.scheduler.schedule(requests(*calls))

    def statuses(self, call_id: str) -> list[str]:
        return [
            event.status
            for event in self.events
            if isinstance(event, ToolCallUpdateEvent) and event.call_id == call_id
        ]

    def responses(self) -> list[ToolCallResponseEvent]:
        return [event for event in self.events if isinstance(event, ToolCallResponseEvent)]

    def questions(self) -> list[ConfirmationRequestEvent]:
        return [event for event in self.events if isinstance(event, ConfirmationRequestEvent)]


def request(call_id: str, name: str, **args: Any) -> ToolCallRequestInfo:
    return ToolCallRequestInfo(call_id=call_id, name=name, args=args, prompt_id="p1")


def requests(*calls: str | ToolCallRequestInfo) -> list[ToolCallRequestInfo]:
    """Requests with the ids c0, c1, … for the names among `calls`."""
    return [
        request(f"c{index}", call) if isinstance(call, str) else call
        for index, call in enumerate(calls)
    ]


def response_of(call: CompletedToolCall) -> dict[str, Any]:
    """The model's response to a call; checks that it is the only one."""
    answers = [part.function_response for part in call.response.response_parts]
    (answer,) = [each for each in answers if each is not None]
    assert answers[0] is answer
    assert (answer.id, answer.name) == (call.request.call_id, call.request.name)
    return answer.response
