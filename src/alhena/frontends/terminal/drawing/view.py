"""The terminal's view as a value, advanced from event to event by a pure function.

What is finished is printed once, into the terminal's own scrollback; what still changes is drawn
below it (`live`). Nothing here knows a terminal, a clock or an event loop.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.coloured_text import only_colours
from alhena.config.settings import UiSettings
from alhena.display_text import message_line, one_line, sentence, without_controls
from alhena.events import (
    ApiRequestEvent,
    ApiResponseEvent,
    CompressedEvent,
    ContentEvent,
    ErrorEvent,
    Event,
    FinishedEvent,
    LoopDetectedEvent,
    ModelFallbackEvent,
    OutputsMaskedEvent,
    OutputTruncatedEvent,
    RetryEvent,
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
from alhena.frontends.shared.listings import count_noun
from alhena.frontends.terminal.drawing.call_result import (
    DIFF_COLUMN,
    INDENT,
    SEE_ALL,
    describe_arguments,
    duration,
    ended_lines,
    header,
    is_more,
    is_refused,
)
from alhena.frontends.terminal.drawing.lines import (
    BAR,
    Block,
    Line,
    Lines,
    Markdown,
    line,
    safe,
    warning_line,
)
from alhena.frontends.terminal.drawing.markdown_pieces import split
from alhena.frontends.terminal.drawing.remedies import sitting_words

if TYPE_CHECKING:
    from alhena.tools.registry import ToolRegistry


class ShownCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that has not ended. `since`: when it was asked for, or began to run (`ran`).
    `output` is the end of its output, with so many lines `above`."""

    call_id: str
    name: str
    since: float
    args: Mapping[str, Any] = {}
    status: str = ""
    description: str = ""
    output: str = ""
    above: int = 0
    parent: str = ""
    ran: bool = False


class ShownSubagent(msgspec.Struct, frozen=True, kw_only=True):
    """A subagent at work, under the call that started it. `parent` of a call is that call's id."""

    call_id: str
    since: float
    turns: int = 0


class ToolTitles(Mapping[str, str]):
    """Plain names of all tools, also of hidden ones and of those registered later."""

    def __init__(self, registry: "ToolRegistry") -> None:
        self._registry = registry

    def __getitem__(self, name: str) -> str:
        entry = self._registry.find(name, excluded=True)
        if entry is None:
            called = self._registry.find_call(name, {})  # an agent, by its own name
            if called is None:
                raise KeyError(name)
            entry = called[0]
        from alhena.tools.catalogue import plain_name

        return plain_name(entry.tool.name, entry.server)

    def __iter__(self) -> Iterator[str]:
        return (tool.name for tool in self._registry.all_tools)

    def __len__(self) -> int:
        return len(self._registry.all_tools)


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


class RetryPause(msgspec.Struct, frozen=True, kw_only=True):
    """A request failed, and is sent again at `until`."""

    why: str
    until: float
    attempt: str


class View(msgspec.Struct, frozen=True, kw_only=True):
    """All that is shown. `titles`: names of tools for people. `own` are ids of calls that the
    person made, `shown` those of calls whose change was shown before it is made. `busy_since` is
    None while nothing runs; `spoken`: something of the answer to the last request was printed;
    `refused`: the person has refused a call of this turn; `page` is the number of the last call's
    block in the pager. `group` is what the last block was, so that a blank line parts it from
    others. `told` are notices that were shown. `context` are tokens of the
    conversation: as the service counted them last, and an estimate of what is new.
    `tasks` are those of the model's list. `phrases` are shown in turn while the model thinks;
    `names_models`, `names_sources`: answers say their model, and what they cite."""

    titles: Mapping[str, str] = {}
    own: frozenset[str] = frozenset()
    calls: tuple[ShownCall, ...] = ()
    subagents: tuple[ShownSubagent, ...] = ()
    tasks: tuple[Mapping[str, str], ...] = ()
    open_text: str = ""
    thought: str = ""
    busy_since: float | None = None
    answering: bool = False
    pause: RetryPause | None = None
    spoken: bool = False
    refused: bool = False
    page: int = 0
    totals: Totals = Totals()
    prompt_start: Totals = Totals()
    shown: frozenset[str] = frozenset()
    group: str = ""
    told: tuple[str, ...] = ()
    context: int = 0
    phrases: tuple[str, ...] = ()
    names_models: bool = False
    names_sources: bool = False

    def with_looks(self, ui: UiSettings) -> "View":
        """The view as these settings want it."""
        return msgspec.structs.replace(
            self,
            phrases=() if ui.accessibility.disable_loading_phrases else ui.custom_witty_phrases,
            names_models=ui.show_model_info_in_chat,
            names_sources=ui.show_citations,
        )


Step = tuple[View, tuple[Block, ...]]


def gap(view: View) -> tuple[Block, ...]:
    """The blank line before something of its own, where anything is above it."""
    return (Lines(((),)),) if view.group else ()


def print_lines(
    view: View,
    group: str,
    lines: list[Line],
    *,
    clip: bool = False,
    fold: bool = False,
    hang: int = 0,
) -> Step:
    """Finished lines, with a blank one before them where something else is above."""
    if not lines:
        return view, ()
    apart = view.group and (view.group != group or group == "user")
    gap: list[Line] = [()] if apart else []
    return msgspec.structs.replace(view, group=group), (Lines((*gap, *lines), clip, fold, hang),)


def end_run(view: View) -> View:
    """The view when nothing runs any more."""
    return msgspec.structs.replace(
        view,
        calls=(),
        subagents=(),
        open_text="",
        thought="",
        busy_since=None,
        answering=False,
        pause=None,
        spoken=False,
        refused=False,
    )


def since(totals: Totals, start: Totals) -> Totals:
    """Usage after `start`."""
    return Totals(
        **{name: getattr(totals, name) - getattr(start, name) for name in Totals.__struct_fields__}
    )


OUTPUT_KEPT = 4_000
CHARACTERS_PER_TOKEN = 4
PROMPT_ROWS, PROMPT_END = 40, 5
"""Lines of a long prompt that stay in the scrollback: its beginning and its end."""
MAX_MESSAGE = 2_000


def advance(view: View, event: Event, now: float) -> Step:
    """The view after an event at `now` (seconds of any clock), and what is finished with it. An
    event without a step changes nothing."""
    step = _STEPS.get(type(event))
    return (view, ()) if step is None else step(view, event, now)


def _run_started(view: View, event: RunStartedEvent, now: float) -> Step:
    fresh = [each for each in event.notices if each not in view.told]
    told = (*view.told, *fresh)
    view = msgspec.structs.replace(view, busy_since=now, prompt_start=view.totals, told=told)
    lines = [_warning(sitting_words(each)) for each in fresh]
    return print_lines(view, "notice", lines, fold=True)


def _show_thought(view: View, event: ThoughtEvent, _now: float) -> Step:
    return msgspec.structs.replace(view, thought=one_line(event.subject, 200)), ()


def _user_message(view: View, event: UserMessageEvent, _now: float) -> Step:
    return print_lines(view, "user", prompt_lines(event.text), fold=True)


def _room_event(view: View, event: CompressedEvent | OutputsMaskedEvent, _now: float) -> Step:
    view = msgspec.structs.replace(view, context=_compressed_size(view, event))
    return _after_text(view, "notice", _room_lines(event))


def prompt_lines(text: str, head: int = PROMPT_ROWS, end: int = PROMPT_END) -> list[Line]:
    """A person's message, as it stays in the scrollback; of a long one so many first and last
    lines."""
    first, *rest = [(("user", safe(each)),) for each in text.split("\n")]
    lines: list[Line] = [(("accent", "> "), *first), *((("", "  "), *each) for each in rest)]
    if len(lines) > head + end:
        left = len(lines) - head - end
        told = f"  … {count_noun(left, 'more line')} …{SEE_ALL}"
        lines[head:-end] = [line(told, "dim")]
    return [(BAR, *each) for each in lines]


def _content(view: View, event: ContentEvent, _now: float) -> Step:
    text = view.open_text + without_controls(event.text)
    pieces, rest = split(text)
    view = msgspec.structs.replace(view, open_text=rest, thought="", answering=True, pause=None)
    blocks: list[Block] = []
    for piece in pieces:
        view, block = _markdown(view, piece)
        blocks += block
    return view, tuple(blocks)


def _markdown(view: View, text: str) -> Step:
    shown = (*gap(view), Markdown(text))
    return msgspec.structs.replace(view, group="text", spoken=True), shown


def _flush(view: View) -> Step:
    """Finishes the open part of the answer as it is."""
    text = view.open_text.strip("\n")
    view = msgspec.structs.replace(view, open_text="", answering=False)
    return _markdown(view, text) if text.strip() else (view, ())


def _after_text(view: View, group: str, lines: list[Line]) -> Step:
    view, before = _flush(view)
    view, after = print_lines(view, group, lines, fold=True)
    return view, (*before, *after)


RequestEvent = ApiRequestEvent | ApiResponseEvent | RetryEvent | ModelFallbackEvent


def _request_event(view: View, event: RequestEvent, now: float) -> Step:
    if isinstance(event, RetryEvent | ModelFallbackEvent):
        return _again(view, event, now)
    if (
        isinstance(event, ApiRequestEvent)
        and event.role == "subagent"
        and event.parent_call_id
        and not event.continues
    ):
        view = _with_turn(view, event.parent_call_id, now)
    blocks: tuple[Block, ...] = ()
    main = isinstance(event, ApiRequestEvent) and event.role == "main" and not event.continues
    if main and view.names_models:
        view, blocks = print_lines(view, "model", [line(f"Model: {one_line(event.model)}", "dim")])
    return _count_event(view, event), blocks


def _name_sources(view: View, event: FinishedEvent, _now: float) -> Step:
    if not (view.names_sources and event.citations):
        return view, ()
    return _after_text(
        view, "sources", [line(f"Source: {each}", "dim") for each in event.citations]
    )


def _with_turn(view: View, call_id: str, now: float) -> View:
    """Counts a request of the subagent that a call started."""
    at_work = {each.call_id: each for each in view.subagents}
    agent = at_work.get(call_id) or ShownSubagent(call_id=call_id, since=now)
    at_work[call_id] = msgspec.structs.replace(agent, turns=agent.turns + 1)
    return msgspec.structs.replace(view, subagents=tuple(at_work.values()))


def _again(view: View, event: RetryEvent | ModelFallbackEvent, now: float) -> Step:
    """Shows the retry after a failed request. Printed text stays, marked as void; the rest is
    removed."""
    replace = msgspec.structs.replace
    lines: list[Line] = []
    if event.role != "main":
        return view, ()
    if event.retract:
        view = replace(view, open_text="", thought="", answering=False)
        if view.spoken:
            lines.append(_warning("The answer above was cut off; it starts again."))
        view = replace(view, spoken=False)
    if isinstance(event, ModelFallbackEvent):
        told = f"{event.model} answers from here on instead of {event.instead_of}: {event.reason}"
        lines.append(_warning(told))
        view = replace(view, pause=None)
    else:
        attempt = f"attempt {event.attempt} of {event.max_attempts}"
        why = one_line(sentence(without_controls(event.reason)), MAX_MESSAGE)
        view = replace(view, pause=RetryPause(why=why, until=now + event.delay_s, attempt=attempt))
    return print_lines(view, "notice", lines, fold=True)


def _compressed_size(view: View, event: CompressedEvent | OutputsMaskedEvent) -> int:
    return event.new_tokens if event.role == "main" else view.context


def _room_lines(event: CompressedEvent | OutputsMaskedEvent) -> list[Line]:
    from alhena.frontends.headless.output import compressed_words, is_loss
    from alhena.frontends.shared.descriptions import masked_words

    if isinstance(event, OutputsMaskedEvent):
        return [line(masked_words(event), "dim")]
    words = compressed_words(event)
    return [_warning(words) if is_loss(event) else line(words, "dim")]


def _notice(view: View, event: WarningEvent | LoopDetectedEvent, _now: float) -> Step:
    if isinstance(event, WarningEvent):
        return _after_text(view, "notice", [_warning(event.message)])
    from alhena.frontends.headless.output import is_news, loop_words

    if not is_news(event):
        return view, ()
    return _after_text(view, "notice", [_warning(loop_words(event))])


def _warning(message: str) -> Line:
    return warning_line(message_line(without_controls(message), MAX_MESSAGE))


def _error(view: View, event: ErrorEvent, _now: float) -> Step:
    if event.exit_code == 130:
        return _after_text(view, "notice", _stopped_lines(view))
    words = sentence(sitting_words(event.message))
    message = message_line(without_controls(words), MAX_MESSAGE)
    return _after_text(view, "notice", [(("error", "✗ "), *line(message, "error"))])


def _finish_run(view: View, event: RunFinishedEvent, _now: float) -> Step:
    made = since(view.totals, view.prompt_start)
    used = f"  {count_noun(event.turns, 'turn')} · {usage_words(made, event.duration_ms)}"
    cancelled = _stopped_lines(view) if event.reason == "cancelled" else []
    view, blocks = _after_text(view, "end", [*cancelled, line(used, "dim")])
    return end_run(view), blocks


def _stopped_lines(view: View) -> list[Line]:
    """The words for a turn that the person stopped, below the reason of a retry under way."""
    why = [_warning(view.pause.why)] if view.pause is not None else []
    return [*why, line(STOPPED if view.refused else "■ Stopped by you.", "warning")]


STOPPED = "■ Stopped. What should be done instead?"


def usage_words(used: Totals, milliseconds: float) -> str:
    """Calls, time and tokens on one line."""
    parts = [duration(milliseconds)]
    if used.calls:
        failed = f" ({used.failed_calls} failed)" if used.failed_calls else ""
        parts.insert(0, count_noun(used.calls, "call") + failed)
    if used.input_tokens or used.output_tokens:
        cached = f" ({used.cached_tokens:,} cached)" if used.cached_tokens else ""
        parts.append(f"{used.input_tokens:,} tokens in{cached}, {used.output_tokens:,} out")
    return " · ".join(parts)


def _count_event(view: View, event: ApiRequestEvent | ApiResponseEvent) -> View:
    replace = msgspec.structs.replace
    totals = view.totals
    if isinstance(event, ApiRequestEvent):
        totals = replace(totals, requests=totals.requests + 1)
        return replace(view, totals=totals, spoken=view.spoken and event.continues)
    if event.role == "main" and event.input_tokens:
        before = view.context if event.continues else event.input_tokens
        view = replace(view, context=before + event.output_tokens + event.thoughts_tokens)
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
    parent = event.parent_call_id or ""
    if isinstance(event, OutputTruncatedEvent):
        where = f"; all of it: {event.output_file}" if event.output_file else ""
        told = f"of {event.original_length:,} characters the model gets the two ends{where}"
        problem = f" ({event.problem})" if event.problem else ""
        return print_lines(view, "calls", [line(f"  {told}{problem}", "dim")])
    if isinstance(event, ToolCallRequestEvent):
        view, blocks = _flush(view)
        call = ShownCall(
            call_id=event.call_id,
            name=event.name,
            since=now,
            args=event.args,
            description=describe_arguments(event.args),
            parent=parent,
        )
        return replace(view, calls=(*view.calls, call), thought=""), blocks
    known = next((each for each in view.calls if each.call_id == event.call_id), None)
    call = known or ShownCall(call_id=event.call_id, name="", since=now, parent=parent)
    if isinstance(event, ToolCallResponseEvent):
        return _end_call(view, call, event)
    if isinstance(event, ToolOutputEvent):
        before, above = ("", 0) if event.screen else (call.output, call.above)
        output = before + only_colours(event.text)
        gone = max(len(output) - OUTPUT_KEPT, 0)
        above += output.count("\n", 0, gone)
        call = replace(call, output=output[gone:], above=above)
    else:
        starts = event.status == "executing" and call.status != "executing"
        call = replace(
            call,
            name=event.name,
            status=event.status,
            description=event.description or call.description,
            since=now if starts else call.since,
            ran=call.ran or starts,
        )
    return replace(view, calls=_with(view.calls, call)), ()


def _end_call(view: View, call: ShownCall, event: ToolCallResponseEvent) -> Step:
    replace = msgspec.structs.replace
    totals = replace(
        view.totals,
        calls=view.totals.calls + 1,
        failed_calls=view.totals.failed_calls + (event.outcome == "error"),
        tool_ms=view.totals.tool_ms + event.duration_ms,
    )
    rest = tuple(each for each in view.calls if each.call_id != event.call_id)
    context = view.context
    if context and event.parent_call_id is None:
        context += event.content_length // CHARACTERS_PER_TOKEN
    working = tuple(each for each in view.subagents if each.call_id != event.call_id)
    refused = view.refused or is_refused(event)
    view = replace(
        view, calls=rest, subagents=working, totals=totals, context=context, refused=refused
    )
    nested = bool(call.parent)
    return call_blocks(
        view, event, call.description, nested=nested, output=call.output, ran=call.ran
    )


def call_blocks(
    view: View,
    event: ToolCallResponseEvent,
    description: str,
    *,
    nested: bool = False,
    output: str = "",
    ran: bool = False,
) -> Step:
    """An ended call as shown in the scrollback. `output` is the end of its output, in colours;
    `ran`: it had begun when it ended."""
    from alhena.tools.catalogue import plain_name  # not before the prompt is painted

    title = view.titles.get(event.name) or plain_name(event.name, event.mcp_server_name)
    seen, own = event.call_id in view.shown, event.call_id in view.own
    head = header(event, title, one_line(description, 300), ran=ran)
    if nested:  # the call that runs the subagent shows what came of it
        return print_lines(view, "calls", [(("", "  "), *head)], clip=True)
    if isinstance(event.display, dict) and event.display.get("type") == "todo_list":
        listed = cast("list[Mapping[str, str]]", event.display.get("todos", []))
        view = msgspec.structs.replace(view, tasks=tuple(listed))
    rows = ended_lines(event, seen=seen, own=own, output=output)
    if view.page and is_more(event, rows, seen=seen):
        head = (*head, ("dim", f"  #{view.page}"))
    failed = event.outcome == "error"
    view, heading = print_lines(view, "calls", [head], clip=not failed, fold=failed)
    fold, hang = event.status != "success", len(INDENT[1])
    if isinstance(event.display, dict) and event.display.get("type") == "file_diff":
        hang += DIFF_COLUMN
    view, body = print_lines(view, "calls", rows, fold=fold, hang=hang)
    return view, (*heading, *body)


def _with(calls: tuple[ShownCall, ...], call: ShownCall) -> tuple[ShownCall, ...]:
    if all(each.call_id != call.call_id for each in calls):
        return (*calls, call)
    return tuple(call if each.call_id == call.call_id else each for each in calls)


_STEPS: dict[type[Event], Callable[[View, Any, float], Step]] = {
    RunStartedEvent: _run_started,
    UserMessageEvent: _user_message,
    ThoughtEvent: _show_thought,
    ContentEvent: _content,
    WarningEvent: _notice,
    LoopDetectedEvent: _notice,
    CompressedEvent: _room_event,
    OutputsMaskedEvent: _room_event,
    ErrorEvent: _error,
    FinishedEvent: _name_sources,
    RunFinishedEvent: _finish_run,
    ApiRequestEvent: _request_event,
    ApiResponseEvent: _request_event,
    RetryEvent: _request_event,
    ModelFallbackEvent: _request_event,
    ToolCallRequestEvent: _call_event,
    ToolCallUpdateEvent: _call_event,
    ToolOutputEvent: _call_event,
    ToolCallResponseEvent: _call_event,
    OutputTruncatedEvent: _call_event,
}
"""Event -> its step; of the others the person sees nothing, or something else draws them."""
