"""Spans of a session, by the GenAI conventions of OpenTelemetry: a prompt, its turns, and in them
requests to models, tool calls, hooks and subagents."""

import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from alhena.config.home import BATCH_TASK
from alhena.events import (
    ApiErrorEvent,
    ApiRequestEvent,
    ApiResponseEvent,
    CallExceptionEvent,
    ConfirmationRequestEvent,
    ErrorEvent,
    Event,
    HookCallEvent,
    RunFinishedEvent,
    RunStartedEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
)
from alhena.models.catalogue import foreign_name
from alhena.telemetry.messages import input_messages, output_messages, system_parts, tool_result
from alhena.telemetry.records import (
    Redaction,
    agent_called,
    cache_counts,
    first_word,
    named_model,
)

SCOPE = "alhena"
_OPERATION = "gen_ai.operation.name"
_CONVERSATION = "gen_ai.conversation.id"
_ERROR = "error.type"
_GOOD_ENDS = frozenset({"done", "stopped", "blocked", "cancelled"})
_PROPAGATOR = TraceContextTextMapPropagator()


class Spans:
    """Makes the spans of a session from its events. Subscribe `feed` to them.

    A prompt is a child of the span that is current where it is given, or of TRACEPARENT in
    `environ`; without either it is a root. In a session of a batch it is a child of the task's.
    `agents` are the names of subagents. With `redaction` spans have the texts of requests and
    calls, without credentials. `context` is that of the event that was fed last.
    """

    def __init__(
        self,
        tracer: Tracer,
        session_id: str,
        environ: Mapping[str, str],
        *,
        agents: Collection[str] = frozenset(),
        redaction: Redaction | None = None,
    ) -> None:
        self._tracer = tracer
        self._agent_names = agents
        self._redaction = redaction
        self.context: Context | None = None
        self._session_id = session_id
        carrier = {name: environ.get(name.upper(), "") for name in ("traceparent", "tracestate")}
        self._outer = _PROPAGATOR.extract(carrier)
        self._task: Span | None = None
        if task := environ.get(BATCH_TASK):
            self._task = self._start_span("batch_task", self._above(), {"alhena.batch.task": task})
            self._outer = _inside(self._task)
        self._prompt: Span | None = None
        self._turn: Span | None = None
        self._answered = self._ended_well = False
        self._chats: dict[tuple[str, str], Span] = {}
        self._tools: dict[str, Span] = {}
        self._asked: set[str] = set()
        self._agents: dict[str, Span] = {}

    def traceparent(self, call_id: str) -> str:
        """The W3C context of a running call, "" for none."""
        span = self._agents.get(call_id) or self._tools.get(call_id)
        carrier: dict[str, str] = {}
        if span is not None:
            _PROPAGATOR.inject(carrier, trace.set_span_in_context(span))
        return carrier.get("traceparent", "")

    @contextmanager
    def inside_call(self, call_id: str) -> Generator[None]:
        """Makes the span of a running call the current one, for spans of the tool itself."""
        span = self._agents.get(call_id) or self._tools.get(call_id)
        if span is None:
            yield
            return
        token = attach(_inside(span))
        try:
            yield
        finally:
            detach(token)

    def feed(self, event: Event) -> None:
        """Takes an event. Never waits."""
        self.context = self._place(getattr(event, "parent_call_id", None))
        match event:
            case RunStartedEvent():
                self._start_prompt(event)
            case ApiRequestEvent():
                self._start_chat(event)
            case ApiResponseEvent() | ApiErrorEvent():
                self._end_chat(event)
            case ToolCallRequestEvent():
                self._start_tool(event)
            case ConfirmationRequestEvent() | ToolCallUpdateEvent():
                self._wait(event)
            case ToolCallResponseEvent():
                self._end_tool(event)
            case HookCallEvent():
                self._hook(event)
            case CallExceptionEvent():
                self._add_exception(event)
            case ErrorEvent():
                _fail(self._prompt, event.error_type, event.message)
            case RunFinishedEvent():
                self.close(event.reason)
            case _:
                pass

    def finish(self) -> None:
        """Ends the session's spans."""
        self.close()
        if self._task is not None:
            _end(self._task, well=self._ended_well)

    def close(self, reason: str = "interrupted") -> None:
        """Ends the spans of a prompt; those of work that was cut short are errors."""
        for span in (*self._chats.values(), *self._tools.values(), *self._agents.values()):
            _fail(span, "cancelled", "")
            span.end()
        for open_spans in (self._chats, self._tools, self._agents):
            open_spans.clear()
        self._asked.clear()
        well = reason in _GOOD_ENDS
        if self._turn is not None:
            _end(self._turn, well=well)
        if self._prompt is not None:
            self._prompt.set_attribute("alhena.finish_reason", reason)
            if not well and reason != "error":
                _fail(self._prompt, reason, "")
            if not well:
                _fail(self._task, reason, "")
            self._ended_well = well
            _end(self._prompt, well=well)
        self._prompt = self._turn = None

    def _start_prompt(self, event: RunStartedEvent) -> None:
        self._prompt = self._start_span(
            "invoke_agent",
            self._outer if self._task else self._above(),
            {_OPERATION: "invoke_agent", "gen_ai.agent.name": SCOPE} | named_model(event.model),
        )
        self.context = _inside(self._prompt)

    def _above(self) -> Context:
        """The span that is current, or else that of the environment."""
        current = get_current()
        inherits = trace.get_current_span(current).get_span_context().is_valid
        return current if inherits else self._outer

    def _start_chat(self, event: ApiRequestEvent) -> None:
        if event.role == "main" and self._prompt is not None:
            if self._answered and self._turn is not None and not event.continues:
                _end(self._turn)
                self._turn = None
            if self._turn is None:
                self._turn = self._start_span("turn", _inside(self._prompt), {})
            self._answered = False
        named = {_OPERATION: "chat", "alhena.role": event.role} | named_model(event.model)
        chat = self._start_span(
            f"chat {foreign_name(event.model)}",
            self._place(event.parent_call_id),
            named,
            SpanKind.CLIENT,
        )
        self.context = _inside(chat)
        if event.text is not None:
            self._add_text(chat, "gen_ai.input.messages", input_messages(event.text))
        if event.system is not None:
            self._add_text(chat, "gen_ai.system_instructions", system_parts(event.system))
        earlier = self._chats.pop(_chat(event), None)
        if earlier is not None:
            earlier.end()
        self._chats[_chat(event)] = chat

    def _end_chat(self, event: ApiResponseEvent | ApiErrorEvent) -> None:
        span = self._chats.pop(_chat(event), None)
        if span is None:
            return
        self.context = _inside(span)
        if isinstance(event, ApiErrorEvent):
            _fail(span, str(event.status or event.error_type), event.message)
            span.end()
        else:
            if event.text is not None:
                said = output_messages(event.text, event.finish_reason)
                self._add_text(span, "gen_ai.output.messages", said)
            self._answered = self._answered or event.role == "main"
            span.set_attributes(
                {
                    "gen_ai.response.model": event.model,
                    "gen_ai.usage.input_tokens": event.input_tokens,
                    "gen_ai.usage.output_tokens": event.output_tokens,
                    **cache_counts(event),
                    "gen_ai.response.finish_reasons": [event.finish_reason.lower()],
                }
            )
            _end(span)

    def _start_tool(self, event: ToolCallRequestEvent) -> None:
        named = {
            _OPERATION: "execute_tool",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.name": event.name,
            "gen_ai.tool.call.id": event.call_id,
        }
        place = self._place(event.parent_call_id)
        span = self._start_span(f"execute_tool {event.name}", place, named)
        self._tools[event.call_id] = span
        self.context = _inside(span)
        self._add_text(span, "gen_ai.tool.call.arguments", event.args)
        agent = agent_called(event.name, event.args, self._agent_names)
        if agent is not None:
            named = {_OPERATION: "invoke_agent", "gen_ai.agent.name": agent}
            self._agents[event.call_id] = self._start_span("invoke_agent", _inside(span), named)

    def _wait(self, event: ConfirmationRequestEvent | ToolCallUpdateEvent) -> None:
        """Marks when a person was asked, and when the call went on."""
        span = self._tools.get(event.call_id)
        if span is None:
            return
        if isinstance(event, ConfirmationRequestEvent):
            span.add_event("confirmation requested")
            self._asked.add(event.call_id)
        elif event.call_id in self._asked and event.status != "awaiting_approval":
            self._asked.discard(event.call_id)
            span.add_event("confirmation answered")

    def _end_tool(self, event: ToolCallResponseEvent) -> None:
        agent = self._agents.pop(event.call_id, None)
        span = self._tools.pop(event.call_id, None)
        self._asked.discard(event.call_id)
        if span is None:
            return
        self.context = _inside(span)
        span.set_attribute("alhena.decision", event.decision)
        if event.args is not None:
            self._add_text(span, "gen_ai.tool.call.arguments", event.args)
        if event.parts:
            self._add_text(span, "gen_ai.tool.call.result", tool_result(event.parts))
        well = event.outcome == "success"
        if not well:
            reason = event.failure_type or event.status
            _fail(agent, reason, event.command_failure)
            _fail(span, reason, event.command_failure)
        if agent is not None:
            _end(agent, well=well)
        _end(span, well=well)

    def _hook(self, event: HookCallEvent) -> None:
        begun = time.time_ns() - int(event.duration_ms * 1e6)
        span = self._tracer.start_span(
            f"hook {event.event}",
            self._place(event.parent_call_id),
            attributes={
                "gemini_cli.hook.name": first_word(event.name),
                "gemini_cli.hook.outcome": event.outcome,
                _CONVERSATION: self._session_id,
            },
            start_time=begun,
        )
        self.context = _inside(span)
        if not event.success:
            _fail(span, "hook_failed", "")
        _end(span, well=event.success)

    def _add_text(self, span: Span, name: str, value: Any) -> None:
        """Adds what people, models and tools wrote, as JSON, if it is wanted."""
        if self._redaction is not None and span.is_recording():
            plain = msgspec.json.decode(msgspec.json.encode(value))
            text = msgspec.json.encode(self._redaction.value(plain)).decode("utf-8")
            span.set_attribute(name, text)

    def _add_exception(self, event: CallExceptionEvent) -> None:
        """An exception event on the span of the call, or of the prompt, as the conventions have
        it."""
        span = self._tools.get(event.call_id) or self._prompt
        if span is not None:
            span.add_event(
                "exception",
                {
                    "exception.type": event.error_type,
                    "exception.message": event.message,
                    "exception.stacktrace": event.traceback,
                },
            )

    def _place(self, parent_call_id: str | None) -> Context:
        """The context of what a subagent does, or else of the current turn or prompt."""
        span = None
        if parent_call_id is not None:
            span = self._agents.get(parent_call_id) or self._tools.get(parent_call_id)
        span = span or self._turn or self._prompt
        return self._outer if span is None else _inside(span)

    def _start_span(
        self,
        name: str,
        context: Context,
        attributes: Mapping[str, Any],
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        own = {_CONVERSATION: self._session_id, **attributes}
        return self._tracer.start_span(name, context, kind=kind, attributes=own)


def _chat(event: ApiRequestEvent | ApiResponseEvent | ApiErrorEvent) -> tuple[str, str]:
    return event.role, event.prompt_id


def _inside(span: Span) -> Context:
    return trace.set_span_in_context(span)


def _end(span: Span, *, well: bool = True) -> None:
    """Ends a span, whose failure was told before unless all went `well`."""
    if well:
        span.set_status(Status(StatusCode.OK))
    span.end()


def _fail(span: Span | None, kind: str, message: str) -> None:
    if span is not None:
        span.set_attribute(_ERROR, kind)
        span.set_status(Status(StatusCode.ERROR, message or None))
