"""The view as a pure function: a state and an event make a new state and finished blocks.

What is finished is printed once, into the terminal's own scrollback; what still changes is drawn
below it by `live`. Nothing here knows a terminal, a clock or an event loop.
"""

from collections.abc import Mapping

import msgspec

from alhena.display_text import one_line, without_controls
from alhena.events import (
    ApiRequestEvent,
    ApiResponseEvent,
    ContentEvent,
    ErrorEvent,
    Event,
    OutputTruncatedEvent,
    RunFinishedEvent,
    RunStartedEvent,
    ThoughtEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
    ToolOutputEvent,
    UserMessageEvent,
    WarningEvent,
)
from alhena.frontends.terminal.ended import described, duration, ended_lines, header
from alhena.frontends.terminal.lines import (
    Block,
    Line,
    Lines,
    Markdown,
    clipped,
    line,
    lines_of,
    wrapped,
)
from alhena.frontends.terminal.splitting import split

OUTPUT_KEPT = 4_000
OUTPUT_ROWS = 5
MAX_MESSAGE = 2_000
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that has not ended. `since`: when it was asked for, or began to run."""

    call_id: str
    name: str
    since: float
    status: str = ""
    description: str = ""
    output: str = ""
    nested: bool = False


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a session, or of one prompt."""

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    calls: int = 0
    failed_calls: int = 0
    model_ms: float = 0.0
    tool_ms: float = 0.0


class View(msgspec.Struct, frozen=True, kw_only=True):
    """All that is shown. `titles`: names of tools for people. `busy_since` is None while nothing
    runs; `group` is what the last block was, so that a blank line parts it from others."""

    titles: Mapping[str, str] = {}
    calls: tuple[Call, ...] = ()
    open_text: str = ""
    thought: str = ""
    busy_since: float | None = None
    answering: bool = False
    totals: Totals = Totals()
    prompt_start: Totals = Totals()
    shown: frozenset[str] = frozenset()
    group: str = ""


Step = tuple[View, tuple[Block, ...]]


def advance(view: View, event: Event, now: float) -> Step:
    """The view after an event at `now` (seconds of any clock), and what is finished with it."""
    step: Step = (view, ())  # also for events that others read from the stream
    match event:
        case RunStartedEvent():
            view = msgspec.structs.replace(view, busy_since=now, prompt_start=view.totals)
            step = printed(view, "notice", [_warning(notice) for notice in event.notices])
        case UserMessageEvent():
            step = printed(view, "user", prompt_lines(event.text))
        case ThoughtEvent():
            step = msgspec.structs.replace(view, thought=one_line(event.subject, 200)), ()
        case ContentEvent():
            step = _content(view, event.text)
        case WarningEvent():
            step = _after_text(view, "notice", [_warning(event.message)])
        case ErrorEvent():
            step = _error(view, event)
        case RunFinishedEvent():
            step = _finished(view, event)
        case ApiRequestEvent() | ApiResponseEvent():
            step = _counted(view, event), ()
        case (
            ToolCallRequestEvent()
            | ToolCallUpdateEvent()
            | ToolOutputEvent()
            | ToolCallResponseEvent()
            | OutputTruncatedEvent()
        ):
            step = _call_event(view, event, now)
        case _:
            pass
    return step


def printed(view: View, group: str, lines: list[Line], *, clip: bool = False) -> Step:
    """Finished lines, with a blank one before them where something else stands above."""
    if not lines:
        return view, ()
    gap: list[Line] = [()] if view.group and view.group != group else []
    return msgspec.structs.replace(view, group=group), (Lines((*gap, *lines), clip=clip),)


def prompt_lines(text: str) -> list[Line]:
    """What a person said, as it stays in the scrollback."""
    first, *rest = lines_of(text, "user")
    return [(("accent", "> "), *first), *((("", "  "), *each) for each in rest)]


def without_run(view: View) -> View:
    """The view when nothing runs any more."""
    return msgspec.structs.replace(
        view, calls=(), open_text="", thought="", busy_since=None, answering=False
    )


def live(view: View, columns: int, rows: int, now: float, *, asking: bool = False) -> list[Line]:
    """What still changes, in at most `rows` lines of at most `columns`: the open end of the
    answer, the calls at work, and what the model does."""
    if view.busy_since is None and not view.calls:
        return []
    lines: list[Line] = []
    for call in view.calls:
        if not call.nested:
            lines += _call_lines(call, view, columns, now)
    if not lines and not asking and view.busy_since is not None:
        lines.append(_thinking(view, now))
    room = max(rows - len(lines), 1)
    text = [
        (("", piece),)
        for each in view.open_text.split("\n")[-room:]
        for piece in wrapped(each.expandtabs(4), max(columns, 1))
    ]
    shown = [*(text[-room:] if view.open_text.strip() else []), *lines]
    return [clipped(each, columns) for each in shown[len(shown) - min(rows, len(shown)) :]]


def _thinking(view: View, now: float) -> Line:
    seconds = 0.0 if view.busy_since is None else now - view.busy_since
    spinner = SPINNER[int(seconds * 10) % len(SPINNER)]
    what = "Answering" if view.answering else "Thinking"
    thought = f" {view.thought}" if view.thought and not view.answering else ""
    hint = f" ({duration(int(seconds) * 1000)}, Esc to interrupt)"
    return (("accent", spinner), ("", f" {what}"), ("dim", thought), ("dim", hint))


def _call_lines(call: Call, view: View, columns: int, now: float) -> list[Line]:
    title = one_line(view.titles.get(call.name, call.name))
    took = now - call.since
    running = call.status == "executing"
    mark = SPINNER[int(took * 10) % len(SPINNER)] if running else "·"
    state = "" if running else f"  {call.status.replace('_', ' ')}" if call.status else ""
    time = f"  {duration(int(took) * 1000)}" if running and took >= 1 else ""
    lines: list[Line] = [
        clipped((("accent", mark), ("bold", f" {title}")), max(columns - len(time + state), 1))
    ]
    room = columns - sum(len(text) for _, text in lines[0]) - len(time + state) - 1
    what = described(title, one_line(call.description, 400))
    shown = clipped(line(f" {what}"), max(room, 0))
    lines[0] = (*lines[0], *(shown if what else ()), ("dim", state + time))
    rows = call.output.rstrip("\n").split("\n")[-OUTPUT_ROWS:] if call.output.strip() else []
    lines += (clipped((("dim", "  │ "), *line(each, "dim")), columns) for each in rows)
    return lines


def _content(view: View, text: str) -> Step:
    text = view.open_text + without_controls(text)
    pieces, rest = split(text)
    view = msgspec.structs.replace(view, open_text=rest, thought="", answering=True)
    blocks: list[Block] = []
    for piece in pieces:
        view, block = _markdown(view, piece)
        blocks += block
    return view, tuple(blocks)


def _markdown(view: View, text: str) -> Step:
    gap = (Lines(((),)),) if view.group else ()
    return msgspec.structs.replace(view, group="text"), (*gap, Markdown(text))


def _flushed(view: View) -> Step:
    """What is open of the answer, finished as it is."""
    text = view.open_text.strip("\n")
    view = msgspec.structs.replace(view, open_text="", answering=False)
    return _markdown(view, text) if text.strip() else (view, ())


def _after_text(view: View, group: str, lines: list[Line]) -> Step:
    view, before = _flushed(view)
    view, after = printed(view, group, lines)
    return view, (*before, *after)


def _warning(message: str) -> Line:
    return (("warning", "! "), *line(one_line(without_controls(message), MAX_MESSAGE), "warning"))


def _error(view: View, event: ErrorEvent) -> Step:
    if event.exit_code == 130:
        return _after_text(view, "notice", [line("■ cancelled", "warning")])
    message = one_line(without_controls(event.message), MAX_MESSAGE)
    return _after_text(view, "notice", [(("error", "✗ "), *line(message, "error"))])


def _finished(view: View, event: RunFinishedEvent) -> Step:
    made = since(view.totals, view.prompt_start)
    parts = [_counted_noun(event.turns, "turn"), duration(event.duration_ms)]
    if made.calls:
        failed = f" ({made.failed_calls} failed)" if made.failed_calls else ""
        parts.insert(1, _counted_noun(made.calls, "call") + failed)
    if made.input_tokens or made.output_tokens:
        cached = f" ({made.cached_tokens:,} cached)" if made.cached_tokens else ""
        parts.append(f"{made.input_tokens:,} tokens in{cached}, {made.output_tokens:,} out")
    view, blocks = _after_text(view, "end", [line("  " + " · ".join(parts), "dim")])
    return without_run(view), blocks


def since(totals: Totals, start: Totals) -> Totals:
    """What was counted after `start`."""
    return Totals(
        **{name: getattr(totals, name) - getattr(start, name) for name in Totals.__struct_fields__}
    )


def _counted_noun(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _counted(view: View, event: ApiRequestEvent | ApiResponseEvent) -> View:
    replace = msgspec.structs.replace
    totals = view.totals
    if isinstance(event, ApiRequestEvent):
        return replace(view, totals=replace(totals, requests=totals.requests + 1))
    totals = replace(
        totals,
        input_tokens=totals.input_tokens + event.input_tokens + event.tool_tokens,
        cached_tokens=totals.cached_tokens + event.cached_tokens,
        output_tokens=totals.output_tokens + event.output_tokens + event.thoughts_tokens,
        model_ms=totals.model_ms + event.duration_ms,
    )
    return replace(view, totals=totals)


CallEvent = (
    ToolCallRequestEvent
    | ToolCallUpdateEvent
    | ToolOutputEvent
    | ToolCallResponseEvent
    | OutputTruncatedEvent
)


def _call_event(view: View, event: CallEvent, now: float) -> Step:
    replace = msgspec.structs.replace
    nested = event.parent_call_id is not None
    if isinstance(event, OutputTruncatedEvent):
        where = f"; all of it: {event.output_file}" if event.output_file else ""
        told = f"of {event.original_length:,} characters the model gets the two ends{where}"
        problem = f" ({event.problem})" if event.problem else ""
        return printed(view, "calls", [line(f"  {told}{problem}", "dim")])
    if isinstance(event, ToolCallRequestEvent):
        view, blocks = _flushed(view)
        call = Call(call_id=event.call_id, name=event.name, since=now, nested=nested)
        return replace(view, calls=(*view.calls, call), thought=""), blocks
    known = next((each for each in view.calls if each.call_id == event.call_id), None)
    call = known or Call(call_id=event.call_id, name="", since=now, nested=nested)
    if isinstance(event, ToolCallResponseEvent):
        return _ended(view, call, event)
    if isinstance(event, ToolOutputEvent):
        output = (call.output + without_controls(event.text))[-OUTPUT_KEPT:]
        call = replace(call, output=output)
    else:
        starts = event.status == "executing" and call.status != "executing"
        call = replace(
            call,
            name=event.name,
            status=event.status,
            description=event.description or call.description,
            since=now if starts else call.since,
        )
    return replace(view, calls=_with(view.calls, call)), ()


def _ended(view: View, call: Call, event: ToolCallResponseEvent) -> Step:
    replace = msgspec.structs.replace
    totals = replace(
        view.totals,
        calls=view.totals.calls + 1,
        failed_calls=view.totals.failed_calls + (event.status != "success"),
        tool_ms=view.totals.tool_ms + event.duration_ms,
    )
    rest = tuple(each for each in view.calls if each.call_id != event.call_id)
    view = replace(view, calls=rest, totals=totals)
    title = view.titles.get(event.name, event.name)
    head = header(event, title, one_line(call.description, 300))
    if call.nested:  # the call that runs the subagent shows what came of it
        return printed(view, "calls", [(("", "  "), *head)], clip=True)
    view, heading = printed(view, "calls", [head], clip=True)
    view, body = printed(view, "calls", ended_lines(event, seen=event.call_id in view.shown))
    return view, (*heading, *body)


def _with(calls: tuple[Call, ...], call: Call) -> tuple[Call, ...]:
    if all(each.call_id != call.call_id for each in calls):
        return (*calls, call)
    return tuple(call if each.call_id == call.call_id else each for each in calls)
