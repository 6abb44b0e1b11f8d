"""Events as log records (TEL-01, TEL-02): what is told of each, under the reference's names."""

from collections.abc import Iterator
from typing import Any

import msgspec

from alhena.events import (
    ApiErrorEvent,
    ApiRequestEvent,
    ApiResponseEvent,
    CompressedEvent,
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
    UserMessageEvent,
)
from alhena.telemetry.record import Record, first_word
from alhena.telemetry.redaction import Redaction
from alhena.telemetry.tool_records import (
    KnownCall,
    call_record,
    file_record,
    pretty,
    truncation_record,
)

_UNUSABLE = "invalid_response"
"""The kind of `chat.errors.InvalidResponseError`."""

TOLD: frozenset[type[Event]] = frozenset(
    (
        UserMessageEvent,
        ApiRequestEvent,
        ApiResponseEvent,
        ApiErrorEvent,
        ToolCallRequestEvent,
        ToolCallResponseEvent,
        OutputTruncatedEvent,
        HookCallEvent,
        RetryEvent,
        ModelFallbackEvent,
        CompressedEvent,
        OutputsMaskedEvent,
        LoopDetectedEvent,
        LoopCheckEvent,
    )
)
"""The events that are told of, or needed to tell of others."""


class Translation:
    """Remembers which prompt is at work and what the calls under way were asked for."""

    def __init__(self, redaction: Redaction, *, texts: bool) -> None:
        self._texts = texts
        self._redaction = redaction
        self._prompt_id = ""
        self._calls: dict[str, KnownCall] = {}

    def records(self, event: Event) -> Iterator[Record]:
        """The records of an event, without credentials."""
        for record in self._told(event):
            yield self.cleaned(record)

    def cleaned(self, record: Record) -> Record:
        """A record without credentials, and with the prompt it belongs to where that is known."""
        attributes: dict[str, Any] = self._redaction.value(record.attributes)
        if not attributes.get("prompt_id"):
            attributes.pop("prompt_id", None)
            if self._prompt_id:
                attributes["prompt_id"] = self._prompt_id
        return Record(record.name, self._redaction.text(record.body), attributes)

    def _told(self, event: Event) -> Iterator[Record]:
        match event:
            case UserMessageEvent():
                self._prompt_id = event.prompt_id
                yield self._prompt(event)
            case ApiRequestEvent():
                yield self._request(event)
            case ApiResponseEvent():
                yield self._response(event)
            case ApiErrorEvent():
                yield self._error(event)
            case ToolCallRequestEvent():
                self._calls[event.call_id] = self._known(event)
            case ToolCallResponseEvent():
                yield from self._call(event)
            case OutputTruncatedEvent():
                yield truncation_record(event, self._calls.get(event.call_id, KnownCall()))
            case HookCallEvent():
                yield self._hook(event)
            case RetryEvent() | ModelFallbackEvent():
                yield _retry(event) if isinstance(event, RetryEvent) else _fallback(event)
            case CompressedEvent() | OutputsMaskedEvent():
                yield _shortened(event)
            case LoopDetectedEvent() | LoopCheckEvent():
                yield self._loop(event)
            case _:
                pass

    def _prompt(self, event: UserMessageEvent) -> Record:
        length = len(event.text)
        attributes: dict[str, Any] = {"prompt_length": length, "prompt_id": event.prompt_id}
        if self._texts:
            attributes["prompt"] = event.text
        return Record("user_prompt", f"User prompt. Length: {length}.", attributes)

    def _request(self, event: ApiRequestEvent) -> Record:
        attributes = {"model": event.model, "prompt_id": event.prompt_id, "role": event.role}
        if event.text is not None and self._texts:
            attributes["request_text"] = self._json(event.text)
        return Record("api_request", f"API request to {event.model}.", attributes)

    def _response(self, event: ApiResponseEvent) -> Record:
        duration = round(event.duration_ms)
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
        return Record("api_response", body, attributes)

    def _error(self, event: ApiErrorEvent) -> Record:
        duration = round(event.duration_ms)
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
        return Record("api_error", body, attributes)

    def _json(self, text: str) -> str:
        """A JSON text without credentials: within its strings they are found as they are."""
        value = self._redaction.value(msgspec.json.decode(text))
        return msgspec.json.encode(value).decode("utf-8")

    def _known(self, event: ToolCallRequestEvent) -> KnownCall:
        # A copy made in one go: the arguments are the tool's, which may be at work on them.
        args = msgspec.json.decode(msgspec.json.encode(event.args))
        return KnownCall(event.prompt_id, self._redaction.value(args))

    def _call(self, event: ToolCallResponseEvent) -> Iterator[Record]:
        call = self._calls.pop(event.call_id, KnownCall(self._prompt_id))
        if event.args is not None:
            call = KnownCall(call.prompt_id, self._redaction.value(event.args), call.args)
        file = file_record(event, call)
        if file is not None:
            yield file
        yield call_record(event, call, with_args=self._texts)

    def _loop(self, event: LoopDetectedEvent | LoopCheckEvent) -> Record:
        """A loop that was found, or what models that were asked said of one."""
        attributes: dict[str, Any] = {"prompt_id": event.prompt_id}
        if isinstance(event, LoopCheckEvent):
            attributes |= {"flash_confidence": event.confidence, "flash_model": event.model}
            if event.second_model:
                attributes["main_model"] = event.second_model
                attributes["main_model_confidence"] = event.second_confidence
            body = f"LLM loop check. Flash confidence: {event.confidence:.2f}."
            return Record("llm_loop_check", body, attributes)
        attributes |= {"loop_type": event.kind, "action": event.action, "role": event.role}
        if self._texts:
            attributes["detail"] = event.detail
        return Record("loop_detected", f"Loop detected. Type: {event.kind}.", attributes)

    def _hook(self, event: HookCallEvent) -> Record:
        # A name may be a whole command, with words of the user's in it.
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
            attributes["hook_input"] = pretty(self._redaction.value(event.input))
            attributes |= {"stdout": event.stdout, "stderr": event.stderr}
            output = _output(event)
            if output is not None:
                attributes["hook_output"] = pretty(self._redaction.value(output))
            if event.message and not event.success:
                attributes["error"] = event.message
        ended = "succeeded" if event.success else "failed"
        body = f"Hook call {event.event}.{name} {ended} in {duration}ms"
        return Record("hook_call", body, attributes)


def _retry(event: RetryEvent) -> Record:
    """An answer that could not be used is content; anything else never came."""
    delay = round(event.delay_s * 1000)
    attributes: dict[str, Any] = {
        "model": event.model,
        "prompt_id": event.prompt_id,
        "role": event.role,
        "error_type": event.error_type,
    }
    if event.error_type == _UNUSABLE:
        attributes |= {"attempt_number": event.attempt - 2, "retry_delay_ms": delay}
        return Record("chat.content_retry", f"Content retry due to {event.reason}", attributes)
    attributes |= {"attempt": event.attempt, "max_attempts": event.max_attempts}
    attributes["delay_ms"] = delay
    body = f"Network retry attempt {event.attempt} of {event.max_attempts}: {event.reason}"
    return Record("network_retry_attempt", body, attributes)


def _fallback(event: ModelFallbackEvent) -> Record:
    attributes: dict[str, Any] = {
        "model": event.model,
        "instead_of": event.instead_of,
        "prompt_id": event.prompt_id,
        "role": event.role,
        "error_type": event.error_type,
    }
    return Record("flash_fallback", f"Switching to {event.model} as fallback.", attributes)


def _shortened(event: CompressedEvent | OutputsMaskedEvent) -> Record:
    before, after = event.original_tokens, event.new_tokens
    attributes: dict[str, Any] = {
        "tokens_before": before,
        "tokens_after": after,
        "role": event.role,
    }
    if isinstance(event, OutputsMaskedEvent):
        attributes["masked_count"] = event.results
        return Record("tool_output_masking", f"{event.results} tool outputs masked.", attributes)
    attributes |= {"status": event.status, "trigger": event.trigger}
    return Record("chat_compression", f"Chat compression: {before} to {after} tokens.", attributes)


def _output(event: HookCallEvent) -> dict[str, Any] | None:
    """The JSON object that a hook wrote, or the one that its words and exit code stand for; None
    when it wrote nothing, or an object of which not all is here."""
    try:
        return msgspec.json.decode(event.stdout, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        said = event.stdout.strip() or event.stderr.strip()
    if not said or said.startswith("{"):
        return None
    if event.outcome == "block":
        return {"decision": "deny", "reason": event.message}
    return {"decision": "allow", "systemMessage": said}
