"""Events as updates for a client: messages, thoughts, tool calls, the plan."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, assert_never

from alhena.display_text import exact, one_line, without_controls
from alhena.events import (
    ContentEvent,
    Event,
    ModelFallbackEvent,
    RetryEvent,
    RunStartedEvent,
    ThoughtEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
    ToolOutputEvent,
    WarningEvent,
)
from alhena.scheduler.question import ConfirmationRequest
from alhena.tools.contract import (
    AskUserConfirmation,
    EditConfirmation,
    ExecConfirmation,
    ExitPlanModeConfirmation,
    InfoConfirmation,
    McpConfirmation,
    Question,
)
from alhena.tools.contract import ToolConfirmationOutcome as Outcome
from alhena.tools.registry import ToolRegistry
from alhena.wire.content import MODEL, Content, Part, meant_call

Update = dict[str, Any]

MAX_TEXT = 100_000
"""Characters of a result that are shown."""
LONG_S = 1.0
"""Delay in seconds from which a retry is shown."""
MAX_LIVE = 8_000
"""Characters of the output of a running command that are shown: its end."""
_KINDS = frozenset(
    {"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"}
)
_PATHS = ("absolute_path", "file_path", "path", "dir_path", "directory")
_STATUS = {"completed": "completed", "in_progress": "in_progress", "cancelled": "completed"}


def text_block(text: str) -> dict[str, Any]:
    """A text as a content block."""
    return {"type": "text", "text": text}


def chunk(kind: str, text: str) -> Update:
    """A piece of a message: `agent_message_chunk`, `agent_thought_chunk`, `user_message_chunk`."""
    return {"sessionUpdate": kind, "content": text_block(text)}


def _repeat_notice(event: RetryEvent | ModelFallbackEvent) -> Iterator[Update]:
    """The reason why an answer takes longer, or starts again."""
    lines = ["The answer was cut off and starts again."] if event.retract else []
    if isinstance(event, ModelFallbackEvent):
        lines.append(f"{event.model} answers instead of {event.instead_of}: {event.reason}")
    elif event.delay_s >= LONG_S:
        lines.append(f"{event.reason} Trying again in {event.delay_s:.0f} s.")
    if lines:
        yield chunk("agent_thought_chunk", "\n".join((*lines, "")))


def _content(text: str) -> list[dict[str, Any]]:
    if not text.strip():
        return []
    if len(text) > MAX_TEXT:
        text = f"{text[: MAX_TEXT // 2]}\n[… not shown …]\n{text[-MAX_TEXT // 2 :]}"
    return [{"type": "content", "content": text_block(text)}]


def _console(text: str) -> list[dict[str, Any]]:
    """Output of a command, which is not Markdown: clients show texts as such."""
    longest = max((len(each) for each in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return _content(f"{fence}console\n{text}{end}{fence}") if text.strip() else []


def _diff(path: str, old: str | None, new: str) -> dict[str, Any]:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


class CallUpdates:
    """Announces tool calls under ids that are unique in the session, and follows each to its
    end."""

    def __init__(self, registry: ToolRegistry, cwd: str) -> None:
        self.registry = registry
        self._cwd = cwd
        self._used: set[str] = set()
        self._open: dict[str, str] = {}
        self._ends: dict[str, str] = {}
        self._above: dict[str, int] = {}
        self._questions = 0
        self.written: set[str] = set()
        """Calls whose output is still to be shown."""

    def of(self, event: Event) -> Iterator[Update]:
        """The updates that show an event."""
        match event:
            case ContentEvent():
                yield chunk("agent_message_chunk", event.text)
            case ThoughtEvent():
                head = f"**{event.subject}**\n" if event.subject else ""
                yield chunk("agent_thought_chunk", f"{head}{event.description}\n")
            case RunStartedEvent():
                for notice in event.notices:
                    yield chunk("agent_thought_chunk", f"{notice}\n")
            case WarningEvent():
                yield chunk("agent_thought_chunk", f"Warning: {event.message}\n")
            case RetryEvent() | ModelFallbackEvent() if event.role == "main":
                yield from _repeat_notice(event)
            case _:
                yield from self._of_call(event)

    def _of_call(self, event: Event) -> Iterator[Update]:
        match event:
            case ToolCallRequestEvent():
                yield self._announce_call(event.call_id, event.name, event.args)
            case ToolCallUpdateEvent() if event.status == "executing" and event.pid is None:
                yield from self._running(event)
            case ToolOutputEvent() if event.call_id in self._open:
                before = "" if event.screen else self._ends.get(event.call_id, "")
                text = before + without_controls(event.text)
                gone = max(len(text) - MAX_LIVE, 0)
                self._above[event.call_id] = self._above.get(event.call_id, 0) + gone
                self._ends[event.call_id] = text[gone:]
                self.written.add(event.call_id)
            case ToolCallResponseEvent():
                yield from self._end_call(event)
            case _:
                pass

    def output(self) -> Iterator[Update]:
        """New output of running calls; only the end of a long one."""
        for call_id in self.written:
            above = self._above[call_id]
            told = f"... [{above:,} characters above] ...\n" if above else ""
            shown = _console(told + self._ends[call_id])
            if shown:
                yield self._update(self._open[call_id], "in_progress", shown)
        self.written.clear()

    def question(self, question: Question) -> Update:
        """A question as a call of its own."""
        self._questions += 1
        return {
            "toolCallId": self._new_id(f"question-{self._questions}", "question"),
            "title": one_line(question.question, 400),
            "kind": "think",
            "status": "pending",
            "content": _content(exact(question.question)),
        }

    def end_question(self, own: str, answer: str | None) -> Update:
        """The end of a question; None for one that was dismissed."""
        for call_id in [key for key, value in self._open.items() if value == own]:
            self._close(call_id)
        status = "failed" if answer is None else "completed"
        return self._update(own, status, _content(answer or "Dismissed."))

    def end_open_calls(self) -> Iterator[Update]:
        """Final updates of calls that never got their result."""
        for call_id in tuple(self._open):
            own = self._close(call_id)
            if own is not None:
                yield self._update(own, "failed", _content("Cancelled."))

    def in_terminal(self, call_id: str, terminal: str) -> Update | None:
        """Shows that a call runs in a terminal of the client."""
        own = self._open.get(call_id)
        content = [{"type": "terminal", "terminalId": terminal}]
        return None if own is None else self._update(own, "in_progress", content)

    def describe_request(self, request: ConfirmationRequest) -> Update:
        """The call in a question about it."""
        own = self._open.get(request.call_id)
        if own is None:  # a call of a tool, which nobody announced
            own = self._new_id(request.call_id, request.tool_name)
        return {
            "toolCallId": own,
            "title": one_line(_title(request), 400),
            "kind": self._kind(request.tool_name),
            "status": "pending",
            "content": _request_content(request),
            "locations": self._locations(request.args),
        }

    @property
    def start_running(self) -> frozenset[str]:
        """The calls that have not ended."""
        return frozenset(self._open)

    def replay(
        self, contents: Iterable[Content], running: frozenset[str] = frozenset()
    ) -> Iterator[Update]:
        """An earlier conversation, of which these calls are still `running`."""
        for content in contents:
            for part in content.parts:
                yield from self._replay_part(content, part)
        for call_id in running:
            self._close(call_id)
        yield from self.end_open_calls()

    def _replay_part(self, content: Content, part: Part) -> Iterator[Update]:
        if part.function_call is not None:
            call = meant_call(part.function_call)
            yield self._announce_call(call.id or call.name, call.name, call.args or {})
        elif part.function_response is not None:
            response = part.function_response
            own = self._close(response.id or response.name)
            if own is not None:
                values = response.response
                failed = "error" in values
                text = str(values.get("error" if failed else "output", ""))
                yield self._update(own, "failed" if failed else "completed", _content(text))
        elif part.text:
            kind = "agent_message_chunk" if content.role == MODEL else "user_message_chunk"
            yield chunk("agent_thought_chunk" if part.thought else kind, part.text)

    def _announce_call(self, call_id: str, name: str, args: Mapping[str, Any]) -> Update:
        entry = self.registry.find(name, excluded=True)
        title = one_line(name if entry is None else entry.tool.display_name, 200)
        return {
            "sessionUpdate": "tool_call",
            "toolCallId": self._new_id(call_id, name),
            "title": title,
            "kind": self._kind(name),
            "status": "pending",
            "locations": self._locations(args),
            "rawInput": dict(args),
        }

    def _running(self, event: ToolCallUpdateEvent) -> Iterator[Update]:
        own = self._open.get(event.call_id)
        if own is not None:
            update = self._update(own, "in_progress", None)
            if event.description.strip():
                update["title"] = one_line(event.description, 400)
            yield update

    def _end_call(self, event: ToolCallResponseEvent) -> Iterator[Update]:
        own = self._close(event.call_id)
        if own is None:
            return
        display = event.display
        if event.status != "success":
            reason = event.error or event.status
            yield self._update(own, "failed", _content(reason))
            return
        if isinstance(display, dict) and display.get("type") == "todo_list":
            yield _plan(display)
        status = "failed" if event.outcome == "error" else "completed"
        yield self._update(own, status, _result(event))

    def _update(self, own: str, status: str, content: list[dict[str, Any]] | None) -> Update:
        update: Update = {
            "sessionUpdate": "tool_call_update",
            "toolCallId": own,
            "status": status,
        }
        return update if content is None else update | {"content": content}

    def _close(self, call_id: str) -> str | None:
        """Ends a call; its id for the client, None for one that is not open."""
        self.written.discard(call_id)
        self._ends.pop(call_id, None)
        self._above.pop(call_id, None)
        return self._open.pop(call_id, None)

    def _new_id(self, call_id: str, name: str) -> str:
        own, number = f"{name}__{call_id}", 1
        while own in self._used:
            number += 1
            own = f"{name}__{call_id}-{number}"
        self._used.add(own)
        self._open[call_id] = own
        return own

    def _kind(self, name: str) -> str:
        entry = self.registry.find(name, excluded=True)
        kind = "other" if entry is None else str(entry.tool.kind)
        return "think" if kind == "plan" else kind if kind in _KINDS else "other"

    def _locations(self, args: Mapping[str, Any]) -> list[dict[str, Any]]:
        paths = (args.get(key) for key in _PATHS)
        return [
            {"path": os.path.join(self._cwd, path)}
            for path in paths
            if isinstance(path, str) and path
        ][:1]


def _plan(display: dict[str, Any]) -> Update:
    entries = [
        {
            "content": str(each.get("description", "")),
            "priority": "medium",
            "status": _STATUS.get(str(each.get("status")), "pending"),
        }
        for each in display.get("todos", ())
    ]
    return {"sessionUpdate": "plan", "entries": entries}


def _result(event: ToolCallResponseEvent) -> list[dict[str, Any]]:
    display = event.display
    match display:
        case {"type": "file_diff"}:
            old = display.get("originalContent")
            return [_diff(display["filePath"], old, display["newContent"])]
        case {"type": "terminal_output"}:
            shown = _console(str(display.get("text", "")))
            failed = event.command_failure
            return shown + _content(f"({failed})" if failed else "")
        case str():
            return _content(display)
        case _:
            return []


def _title(request: ConfirmationRequest) -> str:
    details = request.details
    return details.command_shown if isinstance(details, ExecConfirmation) else details.title


def _request_content(request: ConfirmationRequest) -> list[dict[str, Any]]:
    """The call, with nothing in it hidden, and why it needs a person."""
    details = request.details
    shown: list[dict[str, Any]] = []
    match details:
        case EditConfirmation():
            old = None if details.is_new_file else details.original_content
            shown.append(_diff(details.file_path, old, details.new_content))
        case ExecConfirmation():
            shown += _content(details.command_shown)
        case InfoConfirmation():
            shown += _content("\n".join((exact(details.prompt), *map(exact, details.urls))))
        case McpConfirmation():
            called = f"{details.server_name}: {details.tool_name} {details.tool_args}"
            shown += _content(exact("\n".join((called, *details.server, details.changed))))
        case ExitPlanModeConfirmation():
            shown += _content(details.plan)
        case AskUserConfirmation():
            shown += _content("\n".join(each.question for each in details.questions))
        case _:
            assert_never(details)
    notes = [f"Warning: {one_line(each)}" for each in getattr(details, "warnings", ())]
    if request.reason:
        notes.append(f"Asked because {one_line(request.reason)}")
    return shown + _content("\n".join(notes))


def options(request: ConfirmationRequest) -> list[dict[str, Any]]:
    """The answers that a question offers, of those with the same words the first one."""
    words = {each.outcome: each.words for each in request.lasting}
    found: list[dict[str, Any]] = []
    for outcome in map(Outcome, request.outcomes):
        match outcome:
            case Outcome.PROCEED_ONCE:
                found.append({"optionId": outcome, "name": "Allow", "kind": "allow_once"})
            case Outcome.CANCEL:
                found.append({"optionId": outcome, "name": "Reject", "kind": "reject_once"})
            case Outcome.MODIFY_WITH_EDITOR:
                pass
            case _:
                saved = outcome is Outcome.PROCEED_ALWAYS_AND_SAVE
                until = "saved" if saved else "this session"
                name = f"Always allow {words.get(outcome, 'such calls')} ({until})"
                found.append({"optionId": outcome, "name": name, "kind": "allow_always"})
    first = {each["name"]: each for each in reversed(found)}
    return [each for each in found if first[each["name"]] is each]
