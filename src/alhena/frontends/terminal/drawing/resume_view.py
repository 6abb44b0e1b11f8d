"""A resumed conversation as shown in the scrollback."""

import asyncio
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from alhena.agent.loop import MEANWHILE
from alhena.agent.runner import SessionRunner
from alhena.display_text import one_line, without_controls
from alhena.events import ToolCallResponseEvent, ToolCallUpdateEvent
from alhena.frontends.shared.listings import count_noun
from alhena.frontends.terminal.drawing.call_result import PagerBlocks, describe_arguments, is_long
from alhena.frontends.terminal.drawing.lines import Block, Line, Markdown, clip_line, line
from alhena.frontends.terminal.drawing.markdown_pieces import split
from alhena.frontends.terminal.drawing.view import (
    Step,
    ToolTitles,
    View,
    call_blocks,
    gap,
    print_lines,
    prompt_lines,
)
from alhena.session.journal import read_session
from alhena.session.records import Prompted, record_of
from alhena.session.replay import Replay
from alhena.session.store import project_store
from alhena.wire.content import MODEL, Content, FunctionCall, FunctionResponse, Part, meant_call

MAX_CONTENTS = 300
"""Messages of a long conversation that are shown: the last ones."""
MAX_ARGUMENTS = 300
PASTE_ROWS = 2
"""First and last lines of a prompt with a paste that are shown."""

_PROMPT = b'{"type":"prompt",'
_EVENT = b'{"type":"event",'
_KINDS = (b'"event":{"type":"tool_call_response"', b'"event":{"type":"tool_call_update"')
_KIND_WITHIN = 120


class EarlierCall(msgspec.Struct, frozen=True):
    """A call as it was shown, and those made within it."""

    event: ToolCallResponseEvent
    description: str
    nested: "tuple[EarlierCall, ...]"


class EarlierMessages(msgspec.Struct, frozen=True):
    """Messages of a resumed session; `prompts` are the person's texts among them, `calls` the ended
    calls by the number of the message that answers them, and their id, `edits` all that changed
    files. `tokens`: size of the conversation as the service counted it last."""

    contents: tuple[Content, ...]
    prompts: frozenset[str]
    calls: Mapping[tuple[int, str], EarlierCall] = {}
    edits: tuple[ToolCallResponseEvent, ...] = ()
    tokens: int = 0


async def load_earlier(agent: SessionRunner, view: View, pages: PagerBlocks) -> Step:
    """The conversation of a resumed session, as shown; `pages` get the whole of what is cut. Raises
    SessionError."""
    toolset = agent.toolset
    path = project_store(os.environ, toolset.workspace.cwd).path(agent.session_id)
    earlier = await asyncio.to_thread(read_earlier, path)
    view = msgspec.structs.replace(view, titles=ToolTitles(toolset.registry))
    return await asyncio.to_thread(show_earlier, view, earlier, agent.session_id, pages)


def read_earlier(path: Path) -> EarlierMessages:
    """The conversation that a journal leads to, without what the environment said. Takes its time.
    Raises SessionError."""
    replay, prompts, calls = Replay(), set[str](), _Calls()

    def take(row: bytes) -> None:
        if row.startswith(_EVENT):
            calls.take(row)
        elif row.startswith(_PROMPT) and isinstance(said := record_of(row), Prompted):
            prompts.add(said.text)
        replay.feed(row)

    read_session(path, take)
    opening = 0 if replay.header is None else replay.header.opening
    contents = tuple(entry.content for entry in replay.contents[opening:])
    tokens = 0 if replay.counted is None else replay.counted[1]
    edits = tuple(calls.edits)
    return EarlierMessages(contents, frozenset(prompts), calls.of(contents), edits, tokens)


class _Calls:
    """Collects ended calls from the events of a journal, and `edits`: those that changed a file."""

    def __init__(self) -> None:
        self.edits: list[ToolCallResponseEvent] = []
        self._descriptions: dict[str, str] = {}
        self._nested: defaultdict[str, list[EarlierCall]] = defaultdict(list)
        self._ended: defaultdict[str, list[EarlierCall]] = defaultdict(list)

    def take(self, row: bytes) -> None:
        """Takes the line of an event."""
        if not any(row.find(kind, 0, _KIND_WITHIN) > 0 for kind in _KINDS):
            return
        try:
            event = _rows().decode(row).event
        except msgspec.ValidationError:
            return  # of another version: the call is shown by its arguments
        if isinstance(event, ToolCallUpdateEvent):
            self._descriptions[event.call_id] = event.description
            return
        if isinstance(event.display, dict) and "fileDiff" in event.display:
            self.edits.append(event)
        nested = tuple(self._nested.pop(event.call_id, ()))
        ended = EarlierCall(event, self._descriptions.pop(event.call_id, ""), nested)
        if event.parent_call_id is None:
            self._ended[event.call_id].append(ended)
        else:
            self._nested[event.parent_call_id].append(ended)

    def of(self, contents: Sequence[Content]) -> dict[tuple[int, str], EarlierCall]:
        """The calls that messages answer. Ids may recur: the last message has the last call."""
        found: dict[tuple[int, str], EarlierCall] = {}
        for index in range(len(contents) - 1, -1, -1):
            for part in contents[index].parts:
                name = part.function_response and part.function_response.id
                if name and self._ended[name]:
                    found[index, name] = self._ended[name].pop()
        return found


class _Row(msgspec.Struct):
    event: ToolCallResponseEvent | ToolCallUpdateEvent


@cache
def _rows() -> msgspec.json.Decoder[_Row]:
    return msgspec.json.Decoder(_Row)


def show_earlier(
    view: View, earlier: EarlierMessages, session_id: str, pages: PagerBlocks | None = None
) -> Step:
    """The end of a conversation as it was when it was said, and how much comes before that. Takes
    its time."""
    pages = pages or PagerBlocks()
    blocks: list[Block] = []
    view = msgspec.structs.replace(view, context=earlier.tokens)
    first = _first_message(earlier)
    if first:
        told = f"… {count_noun(first, 'earlier message')}: alhena sessions show {session_id}"
        view, blocks = _onto(blocks, print_lines(view, "notice", [line(told, "dim")]))
    calls: dict[str | None, FunctionCall] = {}
    for index, content in enumerate(earlier.contents[first:], first):
        calls |= {
            part.function_call.id: meant_call(part.function_call)
            for part in content.parts
            if part.function_call is not None
        }
        if content.role == MODEL:
            view, blocks = _onto(blocks, _answer(view, content))
        else:
            view, blocks = _onto(blocks, _user_message(view, content, earlier.prompts, pages))
            for part in content.parts:
                response = part.function_response
                if response is None:
                    continue
                call = calls.get(response.id)
                ended = earlier.calls.get((index, response.id or ""))
                if ended is not None:
                    if not ended.description and call is not None:
                        told = describe_arguments(call.args or {})
                        ended = msgspec.structs.replace(ended, description=told)
                    view, blocks = _onto(blocks, _show_call(view, ended, pages))
                else:
                    row = _call_line(response, call, view.titles)
                    view, blocks = _onto(blocks, print_lines(view, "calls", [row], clip=True))
    pages.changes.clear()
    for each in earlier.edits:
        pages.note_change(each)
    return view, tuple(blocks)


def _onto(blocks: list[Block], step: Step) -> tuple[View, list[Block]]:
    view, more = step
    blocks += more
    return view, blocks


def _first_message(earlier: EarlierMessages) -> int:
    """Index of the first shown message: all, or the last ones from a prompt on; where they have
    none, from one of the model's, since results of its calls are unreadable without it."""
    start = max(len(earlier.contents) - MAX_CONTENTS, 0)
    last = list(enumerate(earlier.contents))[start:] if start else []
    prompts = (at for at, content in last if _prompt(content, earlier.prompts))
    answers = (at for at, content in last if content.role == MODEL)
    return next(prompts, next(answers, start))


def _prompt(content: Content, prompts: frozenset[str]) -> bool:
    return content.role != MODEL and any(part.text in prompts for part in content.parts)


def _text(parts: Sequence[Part]) -> str:
    return "".join(part.text or "" for part in parts if not part.thought)


def _answer(view: View, content: Content) -> Step:
    text = without_controls(_text(content.parts))
    pieces, rest = split(text)
    blocks: list[Block] = []
    for piece in (*pieces, rest.strip("\n")):
        if piece.strip():
            blocks += (*gap(view), Markdown(piece))
            view = msgspec.structs.replace(view, group="text")
    return view, tuple(blocks)


def _user_message(
    view: View, content: Content, prompts: frozenset[str], pages: PagerBlocks
) -> Step:
    """A person's message, and the size of its attachments."""
    lines: list[Line] = []
    beside = 0
    for part in content.parts:
        if part.text and part.text.startswith(MEANWHILE):
            lines += _prompt_rows(part.text.removeprefix(MEANWHILE))
        elif part.text and part.text in prompts:
            lines += _prompt_rows(part.text)
            pages.prompt(part.text)
        else:
            beside += len(part.text or "")
    if not lines and beside and not any(part.function_response for part in content.parts):
        lines = [line(f"> {one_line(_text(content.parts), MAX_ARGUMENTS)}", "dim")]
    elif lines and beside:
        lines.append(line(f"  and {count_noun(beside, 'character')} with it", "dim"))
    media = [part.inline_data.mime_type for part in content.parts if part.inline_data]
    lines += (line(f"  and a file ({one_line(kind, 60)})", "dim") for kind in media)
    return print_lines(view, "user", lines, fold=True)


def _prompt_rows(text: str) -> list[Line]:
    """A person's words. Of a paste, which was shown as a mark, the lines that may have been written
    around it."""
    if not is_long(text):
        return prompt_lines(text)
    return [clip_line(row, MAX_ARGUMENTS) for row in prompt_lines(text, PASTE_ROWS, PASTE_ROWS)]


def _show_call(view: View, ended: EarlierCall, pages: PagerBlocks) -> Step:
    blocks: list[Block] = []
    numbers = [pages.call(each.event, each.description) for each in (*ended.nested, ended)]
    view = msgspec.structs.replace(view, page=numbers[-1])
    for each in ended.nested:
        view, blocks = _onto(blocks, call_blocks(view, each.event, each.description, nested=True))
    view, blocks = _onto(blocks, call_blocks(view, ended.event, ended.description))
    return view, tuple(blocks)


def _call_line(
    response: FunctionResponse, call: FunctionCall | None, titles: Mapping[str, str]
) -> Line:
    mark = ("error", "✗") if "error" in response.response else ("ok", "✓")
    name, args = (response.name, {}) if call is None else (call.name, call.args or {})
    title = one_line(titles.get(name, name))
    values = (
        each if isinstance(each, str) else msgspec.json.encode(each).decode()
        for each in args.values()
    )
    return (mark, ("bold", f" {title}"), ("", f" {one_line(', '.join(values), MAX_ARGUMENTS)}"))
