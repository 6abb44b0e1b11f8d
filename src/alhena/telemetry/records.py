"""Converts events to log records (TEL-01, TEL-02) and redacts credentials."""

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import PurePath
from typing import Any, cast

import msgspec

from alhena.config.environment import REDACTED, credentials, has_secret_name, without_secrets
from alhena.events import (
    ApiErrorEvent,
    ApiRequestEvent,
    ApiResponseEvent,
    CompressedEvent,
    ErrorEvent,
    Event,
    HookCallEvent,
    LoopCheckEvent,
    LoopDetectedEvent,
    ModelFallbackEvent,
    OutputsMaskedEvent,
    OutputTruncatedEvent,
    RetryEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
    UserMessageEvent,
)
from alhena.models.catalogue import foreign_name, provider_name
from alhena.telemetry.languages import mime_type, programming_language

PREFIX = "gemini_cli."
"""Prefix of event and metric names: the reference's, so that existing dashboards find them."""
DETAILS = "gen_ai.client.inference.operation.details"
"""The event of OpenTelemetry's conventions for a request to a model."""
DELEGATES = frozenset({"delegate_to_agent", "invoke_agent"})
"""Tools that run subagents."""


def agent_called(name: str, args: Mapping[str, Any], agents: Collection[str]) -> str | None:
    """The subagent that a call runs, by delegation or by its own name; None for any other call."""
    if name in DELEGATES:
        return str(args.get("agent_name", ""))
    return name if name in agents else None


def named_model(model: str) -> dict[str, str]:
    """The attributes of a model that is asked, which may have a prefix."""
    named = {"gen_ai.provider.name": provider_name(model)}
    return {**named, "gen_ai.request.model": foreign_name(model)}


def first_word(name: str) -> str:
    """The program name of a hook that is named by its command."""
    return (name.split() or [""])[0]


class TelemetryRecord(msgspec.Struct, frozen=True):
    """A log record: `name` without prefix, `body` as a sentence, the record's own attributes.
    `asked` names the provider and the model of a request, for metrics."""

    name: str
    body: str
    attributes: dict[str, Any]
    asked: dict[str, str] = {}

    @property
    def event_name(self) -> str:
        """The whole name."""
        return self.name if self.name == DETAILS else PREFIX + self.name


READING = ("read_file", "ReadFileTool")
_PATHS = ("absolute_path", "file_path", "path")


class KnownCall(msgspec.Struct, frozen=True):
    """Prompt id and arguments of a call; `proposed_args` if the model proposed different ones."""

    prompt_id: str = ""
    args: dict[str, Any] | None = None
    proposed_args: dict[str, Any] | None = None


def call_record(
    event: ToolCallResponseEvent, call: KnownCall, *, with_args: bool
) -> TelemetryRecord:
    """The record of an ended call."""
    success, duration = event.outcome == "success", round(event.duration_ms)
    decision = None if _is_undecided(event) else event.decision
    attributes: dict[str, Any] = {
        "function_name": event.name,
        "duration_ms": duration,
        "success": success,
        "prompt_id": call.prompt_id,
        "tool_type": event.tool_type,
        "content_length": event.content_length,
    }
    if decision is not None:
        attributes["decision"] = decision
    if event.mcp_server_name is not None:
        attributes["mcp_server_name"] = event.mcp_server_name
    if with_args and call.args is not None:
        attributes["function_args"] = pretty(call.args)
        if call.proposed_args is not None:
            attributes["proposed_function_args"] = pretty(call.proposed_args)
    if not success and (message := event.error or event.command_failure):
        attributes["error"] = attributes["error.message"] = message
    if event.failure_type is not None:
        attributes["error_type"] = attributes["error.type"] = event.failure_type
    stat = diff_stat(event.display)
    if stat and success:
        attributes["metadata"] = pretty(stat)
    decided = "" if decision is None else f" Decision: {decision}."
    said = f"Success: {str(success).lower()}. Duration: {duration}ms."
    return TelemetryRecord("tool_call", f"Tool call: {event.name}.{decided} {said}", attributes)


def _is_undecided(event: ToolCallResponseEvent) -> bool:
    """True when a call ended before anybody allowed or refused it."""
    return event.decision == "reject" and not event.denied


def truncation_record(event: OutputTruncatedEvent, call: KnownCall) -> TelemetryRecord:
    """The record of a result that was truncated for the model."""
    attributes = {
        "eventName": "tool_output_truncated",
        "tool_name": event.name,
        "original_content_length": event.original_length,
        "truncated_content_length": event.truncated_length,
        "threshold": event.threshold,
        "prompt_id": call.prompt_id,
    }
    return TelemetryRecord(
        "tool_output_truncated", f"Tool output truncated for {event.name}.", attributes
    )


def file_record(event: ToolCallResponseEvent, call: KnownCall) -> TelemetryRecord | None:
    """The record of the file that a successful call read or wrote; None if it did neither."""
    if event.status != "success":
        return None
    display = event.display
    lines: int | None = None
    if isinstance(display, dict) and display.get("type") == "file_diff":
        path = PurePath(display["filePath"])
        operation = "create" if display["originalContent"] is None else "update"
        lines = display["newContent"].count("\n") + 1
    elif event.name in READING and (given := _path(call.args)) is not None:
        path, operation = PurePath(given), "read"
    else:
        return None
    attributes: dict[str, Any] = {"tool_name": event.name, "operation": operation}
    attributes |= {"lines": lines, "mimetype": mime_type(path), "extension": path.suffix or None}
    attributes |= {"programming_language": programming_language(path), "prompt_id": call.prompt_id}
    known = {name: value for name, value in attributes.items() if value is not None}
    counted = "" if lines is None else f" Lines: {lines}."
    return TelemetryRecord("file_operation", f"File operation: {operation}.{counted}", known)


def diff_stat(display: str | dict[str, Any] | None) -> dict[str, int]:
    """Lines and characters added and removed, by the model and by a person.

    Characters are counted in the diff, without line ends; they are omitted if the diff is truncated
    or not the model's alone.
    """
    if not isinstance(display, dict) or "diffStat" not in display:
        return {}
    stat: dict[str, int] = display["diffStat"]
    found = {
        f"{who}_{what}_lines": stat.get(f"{key}_{what}_lines", 0)
        for who, key in (("model", "ai"), ("user", "user"))
        for what in ("added", "removed")
    }
    lines = display.get("fileDiff", "").split("\n")
    added, removed = (_lines_with_sign(lines, sign) for sign in "+-")
    counted = (len(added), len(removed), 0, 0)
    if counted == tuple(found.values()):
        found |= {
            "model_added_chars": sum(map(len, added)),
            "model_removed_chars": sum(map(len, removed)),
            "user_added_chars": 0,
            "user_removed_chars": 0,
        }
    return found


def _lines_with_sign(lines: list[str], sign: str) -> list[str]:
    """Lines of a unified diff with this sign, which is removed; the two headers are skipped."""
    hunks = next((at for at, line in enumerate(lines) if line.startswith("@@")), len(lines))
    return [line[1:] for line in lines[hunks:] if line.startswith(sign)]


def _path(args: dict[str, Any] | None) -> str | None:
    for name in _PATHS:
        value = (args or {}).get(name)
        if isinstance(value, str) and value:
            return value
    return None


def pretty(value: Any) -> str:
    """Formats a plain value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8")


class Redaction:
    """Redacts the credentials of this session, of at most `longest` characters, and texts that look
    like credentials."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        # Longest first: one credential may be part of another.
        self._own = sorted(credentials(environ), key=len, reverse=True)
        self.longest = len(self._own[0]) if self._own else 0

    def text(self, text: str) -> str:
        """`text` without credentials, with `?` for characters that UTF-8 cannot encode."""
        for value in self._own:
            text = text.replace(value, REDACTED)
        text = without_secrets(text)
        return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")

    def value(self, value: Any) -> Any:
        """Redacts every text in a plain value. Any text under the name of a secret counts as
        one."""
        match value:
            case str():
                return self.text(value)
            case dict():
                members = cast("dict[str, Any]", value)
                return {self.text(key): self._member(key, members[key]) for key in members}
            case list() | tuple():
                return [self.value(item) for item in cast("list[Any]", value)]
            case _:
                return value

    def _member(self, name: str, value: Any) -> Any:
        secret = isinstance(value, str) and value and has_secret_name(name)
        return REDACTED if secret else self.value(value)


_UNUSABLE = "invalid_response"
"""The `kind` of `chat.errors.InvalidResponseError`."""


class Translation:
    """Turns events into records. Remembers the current prompt and the arguments of running
    calls. `agents` are the names of subagents."""

    def __init__(
        self, redaction: Redaction, *, texts: bool, agents: Collection[str] = frozenset()
    ) -> None:
        self._texts = texts
        self._agent_names = agents
        self._requested: dict[tuple[str, str], str] = {}
        self._redaction = redaction
        self._prompt_id = ""
        self._calls: dict[str, KnownCall] = {}
        self._agents: dict[str, str] = {}
        self._model, self._attempt = "", 1
        self._made: dict[type[Event], Callable[[Any], Iterator[TelemetryRecord]]] = {
            UserMessageEvent: self._prompt,
            ApiRequestEvent: self._request,
            ApiResponseEvent: self._response,
            ApiErrorEvent: self._error,
            RetryEvent: self._retry,
            ToolCallRequestEvent: self._remember_call,
            ToolCallUpdateEvent: self._agent_started,
            ToolCallResponseEvent: self._call,
            OutputTruncatedEvent: self._truncation_records,
            HookCallEvent: self._hook,
            ErrorEvent: self._unusable_answer,
            ModelFallbackEvent: _fallback,
            CompressedEvent: _compression_records,
            OutputsMaskedEvent: _masking_records,
            LoopDetectedEvent: self._loop,
            LoopCheckEvent: _loop_check,
        }

    def takes(self, event: Event) -> bool:
        """True for an event that becomes records, or that later records need."""
        if isinstance(event, ToolCallUpdateEvent):
            return event.name in DELEGATES or event.name in self._agent_names
        return type(event) in self._made  # events have no subclasses

    def records(self, event: Event) -> Iterator[TelemetryRecord]:
        """The records of an event, redacted."""
        if self.takes(event):
            yield from map(self.redact_record, self._made[type(event)](event))

    def redact_record(self, record: TelemetryRecord) -> TelemetryRecord:
        """The redacted record, with the current prompt's id if it has none."""
        attributes: dict[str, Any] = self._redaction.value(record.attributes)
        if not attributes.get("prompt_id"):
            attributes.pop("prompt_id", None)
            if self._prompt_id:
                attributes["prompt_id"] = self._prompt_id
        body = self._redaction.text(record.body)
        return TelemetryRecord(record.name, body, attributes, record.asked)

    def _prompt(self, event: UserMessageEvent) -> Iterator[TelemetryRecord]:
        self._prompt_id, self._attempt = event.prompt_id, 1
        length = len(event.text)
        attributes: dict[str, Any] = {"prompt_length": length, "prompt_id": event.prompt_id}
        if self._texts:
            attributes["prompt"] = event.text
        yield TelemetryRecord("user_prompt", f"User prompt. Length: {length}.", attributes)

    def _request(self, event: ApiRequestEvent) -> Iterator[TelemetryRecord]:
        self._model = self._requested[event.role, event.prompt_id] = event.model
        attributes = {"model": event.model, "prompt_id": event.prompt_id, "role": event.role}
        if event.text is not None and self._texts:
            attributes["request_text"] = self._json(event.text)
        yield TelemetryRecord("api_request", f"API request to {event.model}.", attributes)

    def _response(self, event: ApiResponseEvent) -> Iterator[TelemetryRecord]:
        duration, asked = round(event.duration_ms), self._asked_model(event)
        attributes: dict[str, Any] = {
            "model": event.model,
            "duration_ms": duration,
            "input_token_count": event.input_tokens,
            "output_token_count": event.output_tokens,
            "cached_content_token_count": event.cached_tokens,
            "thoughts_token_count": event.thoughts_tokens,
            "tool_token_count": event.tool_tokens,
            "total_token_count": event.total_tokens,
            "prompt_id": event.prompt_id,
            "status_code": 200,
            "http.status_code": 200,
            "finish_reasons": [event.finish_reason.lower()] if event.finish_reason else [],
            "role": event.role,
        }
        if event.text is not None and self._texts:
            attributes["response_text"] = self._json(event.text)
        body = f"API response from {event.model}. Status: 200. Duration: {duration}ms."
        yield TelemetryRecord("api_response", body, attributes, asked)
        yield _details(event, asked)

    def _error(self, event: ApiErrorEvent) -> Iterator[TelemetryRecord]:
        duration, asked = round(event.duration_ms), self._asked_model(event)
        attributes: dict[str, Any] = {
            "model": event.model,
            "model_name": event.model,
            "duration": duration,
            "duration_ms": duration,
            "error": event.message,
            "error.message": event.message,
            "error.type": event.error_type,
            "prompt_id": event.prompt_id,
            "role": event.role,
        }
        if event.status is not None:
            attributes["status_code"] = attributes["http.status_code"] = event.status
        body = f"API error for {event.model}. Error: {event.message}. Duration: {duration}ms."
        yield TelemetryRecord("api_error", body, attributes, asked)
        yield _details(event, asked)

    def _asked_model(self, event: ApiResponseEvent | ApiErrorEvent) -> dict[str, str]:
        """The provider and the model that were asked."""
        model = self._requested.pop((event.role, event.prompt_id), event.model)
        return named_model(model)

    def _json(self, text: str) -> str:
        """Redacts the strings of a JSON text after decoding, so that escapes hide nothing."""
        value = self._redaction.value(msgspec.json.decode(text))
        return msgspec.json.encode(value).decode("utf-8")

    def _remember_call(self, event: ToolCallRequestEvent) -> Iterator[TelemetryRecord]:
        # Copied through JSON: a running tool may change its arguments.
        args = msgspec.json.decode(msgspec.json.encode(event.args))
        self._calls[event.call_id] = KnownCall(event.prompt_id, self._redaction.value(args))
        return iter(())

    def _truncation_records(self, event: OutputTruncatedEvent) -> Iterator[TelemetryRecord]:
        yield truncation_record(event, self._calls.get(event.call_id, KnownCall()))

    def _call(self, event: ToolCallResponseEvent) -> Iterator[TelemetryRecord]:
        call = self._calls.pop(event.call_id, KnownCall(self._prompt_id))
        if event.args is not None:
            call = KnownCall(call.prompt_id, self._redaction.value(event.args), call.args)
        file = file_record(event, call)
        if file is not None:
            yield file
        yield call_record(event, call, with_args=self._texts)
        agent = self._agents.pop(event.call_id, None)
        if agent is not None:
            yield _agent_finished(event, agent)
        if event.name == "exit_plan_mode" and event.status == "success" and not event.denied:
            yield TelemetryRecord("plan.execution", "Plan approved.", {})

    def _agent_started(self, event: ToolCallUpdateEvent) -> Iterator[TelemetryRecord]:
        """The start of a subagent, once."""
        if event.status != "executing" or event.call_id in self._agents:
            return
        args = self._calls.get(event.call_id, KnownCall()).args or {}
        name = agent_called(event.name, args, self._agent_names) or ""
        self._agents[event.call_id] = name
        named = {"agent_id": event.call_id, "agent_name": name}
        yield TelemetryRecord("agent.start", f"Agent {name} started.", named)

    def _unusable_answer(self, event: ErrorEvent) -> Iterator[TelemetryRecord]:
        """The end of a run whose model gave no usable answer."""
        if event.error_type != _UNUSABLE:
            return
        attributes: dict[str, Any] = {
            "model": self._model,
            "total_attempts": self._attempt,
            "final_error_type": _UNUSABLE,
        }
        said = f"All content retries failed after {self._attempt} attempts."
        yield TelemetryRecord("chat.content_retry_failure", said, attributes)

    def _loop(self, event: LoopDetectedEvent) -> Iterator[TelemetryRecord]:
        attributes: dict[str, Any] = {
            "prompt_id": event.prompt_id,
            "loop_type": event.kind,
            "action": event.action,
            "role": event.role,
        }
        if self._texts:
            attributes["detail"] = event.detail
        yield TelemetryRecord("loop_detected", f"Loop detected. Type: {event.kind}.", attributes)

    def _retry(self, event: RetryEvent) -> Iterator[TelemetryRecord]:
        """A content retry for an unusable response, a network retry for any other error."""
        self._attempt = event.attempt
        delay = round(event.delay_s * 1000)
        attributes: dict[str, Any] = {
            "model": event.model,
            "prompt_id": event.prompt_id,
            "role": event.role,
            "error_type": event.error_type,
        }
        if event.error_type == _UNUSABLE:
            attributes |= {"attempt_number": event.attempt - 2, "retry_delay_ms": delay}
            yield TelemetryRecord(
                "chat.content_retry", f"Content retry due to {event.reason}", attributes
            )
            return
        attributes |= {"attempt": event.attempt, "max_attempts": event.max_attempts}
        attributes["delay_ms"] = delay
        body = f"Network retry attempt {event.attempt} of {event.max_attempts}: {event.reason}"
        yield TelemetryRecord("network_retry_attempt", body, attributes)

    def _hook(self, event: HookCallEvent) -> Iterator[TelemetryRecord]:
        # A hook's name may be a whole command with private words in it.
        name = event.name if self._texts else first_word(event.name)
        duration = round(event.duration_ms)
        attributes: dict[str, Any] = {
            "hook_event_name": event.event,
            "hook_type": event.kind,
            "hook_name": name,
            "duration_ms": duration,
            "success": event.success,
        }
        if event.exit_code is not None:
            attributes["exit_code"] = event.exit_code
        if self._texts:
            known = {name: value for name, value in event.input.items() if name == "session_id"}
            attributes["hook_input"] = pretty(self._redaction.value(event.input) | known)
            attributes |= {"stdout": event.stdout, "stderr": event.stderr}
            output = _output(event)
            if output is not None:
                attributes["hook_output"] = pretty(self._redaction.value(output))
            if event.message and not event.success:
                attributes["error"] = event.message
        ended = "succeeded" if event.success else "failed"
        body = f"Hook call {event.event}.{name} {ended} in {duration}ms"
        yield TelemetryRecord("hook_call", body, attributes)


def _details(event: ApiResponseEvent | ApiErrorEvent, asked: dict[str, str]) -> TelemetryRecord:
    """A request by the GenAI conventions; its texts are in the records beside it. `asked` is the
    model that was asked."""
    attributes: dict[str, Any] = {"gen_ai.operation.name": "chat", **asked}
    if isinstance(event, ApiErrorEvent):
        attributes["error.type"] = str(event.status or event.error_type)
    else:
        reasons = [event.finish_reason.lower()] if event.finish_reason else []
        attributes |= {
            "gen_ai.response.model": event.model,
            "gen_ai.response.finish_reasons": reasons,
            "gen_ai.usage.input_tokens": event.input_tokens,
            "gen_ai.usage.output_tokens": event.output_tokens,
            **cache_counts(event),
        }
    return TelemetryRecord(DETAILS, f"GenAI operation details of {event.model}.", attributes)


def cache_counts(event: ApiResponseEvent) -> dict[str, int]:
    """The tokens of a request that were read from the service's cache and written to it, if any."""
    counts = {
        "gen_ai.usage.cache_read.input_tokens": event.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": event.cache_write_tokens,
    }
    return {name: count for name, count in counts.items() if count}


def _agent_finished(event: ToolCallResponseEvent, name: str) -> TelemetryRecord:
    data = event.data or {}
    reason = "GOAL" if event.status == "success" else event.status.upper()
    duration = round(event.duration_ms)
    attributes: dict[str, Any] = {
        "agent_id": event.call_id,
        "agent_name": name,
        "duration_ms": duration,
        "turn_count": data.get("turns", 0),
        "terminate_reason": str(data.get("termination_reason", reason)),
    }
    return TelemetryRecord("agent.finish", f"Agent {name} finished in {duration}ms.", attributes)


def _loop_check(event: LoopCheckEvent) -> Iterator[TelemetryRecord]:
    """The verdict of the models that were asked about a loop."""
    attributes: dict[str, Any] = {
        "prompt_id": event.prompt_id,
        "flash_confidence": event.confidence,
        "flash_model": event.model,
    }
    if event.second_model:
        attributes["main_model"] = event.second_model
        attributes["main_model_confidence"] = event.second_confidence
    body = f"LLM loop check. Flash confidence: {event.confidence:.2f}."
    yield TelemetryRecord("llm_loop_check", body, attributes)


def _fallback(event: ModelFallbackEvent) -> Iterator[TelemetryRecord]:
    attributes: dict[str, Any] = {
        "model": event.model,
        "instead_of": event.instead_of,
        "prompt_id": event.prompt_id,
        "role": event.role,
        "error_type": event.error_type,
    }
    yield TelemetryRecord("flash_fallback", f"Switching to {event.model} as fallback.", attributes)


def _compression_attributes(event: CompressedEvent | OutputsMaskedEvent) -> dict[str, Any]:
    return {
        "tokens_before": event.original_tokens,
        "tokens_after": event.new_tokens,
        "role": event.role,
    }


def _masking_records(event: OutputsMaskedEvent) -> Iterator[TelemetryRecord]:
    attributes = _compression_attributes(event) | {"masked_count": event.results}
    yield TelemetryRecord(
        "tool_output_masking", f"{event.results} tool outputs masked.", attributes
    )


def _compression_records(event: CompressedEvent) -> Iterator[TelemetryRecord]:
    attributes = _compression_attributes(event) | {"status": event.status, "trigger": event.trigger}
    body = f"Chat compression: {event.original_tokens} to {event.new_tokens} tokens."
    yield TelemetryRecord("chat_compression", body, attributes)


def _output(event: HookCallEvent) -> dict[str, Any] | None:
    """The hook's JSON output, or the object equivalent to its plain text and exit code; None for no
    output or truncated JSON."""
    try:
        return msgspec.json.decode(event.stdout, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        said = event.stdout.strip() or event.stderr.strip()
    if not said or said.startswith("{"):
        return None
    if event.outcome == "block":
        return {"decision": "deny", "reason": event.message}
    return {"decision": "allow", "systemMessage": said}
