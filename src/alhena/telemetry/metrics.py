"""Metrics derived from log records: counters and histograms since the session began."""

import json
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, NamedTuple

from alhena.telemetry.records import PREFIX, TelemetryRecord, first_word

BOUNDARIES = (0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000)
"""Inclusive upper bounds of a histogram's buckets; one more bucket follows the last."""

_CUMULATIVE = 1
_HISTOGRAM, _SUM = 0, 3
_INT, _DOUBLE = 0, 1
_TOKENS = (
    ("input", "input_token_count"),
    ("output", "output_token_count"),
    ("thought", "thoughts_token_count"),
    ("cache", "cached_content_token_count"),
    ("tool", "tool_token_count"),
)


class Instrument(NamedTuple):
    """Name, kind, description and unit of a metric."""

    name: str
    kind: str
    description: str
    unit: str = ""
    value_type: int = _INT


def _counter(name: str, description: str) -> Instrument:
    return Instrument(PREFIX + name, "COUNTER", description)


def _latency(name: str, description: str) -> Instrument:
    return Instrument(PREFIX + name, "HISTOGRAM", description, "ms")


SESSIONS = _counter("session.count", "Sessions started.")
TOOL_CALLS = _counter("tool.call.count", "Tool calls, by function name and success.")
TOOL_LATENCY = _latency("tool.call.latency", "How long tool calls took.")
REQUESTS = _counter("api.request.count", "Requests to the model, by model and status.")
REQUEST_LATENCY = _latency("api.request.latency", "How long requests to the model took.")
TOKENS = _counter("token.usage", "Tokens, by model and what they were used for.")
FILES = _counter("file.operation.count", "Files created, read and updated.")
LINES = _counter("lines.changed", "Lines of files added and removed.")
HOOKS = _counter("hook_call.count", "Hooks run, by event and success.")
HOOK_LATENCY = _latency("hook_call.latency", "How long hooks took.")
CONTENT_RETRIES = _counter("chat.content_retry.count", "Answers that were asked for again.")
COMPRESSIONS = _counter("chat_compression", "Attempts to shorten the conversation.")
NETWORK_RETRIES = _counter("network_retry.count", "Requests that were sent again.")
CONTENT_FAILURES = _counter(
    "chat.content_retry_failure.count", "Runs that ended without a usable answer."
)
AGENTS = _counter("agent.run.count", "Subagents run, by name and the reason why they ended.")
AGENT_DURATION = _latency("agent.duration", "How long subagents took.")
AGENT_TURNS = Instrument(PREFIX + "agent.turns", "HISTOGRAM", "Turns that subagents took.")
PLANS = _counter("plan.execution.count", "Plans that were approved.")
GEN_AI_TOKENS = Instrument(
    "gen_ai.client.token.usage", "HISTOGRAM", "Tokens of a request and of its answer.", "token"
)
GEN_AI_DURATION = Instrument(
    "gen_ai.client.operation.duration", "HISTOGRAM", "How long an operation took.", "s", _DOUBLE
)

Measurement = tuple[Instrument, dict[str, Any], float]


class Point:
    """One time series: the values with the same attributes."""

    def __init__(self, attributes: dict[str, Any], start_ns: int) -> None:
        self.attributes = attributes
        self.start_ns = start_ns
        self.count = 0
        self.sum: float = 0
        self.min: float = 0
        self.max: float = 0
        self.buckets = [0] * (len(BOUNDARIES) + 1)

    def add(self, value: float) -> None:
        """Adds a value."""
        self.min = min(self.min, value) if self.count else value
        self.max = max(self.max, value) if self.count else value
        self.count += 1
        self.sum += value
        self.buckets[bisect_left(BOUNDARIES, value)] += 1


class Metrics:
    """The metrics of a session. `changed`: something was added since the last `scope_metrics`."""

    def __init__(self) -> None:
        self.changed = False
        self._points: dict[Instrument, dict[str, Point]] = {}

    def start(self, time_ns: int) -> None:
        """Counts the session."""
        self._add((SESSIONS, {}, 1), time_ns)

    def take(self, record: TelemetryRecord, time_ns: int) -> None:
        """Updates the metrics that this record counts for, if any."""
        for measurement in measure_record(record):
            self._add(measurement, time_ns)

    def scope_metrics(self, common: dict[str, Any], time_ns: int) -> list[dict[str, Any]]:
        """All metrics in the form of an exporter's `metrics`; every data point has the `common`
        attributes."""
        self.changed = False
        return [
            {
                "descriptor": {
                    "name": instrument.name,
                    "type": instrument.kind,
                    "description": instrument.description,
                    "unit": instrument.unit,
                    "valueType": instrument.value_type,
                    "advice": {},
                },
                "aggregationTemporality": _CUMULATIVE,
                **(
                    {"dataPointType": _SUM, "isMonotonic": True}
                    if instrument.kind == "COUNTER"
                    else {"dataPointType": _HISTOGRAM}
                ),
                "dataPoints": [
                    {
                        "attributes": common | point.attributes,
                        "startTime": hr_time(point.start_ns),
                        "endTime": hr_time(time_ns),
                        "value": _value(instrument, point),
                    }
                    for point in points.values()
                ],
            }
            for instrument, points in self._points.items()
        ]

    def _add(self, measurement: Measurement, time_ns: int) -> None:
        instrument, attributes, value = measurement
        points = self._points.setdefault(instrument, {})
        key = json.dumps(attributes, sort_keys=True)
        if key not in points:
            points[key] = Point(attributes, time_ns)
        points[key].add(value)
        self.changed = True


def hr_time(time_ns: int) -> list[int]:
    """Converts nanoseconds since 1970 to whole seconds and remaining nanoseconds."""
    return list(divmod(time_ns, 1_000_000_000))


def _value(instrument: Instrument, point: Point) -> Any:
    if instrument.kind == "COUNTER":
        return point.sum
    return {
        "min": point.min,
        "max": point.max,
        "sum": point.sum,
        "buckets": {"boundaries": BOUNDARIES, "counts": point.buckets},
        "count": point.count,
    }


_COUNTED: dict[str, tuple[Instrument, tuple[str, ...]]] = {
    "file_operation": (FILES, ("operation", "mimetype", "extension", "programming_language")),
    "chat.content_retry": (CONTENT_RETRIES, ("model", "error_type")),
    "chat.content_retry_failure": (CONTENT_FAILURES, ("model", "final_error_type")),
    "plan.execution": (PLANS, ()),
    "chat_compression": (COMPRESSIONS, ("status", "trigger")),
    "network_retry_attempt": (NETWORK_RETRIES, ("model", "error_type")),
}
"""Record -> the counter to which each adds 1, and the attributes that it takes over."""


def measure_record(record: TelemetryRecord) -> Iterator[Measurement]:
    """The values that a record adds to metrics."""
    facts = record.attributes
    match record.name:
        case "tool_call":
            yield from _measured_call(facts)
        case "api_response":
            yield from _measured_response(record)
        case "api_error":
            named = {"model": facts["model"], "error_type": facts["error.type"]}
            yield REQUESTS, named | _some(facts, "status_code"), 1
            yield REQUEST_LATENCY, {"model": facts["model"]}, facts["duration_ms"]
            failed = _operation(record) | {"error.type": facts["error.type"]}
            yield GEN_AI_DURATION, failed, facts["duration_ms"] / 1000
        case "hook_call":
            named = _some(facts, "hook_event_name", "success")
            named["hook_name"] = first_word(facts["hook_name"])
            yield HOOKS, named, 1
            yield HOOK_LATENCY, named, facts["duration_ms"]
        case "agent.finish":
            named = _some(facts, "agent_name")
            yield AGENTS, _some(facts, "agent_name", "terminate_reason"), 1
            yield AGENT_DURATION, named, facts["duration_ms"]
            yield AGENT_TURNS, named, facts["turn_count"]
        case name if name in _COUNTED:
            counter, attributes = _COUNTED[name]
            yield counter, _some(facts, *attributes), 1
        case _:
            pass


def _measured_call(facts: dict[str, Any]) -> Iterator[Measurement]:
    name = facts["function_name"]
    yield TOOL_CALLS, _some(facts, "function_name", "success", "decision", "tool_type"), 1
    yield TOOL_LATENCY, {"function_name": name}, facts["duration_ms"]
    stat: dict[str, int] = json.loads(facts.get("metadata", "{}"))
    for what in ("added", "removed"):
        lines = stat.get(f"model_{what}_lines", 0)
        if lines:
            yield LINES, {"type": what, "function_name": name}, lines


def _measured_response(record: TelemetryRecord) -> Iterator[Measurement]:
    facts = record.attributes
    model = facts["model"]
    yield REQUESTS, {"model": model, "status_code": facts["status_code"]}, 1
    yield REQUEST_LATENCY, {"model": model}, facts["duration_ms"]
    for kind, name in _TOKENS:
        if facts[name]:
            yield TOKENS, {"model": model, "type": kind}, facts[name]
    asked = _operation(record)
    for kind, name in _TOKENS[:2]:
        yield GEN_AI_TOKENS, asked | {"gen_ai.token.type": kind}, facts[name]
    yield GEN_AI_DURATION, asked, facts["duration_ms"] / 1000


def _operation(record: TelemetryRecord) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "generate_content",
        **record.asked,
        "gen_ai.response.model": record.attributes["model"],
    }


def _some(facts: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: facts[name] for name in names if name in facts}
