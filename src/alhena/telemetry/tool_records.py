"""The records of a tool call: the call itself, the file it worked on, what was left out."""

from pathlib import PurePath
from typing import Any

import msgspec

from alhena.events import OutputTruncatedEvent, ToolCallResponseEvent
from alhena.telemetry.languages import mime_type, programming_language
from alhena.telemetry.record import Record

READING = ("read_file", "ReadFileTool")
_PATHS = ("absolute_path", "file_path", "path")


class KnownCall(msgspec.Struct, frozen=True):
    """The prompt and the arguments of a call; `proposed_args` where others were asked for."""

    prompt_id: str = ""
    args: dict[str, Any] | None = None
    proposed_args: dict[str, Any] | None = None


def call_record(event: ToolCallResponseEvent, call: KnownCall, *, with_args: bool) -> Record:
    """The record of a call that has ended."""
    success, duration = event.status == "success", round(event.duration_ms)
    decision = None if _undecided(event) else event.decision
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
    if event.error is not None:
        attributes["error"] = attributes["error.message"] = event.error
    if event.error_type is not None:
        attributes["error_type"] = attributes["error.type"] = event.error_type
    stat = diff_stat(event.display)
    if stat and success:
        attributes["metadata"] = pretty(stat)
    decided = "" if decision is None else f" Decision: {decision}."
    said = f"Success: {str(success).lower()}. Duration: {duration}ms."
    return Record("tool_call", f"Tool call: {event.name}.{decided} {said}", attributes)


def _undecided(event: ToolCallResponseEvent) -> bool:
    """Whether a call ended that nobody had allowed or refused."""
    return event.decision == "reject" and not event.denied


def truncation_record(event: OutputTruncatedEvent, call: KnownCall) -> Record:
    """The record of a result of which the model gets the two ends."""
    attributes = {
        "eventName": "tool_output_truncated",
        "tool_name": event.name,
        "original_content_length": event.original_length,
        "truncated_content_length": event.truncated_length,
        "threshold": event.threshold,
        "prompt_id": call.prompt_id,
    }
    return Record("tool_output_truncated", f"Tool output truncated for {event.name}.", attributes)


def file_record(event: ToolCallResponseEvent, call: KnownCall) -> Record | None:
    """The record of the file that a successful call has read or written, if it has."""
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
    return Record("file_operation", f"File operation: {operation}.{counted}", known)


def diff_stat(display: str | dict[str, Any] | None) -> dict[str, int]:
    """Lines and characters that were added and removed, by the model and by a person.

    Characters are counted in the diff, line ends aside; they are left out where the diff is cut
    short, or not the model's alone.
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
    added, removed = (_changed(lines, sign) for sign in "+-")
    counted = (len(added), len(removed), 0, 0)
    if counted == tuple(found.values()):
        found |= {
            "model_added_chars": sum(map(len, added)),
            "model_removed_chars": sum(map(len, removed)),
            "user_added_chars": 0,
            "user_removed_chars": 0,
        }
    return found


def _changed(lines: list[str], sign: str) -> list[str]:
    """The lines of a unified diff with this sign, without it and without its two headers."""
    hunks = next((at for at, line in enumerate(lines) if line.startswith("@@")), len(lines))
    return [line[1:] for line in lines[hunks:] if line.startswith(sign)]


def _path(args: dict[str, Any] | None) -> str | None:
    for name in _PATHS:
        value = (args or {}).get(name)
        if isinstance(value, str) and value:
            return value
    return None


def pretty(value: Any) -> str:
    """A plain value as JSON on lines of their own."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8")
