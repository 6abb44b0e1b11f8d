"""A run's events as text, as one JSON document, or as JSON lines; stdout carries nothing else."""

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from alhena.display_text import without_controls
from alhena.errors import AlhenaError
from alhena.events import (
    ContentEvent,
    Event,
    RunFinishedEvent,
    RunStartedEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    UserMessageEvent,
    WarningEvent,
)
from alhena.frontends.headless.stats import RunStats
from alhena.frontends.streams import json_document

Write = Callable[[str], None]


class OutputFormat(StrEnum):
    """Values of --output-format."""

    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


class Output(Protocol):
    """Takes every event, then `finish` once; `error` is None when the run succeeded."""

    def feed(self, event: Event) -> None:
        """An event happened."""
        ...

    def finish(self, error: AlhenaError | None) -> None:
        """The run is over."""
        ...


def output_for(format: OutputFormat, write: Write) -> Output:
    """The output of this format; `write` takes text for stdout."""
    match format:
        case OutputFormat.TEXT:
            return TextOutput(write)
        case OutputFormat.JSON:
            return JsonOutput(write)
        case OutputFormat.STREAM_JSON:
            return StreamJsonOutput(write)


class TextOutput:
    """The answer as it streams in, ending in a newline."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._at_line_start = True

    def feed(self, event: Event) -> None:
        """Writes the text of content events; a tool call between two texts ends the line."""
        if isinstance(event, ContentEvent):
            text = without_controls(event.text)
            if text:
                self._write(text)
                self._at_line_start = text.endswith("\n")
        elif isinstance(event, ToolCallRequestEvent):
            self._end_line()

    def finish(self, error: AlhenaError | None) -> None:
        """Ends the last line; errors go to stderr, which is not this class's."""
        del error
        self._end_line()

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")
            self._at_line_start = True


class JsonOutput:
    """One document: {session_id, response, stats, error?, warnings?, denied?}."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._stats = RunStats()
        self._session_id: str | None = None
        self._response = ""
        self._warnings: list[str] = []
        self._denied: list[dict[str, Any]] = []
        self._args: dict[str, dict[str, Any]] = {}

    def feed(self, event: Event) -> None:
        """Collects."""
        self._stats.feed(event)
        match event:
            case RunStartedEvent():
                self._session_id = event.session_id
                self._warnings.extend(event.notices)
            case WarningEvent():
                self._warnings.append(event.message)
            case ToolCallRequestEvent():
                self._args[event.call_id] = event.args
            case ToolCallResponseEvent() if event.denied:
                self._denied.append(
                    {
                        "tool_name": event.name,
                        "tool_id": event.call_id,
                        "parameters": self._args.get(event.call_id, {}),
                        "reason": denial_reason(event),
                    }
                )
            case RunFinishedEvent():
                self._response = event.text
            case _:
                pass

    def finish(self, error: AlhenaError | None) -> None:
        """Writes the document."""
        document: dict[str, Any] = {
            "session_id": self._session_id,
            "response": self._response,
            "stats": self._stats.as_json(),
        }
        if error is not None:
            document["error"] = error_json(error)
        if self._warnings:
            document["warnings"] = self._warnings
        if self._denied:
            document["denied"] = self._denied
        self._write(json_document(document))


class StreamJsonOutput:
    """One line per event: init, message, tool_use, tool_result, error, result."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._stats = RunStats()
        self._start = time.perf_counter()

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
                self._line(
                    "tool_use",
                    tool_name=event.name,
                    tool_id=event.call_id,
                    parameters=event.args,
                )
            case ToolCallResponseEvent():
                self._tool_result(event)
            case WarningEvent():
                self._line("error", severity="warning", message=event.message)
            case _:
                pass

    def _tool_result(self, event: ToolCallResponseEvent) -> None:
        fields: dict[str, Any] = {"tool_id": event.call_id}
        if event.status == "success":
            fields["status"] = "success"
        else:
            fields["status"] = "error"
            kind = event.error_type or event.status
            fields["error"] = {"type": kind, "message": event.error or ""}
        if isinstance(event.display, str):
            fields["output"] = event.display
        elif isinstance(event.display, dict):
            fields["output"] = event.display.get("text") or event.display.get("fileDiff") or ""
        self._line("tool_result", **fields)

    def finish(self, error: AlhenaError | None) -> None:
        """Writes the result line, behind an error line when there is one to report."""
        duration = (time.perf_counter() - self._start) * 1000
        stats = self._stats.as_stream(duration)
        if error is None:
            self._line("result", status="success", stats=stats)
            return
        self._line("error", severity="error", message=str(error))
        self._line("result", status="error", error=error_json(error), stats=stats)

    def _line(self, type: str, **fields: Any) -> None:
        seconds = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        head = {"type": type, "timestamp": f"{stamp}.{int(seconds * 1000) % 1000:03d}Z"}
        self._write(msgspec.json.encode(head | fields).decode("utf-8") + "\n")


def denial_reason(event: ToolCallResponseEvent) -> str:
    """Why, in words for people (the model may have been told less)."""
    return event.display if isinstance(event.display, str) else event.error or ""


def error_json(error: AlhenaError) -> dict[str, Any]:
    """An error as documents carry it: {type, message, code}; code is the exit code."""
    return {"type": error.kind, "message": str(error), "code": error.exit_code}
