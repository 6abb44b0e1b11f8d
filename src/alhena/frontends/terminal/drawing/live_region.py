"""The region above the prompt: open tasks, running calls, the unfinished end of an answer."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
from prompt_toolkit.formatted_text import ANSI

from alhena.display_text import one_line
from alhena.frontends.shared.listings import count_noun
from alhena.frontends.terminal.drawing.call_result import duration, task_lines, without_title_words
from alhena.frontends.terminal.drawing.lines import (
    ELLIPSIS,
    Line,
    clip_line,
    coloured_lines,
    fold_line,
    line,
    wrap_text,
)
from alhena.frontends.terminal.drawing.view import ShownCall, ShownSubagent, View

OUTPUT_ROWS = 5
TREE_ROWS = 6
"""Lines that subagents take at most; the rest are counted."""
TASK_ROWS, FEW_TASK_ROWS, LOW = 5, 1, 16
"""Lines of open tasks, and those in a terminal lower than so many rows."""
CAUSE_ROWS = 2
"""Rows that the cause of a retry may take."""
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PHRASE_S = 15
"""Seconds that a phrase is shown."""
DONE = ("completed", "cancelled")
QUEUE_ROWS = 3
QUEUE_TEXT = 24
"""Columns of the last queued prompt that its hint leaves to it."""
PAUSE_S = 0.1
SHARE = 5
"""Pauses between two drawings take at least so many times as long as a drawing."""
MAX_CHARACTERS = 16_000
_STRUCTURE = re.compile(r"(?m)^ {0,3}(?:(?:[-*+]|\d{1,9}[.)]|#{1,6})\s|[|>]|`{3}|~{3})")
"""Lists, headings, tables, quotations and code; other text is shown as it comes."""


def live(
    view: View,
    columns: int,
    rows: int,
    now: float,
    *,
    asking: bool = False,
    drawn: Sequence[Line] | None = None,
) -> list[Line]:
    """The live region in at most `rows` lines of `columns`: the unfinished end of the answer (as it
    was `drawn`), running calls and the model's activity."""
    if view.busy_since is None and not view.calls:
        return []
    waiting = ("awaiting_approval",) if asking else ()  # the question is about it
    top = [call for call in view.calls if not call.parent and call.status not in waiting]
    trees = {call.call_id: list(_tree(call, view, columns, now)) for call in top}
    over = sum(map(len, trees.values())) - TREE_ROWS
    lines: list[Line] = []
    left = TREE_ROWS - (over > 0)
    for call in top:
        lines += _call_lines(call, view, columns, now)
        lines += trees[call.call_id][:left]
        left -= min(len(trees[call.call_id]), left)
    if over > 0:
        lines.append(line(f"  … {count_noun(over + 1, 'more subagent')}", "dim"))
    if not lines and not asking and view.busy_since is not None:
        lines += _thinking(view, columns, now)
    if len(lines) > rows > 0:
        lines[: len(lines) - rows + 1] = [
            line(f"… {count_noun(len(lines) - rows + 1, 'line')} above", "dim")
        ]
    room = max(rows - len(lines), 1)
    text = drawn or [
        (("", piece),)
        for each in view.open_text.split("\n")[-room:]
        for piece in wrap_text(each.expandtabs(4), max(columns, 1))
    ]
    gap: list[Line] = [()] if view.group else []
    shown = [*gap, *text[-room:], *lines] if view.open_text.strip() else lines
    return [clip_line(each, columns) for each in shown[len(shown) - min(rows, len(shown)) :]]


def _thinking(view: View, columns: int, now: float) -> list[Line]:
    seconds = 0.0 if view.busy_since is None else now - view.busy_since
    pause = view.pause
    if pause is not None and now < pause.until:
        left = duration((int(pause.until - now) + 1) * 1000)
        why = fold_line((("warning", "! "), ("warning", pause.why)), columns)
        if len(why) > CAUSE_ROWS:
            why[CAUSE_ROWS - 1 :] = [
                clip_line((*why[CAUSE_ROWS - 1], ("dim", f" {ELLIPSIS}")), columns)
            ]
        again = f"  Trying again in {left} ({pause.attempt}, Esc to interrupt)"
        return [*why, *fold_line((("dim", again),), columns)]
    spinner = SPINNER[int(seconds * 10) % len(SPINNER)]
    phrases = view.phrases or ("Thinking",)
    phrase = one_line(phrases[int(seconds / PHRASE_S) % len(phrases)], 100)
    what = "Answering" if view.answering else phrase
    thought = f" {view.thought}" if view.thought and not view.answering else ""
    hint = f" ({duration(int(seconds) * 1000)}, Esc to interrupt)"
    return [(("accent", spinner), ("", f" {what}"), ("dim", thought), ("dim", hint))]


def _call_lines(call: ShownCall, view: View, columns: int, now: float) -> list[Line]:
    title = one_line(view.titles.get(call.name, call.name))
    took = now - call.since
    running = call.status == "executing"
    mark = SPINNER[int(took * 10) % len(SPINNER)] if running else "·"
    state = "" if running else " · waiting" if call.status else ""
    lasted = f" · {duration(int(took) * 1000)}" if running and took >= 1 else ""
    lines: list[Line] = [
        clip_line((("accent", mark), ("bold", f" {title}")), max(columns - len(lasted + state), 1))
    ]
    room = columns - sum(len(text) for _, text in lines[0]) - len(lasted + state) - 1
    what = without_title_words(title, one_line(call.description, 400))
    shown = clip_line(line(f" {what}"), max(room, 0))
    lines[0] = (*lines[0], *(shown if what else ()), ("dim", state + lasted))
    told = "" if _subagent(call, view) else call.output
    rows = coloured_lines(told, "dim") if told else []
    above = call.above + max(len(rows) - OUTPUT_ROWS, 0)
    if rows and above:
        lines.append(clip_line((("dim", f"  │ … {count_noun(above, 'line')} above"),), columns))
    lines += (clip_line((("dim", "  │ "), *each), columns) for each in rows[-OUTPUT_ROWS:])
    return lines


def _subagent(call: ShownCall, view: View) -> ShownSubagent | None:
    return next((each for each in view.subagents if each.call_id == call.call_id), None)


def _tree(call: ShownCall, view: View, columns: int, now: float, depth: int = 1) -> Iterator[Line]:
    """A line for the subagent that a call started, and below it those that this one started."""
    agent = _subagent(call, view)
    if agent is None:
        return
    children = [each for each in view.calls if each.parent == call.call_id]
    working = [each for each in children if _subagent(each, view) is None]
    waits = [each for each in working if each.status == "awaiting_approval"]
    state = "waits for approval" if waits else "running" if children else "thinking"
    at_work = (waits or working)[:1]
    more = f" +{len(working) - 1}" if len(working) > 1 else ""
    seconds = duration(int(now - agent.since) * 1000)
    name = ("bold", one_line(str(call.args.get("agent_name") or call.name), 40))
    begin, end = f"  {state}", f"{more} · {count_noun(agent.turns, 'turn')} · {seconds}"
    indent = "  " * depth + "└ "
    room = columns - len(indent + name[1] + begin + end) - 3
    for each in at_work if room > 0 else ():
        title = view.titles.get(each.name, each.name)
        what = without_title_words(title, each.description)
        begin += f" · {one_line(f'{title} {what}', room)}"
    yield (("dim", indent), name, ("dim", begin + end))
    for each in children:
        yield from _tree(each, view, columns, now, depth + 2)


def open_task_lines(view: View, columns: int, rows: int) -> list[Line]:
    """The tasks of the model that are not done, the one in progress first where there is no room
    for all; nothing when all are done."""
    left = [each for each in view.tasks if each.get("status") not in DONE]
    if not left:
        return []
    most = TASK_ROWS if rows >= LOW else FEW_TASK_ROWS
    at = next((n for n, each in enumerate(left) if each.get("status") == "in_progress"), 0)
    start = max(min(at, len(left) - most), 0)
    done = len(view.tasks) - len(left)
    lines = [line(f"Tasks: {done} of {len(view.tasks)} done", "dim")]
    lines += task_lines(left[start : start + most])
    if len(left) > most:
        lines[0] = (*lines[0], ("dim", f", {len(left) - most} more open"))
    return [clip_line(each, columns) for each in lines]


def queue_lines(
    queued: Sequence[str],
    columns: int,
    *,
    kept: bool = False,
    soon: bool = False,
    asking: bool = False,
) -> list[Line]:
    """The last of the prompts that wait; the rest are counted. Beside a question (`asking`) no key
    changes them."""
    state = "kept" if kept else "queued"
    shown = [line(f"{state}: {one_line(each, 400)}", "dim") for each in queued[-QUEUE_ROWS:]]
    if len(queued) > QUEUE_ROWS:
        shown.insert(0, line(f"{len(queued) - QUEUE_ROWS} more {state}", "dim"))
    if shown:
        what = ["goes in after the current calls"] if soon else []
        what += [] if asking else ["Enter sends, Up edits" if kept else "Up edits"]
        while what and columns - len("; ".join(what)) - len("  ()") < QUEUE_TEXT:
            del what[0]  # the prompt is worth more
        hint = f"  ({'; '.join(what)})" if what else ""
        shown[-1] = (*clip_line(shown[-1], max(columns - len(hint), 1)), ("dim", hint))
    return [clip_line(each, columns) for each in shown]


class _DrawnText(msgspec.Struct, frozen=True):
    text: str
    columns: int
    rows: list[Line]


class LiveMarkdown:
    """Renders in a thread, one text at a time; `changed` is called when there is something new to
    show."""

    def __init__(self, changed: Callable[[], None], render: Callable[[str, int], str]) -> None:
        self._changed = changed
        self._render = render
        self._wanted = ("", 0)
        self._drawn = _DrawnText("", 0, [])
        self._drawing: asyncio.Task[None] | None = None

    def rows(self, text: str, columns: int) -> list[Line] | None:
        """The rows of a text, or of its beginning, as they were drawn last; None for text without
        structure, and before the first drawing."""
        if len(text) > MAX_CHARACTERS or not _STRUCTURE.search(text):
            return None
        self._wanted = (text, columns)
        drawn = self._drawn
        if (drawn.text, drawn.columns) != self._wanted and self._drawing is None:
            self._drawing = asyncio.ensure_future(self._draw())
            self._drawing.add_done_callback(self._end_drawing)
        known = drawn.rows and drawn.columns == columns and text.startswith(drawn.text)
        return drawn.rows if known else None

    def close(self) -> None:
        """Ends the drawing."""
        if self._drawing is not None:
            self._drawing.cancel()

    async def _draw(self) -> None:
        while (self._drawn.text, self._drawn.columns) != self._wanted:
            text, columns = self._wanted
            start = time.perf_counter()
            shown = await asyncio.to_thread(self._render, text, columns)
            rows = [_row(each) for each in shown.rstrip("\n").split("\n")]
            self._drawn = _DrawnText(text, columns, rows)
            self._changed()
            await asyncio.sleep(max(PAUSE_S, SHARE * (time.perf_counter() - start)))

    def _end_drawing(self, drawing: "asyncio.Task[None]") -> None:
        self._drawing = None
        if not drawing.cancelled():
            drawing.result()


def _row(text: str) -> Line:
    return tuple((style, char) for style, char, *_ in ANSI(text).__pt_formatted_text__())
