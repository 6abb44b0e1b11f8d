"""A run's events as text, as one JSON document, or as JSON lines, with statistics."""

import time
from collections.abc import Callable
from typing import Any, Protocol, assert_never

import msgspec

from alhena.display_text import one_line, without_controls
from alhena.errors import AlhenaError
from alhena.events import (
    ApiErrorEvent,
    ApiResponseEvent,
    CompressedEvent,
    ContentEvent,
    Event,
    FinishedEvent,
    LoopDetectedEvent,
    ModelFallbackEvent,
    RetryEvent,
    RunFinishedEvent,
    RunStartedEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    UserMessageEvent,
    WarningEvent,
    timestamp,
)
from alhena.frontends.shared.arguments import OutputFormat
from alhena.frontends.shared.streams import json_document


class RunStats:
    """Feed it every event; `as_json` is the `stats` of JSON output, `as_stream` of stream-json."""

    def __init__(self) -> None:
        self._models: dict[str, dict[str, Any]] = {}
        self._by_name: dict[str, dict[str, Any]] = {}
        self._tools = _tool_counts(_TOTAL_KEYS)
        self._lines = {"totalLinesAdded": 0, "totalLinesRemoved": 0}

    def feed(self, event: Event) -> None:
        """Counts an event; most are of no account."""
        match event:
            case ApiResponseEvent():
                self._count_response(event)
            case ApiErrorEvent():
                api = self._model(event.model)["api"]
                api["totalRequests"] += 1
                api["totalErrors"] += 1
                api["totalLatencyMs"] += event.duration_ms
                by_type = api["errorsByType"]
                by_type[event.error_type] = by_type.get(event.error_type, 0) + 1
            case ToolCallResponseEvent():
                self._count_tool(event)
            case _:
                pass

    def as_json(self) -> dict[str, Any]:
        """{models, tools, files}; durations in milliseconds."""
        return {
            "models": self._models,
            "tools": self._tools | {"byName": self._by_name},
            "files": self._lines,
        }

    def as_stream(self, duration_ms: float) -> dict[str, Any]:
        """The flat totals of stream-json, with the same per model."""
        models = {name: _flat(model["tokens"]) for name, model in self._models.items()}
        keys = ("total_tokens", "input_tokens", "output_tokens", "cached", "input")
        totals: dict[str, Any] = {key: sum(model[key] for model in models.values()) for key in keys}
        written = sum(model.get("cache_write", 0) for model in models.values())
        totals |= {"cache_write": written} if written else {}
        totals["duration_ms"] = round(duration_ms)
        totals["tool_calls"] = self._tools["totalCalls"]
        totals["models"] = models
        return totals

    def _model(self, name: str) -> dict[str, Any]:
        if name not in self._models:
            api: dict[str, Any] = {
                "totalRequests": 0,
                "totalErrors": 0,
                "totalLatencyMs": 0.0,
                "errorsByType": {},
            }
            keys = ("input", "prompt", "candidates", "total", "cached", "thoughts", "tool")
            self._models[name] = {"api": api, "tokens": dict.fromkeys(keys, 0)}
        return self._models[name]

    def _count_response(self, event: ApiResponseEvent) -> None:
        model = self._model(event.model)
        model["api"]["totalRequests"] += 1
        model["api"]["totalLatencyMs"] += event.duration_ms
        tokens = model["tokens"]
        tokens["prompt"] += event.input_tokens
        tokens["candidates"] += event.output_tokens
        tokens["total"] += event.total_tokens
        tokens["cached"] += event.cached_tokens
        tokens["thoughts"] += event.thoughts_tokens
        tokens["tool"] += event.tool_tokens
        tokens["input"] = max(0, tokens["prompt"] - tokens["cached"])
        if event.cache_write_tokens:  # few services count them; the others' form stays as it is
            tokens["cacheWrite"] = tokens.get("cacheWrite", 0) + event.cache_write_tokens

    def _count_tool(self, event: ToolCallResponseEvent) -> None:
        named = self._by_name.setdefault(event.name, _tool_counts(_NAMED_KEYS))
        for counts, keys in ((self._tools, _TOTAL_KEYS), (named, _NAMED_KEYS)):
            calls, success, fail, duration, decisions = keys
            counts[calls] += 1
            counts[success if event.outcome == "success" else fail] += 1
            counts[duration] += event.duration_ms
            counts[decisions][event.decision] = counts[decisions].get(event.decision, 0) + 1
        display = event.display
        stat: dict[str, int] = display.get("diffStat", {}) if isinstance(display, dict) else {}
        if event.status == "success":
            for key, suffix in _LINE_KEYS:
                counts = (value for name, value in stat.items() if name.endswith(suffix))
                self._lines[key] += sum(counts)


_TOTAL_KEYS = ("totalCalls", "totalSuccess", "totalFail", "totalDurationMs", "totalDecisions")
_LINE_KEYS = (("totalLinesAdded", "_added_lines"), ("totalLinesRemoved", "_removed_lines"))
_NAMED_KEYS = ("count", "success", "fail", "durationMs", "decisions")


def _tool_counts(keys: tuple[str, str, str, str, str]) -> dict[str, Any]:
    calls, success, fail, duration, decisions = keys
    zero = dict.fromkeys(("accept", "reject", "modify", "auto_accept"), 0)
    return {calls: 0, success: 0, fail: 0, duration: 0.0, decisions: zero}


def _flat(tokens: dict[str, int]) -> dict[str, int]:
    return {
        "total_tokens": tokens["total"],
        "input_tokens": tokens["prompt"],
        "output_tokens": tokens["candidates"],
        "cached": tokens["cached"],
        "input": tokens["input"],
        **({"cache_write": tokens["cacheWrite"]} if "cacheWrite" in tokens else {}),
    }


Write = Callable[[str], None]
Cost = Callable[[], float | None]
"""Asked at the end: to reckon it takes the table of prices."""


def unknown() -> None:
    """Unknown."""


class Output(Protocol):
    """Takes every event, then `finish` once; `error` is None when the run did not fail, `cost` what
    it cost in US dollars, None where that is not known."""

    def feed(self, event: Event) -> None:
        """An event happened."""
        ...

    def finish(self, error: AlhenaError | None, cost: Cost = unknown) -> None:
        """The run is over."""
        ...


def output_for(
    format: OutputFormat, write: Write, session_id: str = "", *, watched: bool = False
) -> Output:
    """The output of this format; `write` takes text for stdout, where a person may watch it.
    `session_id` is what a run has that fails before its session begins."""
    match format:
        case OutputFormat.TEXT:
            return TextOutput(write, watched=watched)
        case OutputFormat.JSON:
            return JsonOutput(write, session_id)
        case OutputFormat.STREAM_JSON:
            return StreamJsonOutput(write)


class TextOutput:
    """The answer, ending in a newline.

    Where a person watches it is written as it streams in, and a text that is taken back stays above
    the one that follows it. Anywhere else each turn is written when it is complete, so that nothing
    of a failed attempt is in the result.
    """

    def __init__(self, write: Write, *, watched: bool = False) -> None:
        self._write = write
        self._watched = watched
        self._held: list[str] = []
        self._at_line_start = True

    def feed(self, event: Event) -> None:
        """Takes the text of content events; a tool call or a prompt between two texts ends the
        line."""
        match event:
            case ContentEvent():
                self._held.append(without_controls(event.text))
                if self._watched:
                    self._release()
            case FinishedEvent():
                self._release()
            case ToolCallRequestEvent() | UserMessageEvent():
                self._release()
                self._end_line()
            case RetryEvent() | ModelFallbackEvent() if event.retract:
                self._held.clear()
                self._end_line()
            case _:
                pass

    def finish(self, error: AlhenaError | None, cost: Cost = unknown) -> None:
        """Writes what is left, of a turn that failed too, and ends the last line; errors go to
        stderr, which is not this class's."""
        del error, cost
        self._release()
        self._end_line()

    def _release(self) -> None:
        text = "".join(self._held)
        self._held.clear()
        if text:
            self._write(text)
            self._at_line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")
            self._at_line_start = True


class JsonOutput:
    """One document: {session_id, response, stats, status, finish_reason?, error?, warnings?,
    denied?}. `warnings` has also the notices of its start and failed calls."""

    def __init__(self, write: Write, session_id: str) -> None:
        self._write = write
        self._stats = RunStats()
        self._session_id = session_id
        self._end: RunFinishedEvent | None = None
        self.warnings: list[str] = []
        self._denied: list[dict[str, Any]] = []
        self._args: dict[str, dict[str, Any]] = {}

    def feed(self, event: Event) -> None:
        """Collects."""
        self._stats.feed(event)
        match event:
            case RunStartedEvent():
                self._session_id = event.session_id
                self.warnings.extend(event.notices)
            case ToolCallRequestEvent():
                self._args[event.call_id] = event.args
            case ToolCallResponseEvent() if event.status != "success":
                self.warnings.append(failed_call_words(event))
                if event.denied:
                    self._denied.append(self._denial(event))
            case RunFinishedEvent():
                self._end = event
            case _:
                self.warnings.extend(filter(None, (notice_words(event),)))

    def finish(self, error: AlhenaError | None, cost: Cost = unknown) -> None:
        """Writes the document."""
        document: dict[str, Any] = {
            "session_id": self._session_id,
            "response": "" if self._end is None else self._end.text,
            "stats": self._stats.as_json(),
            **ending(self._end, error),
        }
        if (spent := cost()) is not None:
            document["stats"]["estimatedCostUsd"] = round(spent, 6)
        if error is not None:
            document["error"] = error_json(error)
        if self.warnings:
            document["warnings"] = self.warnings
        if self._denied:
            document["denied"] = self._denied
        self._write(json_document(document))

    def _denial(self, event: ToolCallResponseEvent) -> dict[str, Any]:
        return {
            "tool_name": event.name,
            "tool_id": event.call_id,
            "parameters": event.args or self._args.get(event.call_id, {}),
            "reason": denial_reason(event),
        }


class StreamJsonOutput:
    """One line per event: init, message, tool_use, tool_result, retry, model_fallback,
    chat_compressed, loop_detected, error, result. A retry or fallback with `retract` makes the
    messages of that turn void."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._stats = RunStats()
        self._start = time.perf_counter()
        self._end: RunFinishedEvent | None = None
        self._agents: dict[str, list[str]] = {}

    def feed(self, event: Event) -> None:
        """Writes the events that have a line."""
        self._stats.feed(event)
        match event:
            case RunStartedEvent():
                self._line("init", session_id=event.session_id, model=event.model)
                for notice in event.notices:
                    self._line("error", severity="warning", message=notice)
            case UserMessageEvent():
                self._line("message", role="user", content=event.text)
            case ContentEvent():
                self._line("message", role="assistant", content=event.text, delta=True)
            case ToolCallRequestEvent():
                replaces = {"replaces": event.replaces} if event.replaces else {}
                path = self._agents.get(event.parent_call_id or "", [])
                agent = event.args.get("agent_name", event.name)
                self._agents[event.call_id] = [*path, str(agent)]
                self._line(
                    "tool_use",
                    tool_name=event.name,
                    tool_id=event.call_id,
                    parameters=event.args,
                    **replaces,
                    **({"agent_path": path} if path else {}),
                )
            case ToolCallResponseEvent():
                self._tool_result(event)
            case WarningEvent():
                self._line("error", severity="warning", message=event.message)
            case RetryEvent() | ModelFallbackEvent() | CompressedEvent() | LoopDetectedEvent():
                self._line(**msgspec.to_builtins(event))
            case RunFinishedEvent():
                self._end = event
            case _:
                pass

    def _tool_result(self, event: ToolCallResponseEvent) -> None:
        fields: dict[str, Any] = {"tool_id": event.call_id}
        if event.outcome == "success":
            fields["status"] = "success"
        else:
            fields["status"] = "error"
            kind = event.failure_type or event.status
            fields["error"] = {"type": kind, "message": event.error or event.command_failure}
        if event.args is not None:
            fields |= {"parameters": event.args, "proposed_parameters": event.proposed_args}
        if isinstance(event.display, str):
            fields["output"] = event.display
        elif isinstance(event.display, dict):
            fields["output"] = event.display.get("text") or event.display.get("fileDiff") or ""
        self._line("tool_result", **fields)

    def finish(self, error: AlhenaError | None, cost: Cost = unknown) -> None:
        """Writes the result line, behind an error line when there is one to report."""
        duration = (time.perf_counter() - self._start) * 1000
        stats = self._stats.as_stream(duration)
        if (spent := cost()) is not None:
            stats["estimated_cost_usd"] = round(spent, 6)
        fields: dict[str, Any] = ending(self._end, error)
        if error is not None:
            self._line("error", severity="error", message=str(error))
            fields["error"] = error_json(error)
        self._line("result", **fields, stats=stats)

    def _line(self, type: str, **fields: Any) -> None:
        head = {"type": type, "timestamp": timestamp(time.time_ns())}
        self._write(msgspec.json.encode(head | fields).decode("utf-8") + "\n")


def ending(end: RunFinishedEvent | None, error: AlhenaError | None) -> dict[str, str]:
    """The status of a run (success, error, or blocked by a hook), and the service's word for how
    the last answer ended, where it said one."""
    blocked = end is not None and end.reason == "blocked"
    status = "error" if error is not None else "blocked" if blocked else "success"
    reason = "" if end is None else end.finish_reason
    return {"status": status, "finish_reason": reason} if reason else {"status": status}


MAX_REASON = 200


def notice_words(event: Event) -> str:
    """The sentence that reports an event on stderr and among the warnings of JSON output; "" for an
    event that is not reported this way."""
    match event:
        case WarningEvent():
            return event.message
        case ModelFallbackEvent():
            return fallback_words(event)
        case CompressedEvent() if is_loss(event):
            return compressed_words(event)
        case LoopDetectedEvent() if is_news(event):
            return loop_words(event)
        case _:
            return ""


def retry_words(event: RetryEvent) -> str:
    """The reason of a retry, and when it comes."""
    again = f"trying again in {event.delay_s:.0f} s"
    attempt = f"attempt {event.attempt} of at most {event.max_attempts}"
    return f"{one_line(event.reason, MAX_REASON).rstrip('.')}; {again} ({attempt})."


def failed_call_words(event: ToolCallResponseEvent) -> str:
    """The tool of a failed call, and its error."""
    return f"Error executing tool {event.name}: {event.error or event.status}"


def fallback_words(event: ModelFallbackEvent) -> str:
    """The fallback model, and the model it replaces."""
    whom = "" if event.role == "main" else f" the {event.role.replace('_', ' ')}"
    return f"{event.model} answers{whom} from here on instead of {event.instead_of}: {event.reason}"


def loop_words(event: LoopDetectedEvent) -> str:
    """The loop that was detected, and the reaction to it."""
    whose = "The model" if event.role == "main" else "A subagent"
    ends = "the run ends" if event.role == "main" else "it ends"
    match event.action:
        case "corrected":
            then = "It was asked to stop once."
        case "ended":
            then = f"It was asked to stop before; {ends}."
        case "ignored":
            then = "It continues, as you chose."
        case _:
            assert_never(event.action)
    return f"{whose} repeats itself ({event.detail}). {then}"


def is_news(event: LoopDetectedEvent) -> bool:
    """True when nothing else reports it: the error of an ended run does."""
    return event.action != "ended" or event.role != "main"


FAILED = {
    "failed_inflated": "compression was not beneficial, the summary is no shorter.",
    "failed_empty_summary": "the model returned no summary.",
    "failed_request": "the request for a summary failed:",
}
"""Statuses of attempts that changed nothing, and why."""


def compressed_words(event: CompressedEvent) -> str:
    """The result of a compression, in a sentence or two."""
    whose = "Chat history" if event.role == "main" else "A subagent's chat history"
    sizes = f"from {event.original_tokens:,} to {event.new_tokens:,} tokens"
    match event.status:
        case "compressed":
            return f"{whose} compressed {sizes}."
        case "content_truncated":
            return f"{whose} no longer fitted; the oldest parts were left out, {sizes}."
        case "noop":
            return "Nothing to compress."
        case _:
            why = f"{FAILED.get(event.status, event.status)} {event.reason}".strip()
            return f"{whose} compression failed: {why}"


def is_loss(event: CompressedEvent) -> bool:
    """True when a person should be told of it wherever there is a place for that."""
    return event.status != "compressed"


def denial_reason(event: ToolCallResponseEvent) -> str:
    """Why, in words for people (the model may have been told less)."""
    return event.display if isinstance(event.display, str) else event.error or ""


def error_json(error: AlhenaError) -> dict[str, Any]:
    """An error as documents carry it: {type, message, code}; code is the exit code."""
    return {"type": error.kind, "message": str(error), "code": error.exit_code}
