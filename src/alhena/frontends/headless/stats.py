"""What a run used and did, summed up from its events, in the reference's form."""

from typing import Any

from alhena.events import ApiErrorEvent, ApiResponseEvent, Event, ToolCallResponseEvent


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

    def _count_tool(self, event: ToolCallResponseEvent) -> None:
        named = self._by_name.setdefault(event.name, _tool_counts(_NAMED_KEYS))
        for counts, keys in ((self._tools, _TOTAL_KEYS), (named, _NAMED_KEYS)):
            calls, success, fail, duration, decisions = keys
            counts[calls] += 1
            counts[success if event.status == "success" else fail] += 1
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
    }
