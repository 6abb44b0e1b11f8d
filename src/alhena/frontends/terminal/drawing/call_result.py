"""Ended tool calls in lines: a diff with syntax colours, a list of tasks, an output."""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.display_text import escaped, exact, one_line, without_controls
from alhena.events import (
    ApiRequestEvent,
    Event,
    RunFinishedEvent,
    ThoughtEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
)
from alhena.frontends.shared.listings import count_noun
from alhena.frontends.terminal.drawing.lines import TAB, Line, Span, line, plain, safe

if TYPE_CHECKING:
    from pygments.lexer import Lexer


_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_FILE = ("Index: ", "=====")
_WORDS = re.compile(r"[A-Z][a-z]*|[a-z]+")
_PIECE = re.compile(r"\w+|\s+|.")
_SIDES = {"removed": "r", "added": "a"}
MARKED_ROWS, MARKED_PIECES = 20, 200
"""Rows one after the other, and pieces of a row, up to which changed words are marked."""
ALIKE = 0.5
"""Least similarity of two rows whose changed words are marked."""


def diff_lines(diff: str, name: str = "") -> list[Line]:
    """The lines of a diff of one file, with the syntax of a file of this name: number in the new
    file, of a removed line in the old one, sign, text. File headers are left out; what cannot be
    seen in a line is escaped, padding is counted."""
    lines: list[Line] = []
    number: int | None = None
    old = 0
    for raw in diff.rstrip("\n").split("\n"):
        hunk = _HUNK.match(raw)
        if hunk:
            if number is not None:
                lines.append((("dim", "     ⋮"),))
            old, number = int(hunk[1]), int(hunk[2])
        elif number is not None:
            sign, text = raw[:1] or " ", exact(raw[1:]).expandtabs(TAB)
            style = {"+": "added", "-": "removed", "\\": "dim"}.get(sign, "")
            shown = {"\\": "", "-": str(old)}.get(sign, str(number))
            lines.append((("dim", f"{shown:>6} "), (style, f"{sign} {text}")))
            old += sign not in "+\\"
            number += sign not in "-\\"
        elif not raw.startswith(_FILE) and not raw.startswith(("--- ", "+++ ")):
            lines.append((("", exact(raw).expandtabs(TAB)),))
    return _with_syntax(_with_changed_words(lines), name)


def _with_syntax(lines: list[Line], name: str) -> list[Line]:
    """Colours the new text, each stretch of it by itself; rows with marked words keep their
    marks."""
    if not name:
        return lines

    found, stretch = list(lines), list[int]()
    for at, each in enumerate([*lines[:ROWS], ()]):
        if len(each) > 1 and each[-1][0] in ("", "added", "added-word"):
            stretch.append(at)
        elif stretch and not (len(each) > 1 and each[-1][0].startswith("removed")):
            texts = ["".join(text for _, text in lines[row][1:]) for row in stretch]
            shown = colour_rows([text[2:] for text in texts], name)
            for row, text, spans in zip(stretch, texts, shown or (), strict=bool(shown)):
                if len(lines[row]) == 2:
                    style = lines[row][1][0]
                    new = ((kind or style, part) for kind, part in spans)
                    found[row] = (lines[row][0], (style, text[:2]), *new)
            stretch = []
    return found


def _with_changed_words(lines: list[Line]) -> list[Line]:
    """Marks what differs where as many lines were added as removed right before them."""
    found = list(lines)
    for styles in re.finditer("(r+)(a+)", "".join(_SIDES.get(each[-1][0], " ") for each in lines)):
        removed, added = range(*styles.span(1)), range(*styles.span(2))
        if len(removed) == len(added) <= MARKED_ROWS:
            for old, new in zip(removed, added, strict=True):
                found[old], found[new] = _mark_changed_words(found[old], found[new])
    return found


def _mark_changed_words(old: Line, new: Line) -> tuple[Line, Line]:
    before, after = (_PIECE.findall(each[-1][1][2:]) for each in (old, new))
    if max(len(before), len(after)) > MARKED_PIECES:
        return old, new
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < ALIKE:
        return old, new
    spans: tuple[list[Span], list[Span]] = ([("removed", "- ")], [("added", "+ ")])
    for kind, *bounds in matcher.get_opcodes():
        word = "" if kind == "equal" else "-word"
        for side, words, (start, end) in zip(
            spans, (before, after), (bounds[:2], bounds[2:]), strict=True
        ):
            if start < end:
                side.append((f"{side[0][0]}{word}", "".join(words[start:end])))
    return (*old[:-1], *spans[0]), (*new[:-1], *spans[1])


SLOW_MS = 1_000
"""Milliseconds from which on a row has the time that a call took."""
INLINE = 100
"""Characters of a result or an error that are part of the row."""
OUTPUT_ROWS = 12
OWN_ROWS = 2_000
DIFF_ROWS = 40
ERROR_ROWS = 6
COLUMNS = 400
SEE_ALL = " · Ctrl-O"
"""The way to what is left out."""
_OMITTED = re.compile(r"\.\.\. \[[\d,]+ characters omitted\] \.\.\.")
INDENT = ("", "  ")

_MARKS = {"success": ("ok", "✓"), "error": ("error", "✗"), "cancelled": ("warning", "■")}
_TASKS = {
    "completed": ("dim", "[x]"),
    "in_progress": ("bold", "[»]"),
    "cancelled": ("dim", "[-]"),
    "blocked": ("warning", "[!]"),
}


def header(event: ToolCallResponseEvent, title: str, description: str) -> Line:
    """A finished call in one line: status, name, object, result."""
    style, mark = _MARKS.get(event.outcome, ("", "·"))
    description = without_title_words(title, description)
    lasted = f" · {duration(event.duration_ms)}" if event.duration_ms >= SLOW_MS else ""
    return (
        (style, mark),
        ("bold", f" {one_line(title)}"),
        ("", f" {description}" if description else ""),
        *_result_spans(event),
        ("dim", lasted),
    )


def _result_spans(event: ToolCallResponseEvent) -> Line:
    """The result of a call, as far as a few words have it."""
    if event.outcome == "success":
        words = _change_counts(event) or short_result(event.display)
        shown = f" · {words}" if "(" in words else f" ({words})"
        return (("dim", shown),) if words else ()
    if failed := event.command_failure:
        return (("error", f" · {failed.replace('exit code ', 'exit ')}"),)
    if event.status == "cancelled":
        return (("warning", f" · {_cancelled_text(event)}"),)
    text = _error_text(event)
    return (("error", f" · {text}"),) if is_short(text) else (("error", " · failed"),)


def is_short(text: str) -> bool:
    """True for a text that is part of a row."""
    return bool(text) and "\n" not in text and len(text) <= INLINE


_RESULTS = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"Read (lines? \S+ of \d+) from .*", r"\1"),
        (r"Read (\d+ lines?) from .*", r"\1"),
        (r"Found (\d+ match(?:es)?) for pattern .*?( \(results limited[^)]*\))?", r"\1\2"),
        (r"Found (\d+ files?) with matches for pattern .*", r"\1"),
        (r"No (matches|files) found.*", r"no \1"),
        (r"Found 1 (?:matching )?file\(s\).*", "1 file"),
        (r"Found (\d+) (?:matching )?file\(s\).*", r"\1 files"),
        (r"Listed 1 item\(s\)\.(?: (\(\d+ ignored\)))?", r"1 entry \1"),
        (r"Listed (\d+) item\(s\)\.(?: (\(\d+ ignored\)))?", r"\1 entries \2"),
        (r"Directory is empty\.", "empty"),
        (r"Set 1 todo\(s\)(.*)", r"1 task\1"),
        (r"Set (\d+) todo\(s\)(.*)", r"\1 tasks\2"),
        (r"(?:Listed|Found) (\d+ [\w ]+)\.?", r"\1"),
    )
)


def short_result(display: Any) -> str:
    """A few words for the result of a call: `122 matches`; of a text of several lines their
    number, with the blank ones."""
    if isinstance(display, dict):
        todos: Any = cast("dict[str, Any]", display).get("todos")
        return count_noun(len(cast("list[Any]", todos)), "task") if todos is not None else ""
    text = without_controls(display or "").strip()
    if "\n" in text:
        return count_noun(len(_rows(display or "")), "line")
    for pattern, words in _RESULTS:
        if found := pattern.fullmatch(text):
            return found.expand(words).strip()
    return escaped(text) if len(text) <= INLINE else count_noun(len(text), "character")


def without_title_words(title: str, description: str) -> str:
    """A description without the words at its beginning that the title has already: of `WriteFile`,
    `Writing to a.txt` is `to a.txt`."""
    description = _LEADING.sub("", description)
    words, said = description.split(" "), _WORDS.findall(title)
    if not words[0][:1].isupper():
        return description
    while len(words) > 1 and said and _is_word_of(words[0], said[0]):
        del words[0], said[0]
    return " ".join(words)


_LEADING = re.compile(
    r"Searching the web for: |Processing URLs and instructions from prompt: |Asking user: |"
    r"Requesting plan approval$|(?:Set \d+ todo\(s\).*|Cleared the todo list)$"
)
"""Words of descriptions that the name of a tool has, or its result."""


def _is_word_of(word: str, said: str) -> bool:
    stem = said.casefold().removesuffix("e")
    return word.rstrip(":").casefold() in (stem, f"{stem}e", f"{stem}ing")


def duration(milliseconds: float) -> str:
    """`45 ms`, `3.2 s`, `2 min 5 s`."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms" if milliseconds else "0 s"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s"


def ended_lines(
    event: ToolCallResponseEvent, *, seen: bool = False, own: bool = False
) -> list[Line]:
    """The result below the header. `seen`: the person saw the change before it was made, or the
    output as it came; `own`: the person made the call, and sees its whole output."""
    display = event.display
    rows = 0 if own and seen else OWN_ROWS if own else OUTPUT_ROWS
    ran = isinstance(display, dict) and display.get("type") == "terminal_output"
    if event.status != "success":
        text = _error_text(event)
        lines: list[Line] = []
        if event.status == "error" and (event.command_failure or not is_short(text)):
            lines = _first_rows(text, ERROR_ROWS, "error")  # the row has another reason, or none
        return lines + (_last_rows(display, rows) if ran and isinstance(display, dict) else [])
    return _object(display, rows, seen=seen) if isinstance(display, dict) else []


def is_refused(event: ToolCallResponseEvent) -> bool:
    """True for a call that the person has refused without a reason: the turn ends."""
    from alhena.scheduler.confirmation import NOT_ALLOWED

    return event.status == "cancelled" and (event.error or "").endswith(NOT_ALLOWED)


def is_more(event: ToolCallResponseEvent, rows: list[Line], *, seen: bool) -> bool:
    """True where the row and these lines of it are not all that there is to see."""
    display = event.display
    if isinstance(display, dict):
        cut = any(SEE_ALL in text for row in rows for _, text in row)
        return cut or seen or not rows
    return event.status == "success" or any(SEE_ALL in text for row in rows for _, text in row)


def _error_text(event: ToolCallResponseEvent) -> str:
    told = event.display if isinstance(event.display, str) else ""
    # Of a tool that may not be called the model hears no more than that there is none.
    text = told if event.denied and told else event.error or told
    return without_controls(text).strip()


def _cancelled_text(event: ToolCallResponseEvent) -> str:
    """The word for a cancelled call: rejected, with the reason that a person gave, or stopped."""
    from alhena.scheduler.confirmation import NOT_ALLOWED

    _, refused, reason = (event.error or "").partition(NOT_ALLOWED)
    reason = one_line(reason.removeprefix(". Feedback:").strip(), INLINE)
    if refused:
        return f"rejected: {reason}" if reason else "rejected"
    if isinstance(event.display, dict):
        return f"Stopped by you after {duration(event.duration_ms)}."
    return "cancelled"


def _object(display: dict[str, Any], rows: int, *, seen: bool) -> list[Line]:
    match display.get("type"):
        case "file_diff":
            if seen:
                return []
            name = str(display.get("fileName", ""))
            lines = diff_lines(str(display.get("fileDiff", "")), name)
            more = len(lines) - DIFF_ROWS
            if more > 0:
                cut = plain(lines[-1:]).startswith("... [diff cut: ")
                least = "at least " if cut else ""
                told = f"… {least}{count_noun(more, 'more line')}{SEE_ALL}"
                lines = [*lines[:DIFF_ROWS], line(told, "dim")]
            return [(INDENT, *each) for each in lines]
        case "terminal_output":
            return _last_rows(display, rows)
        case "todo_list":
            return task_lines(display.get("todos", []))
        case _:
            return []


def task_lines(todos: Any) -> list[Line]:
    """The lines of a list of tasks."""
    return [_task(each) for each in cast("list[dict[str, str]]", todos)]


def _task(todo: dict[str, str]) -> Line:
    style, mark = _TASKS.get(todo.get("status", ""), ("", "[ ]"))
    text, more = _cut(" ".join(todo.get("description", "").split()))
    return (INDENT, (style, f"{mark} {safe(text)}"), *more)


def _first_rows(text: str, rows: int, style: str) -> list[Line]:
    """The first rows of a text, and how many more it has. Markdown with a title reads as text: the
    title, blank lines and marks of emphasis are left out, and the lines are counted."""
    every = shown = _rows(text)
    if every and every[0].startswith("### "):
        shown = [_EMPHASIS.sub(r"\1", each) for each in every[1:] if each.strip()]
    lines: list[Line] = [_row(each, style) for each in shown[:rows]]
    if more := len(every) - len(lines):
        lines.append((INDENT, ("dim", f"… {count_noun(more, 'more line')}{SEE_ALL}")))
    return lines


_EMPHASIS = re.compile(r"(?<!\S)\*\*(\w[^*\n]*)\*\*")


def _last_rows(display: Mapping[str, Any], rows: int) -> list[Line]:
    """The last rows of a command's output, and how many there are above. `lines` of the display is
    the number of all where its text has not all."""
    every = _rows(str(display.get("text", "")))
    shown = every[max(len(every) - rows, 0) :]
    made = len(every)
    if not any(map(_OMITTED.fullmatch, shown)):  # else they say themselves what is not there
        made = max(made, display.get("lines") or 0)
    lines: list[Line] = []
    if shown and made > len(shown):
        lines.append((INDENT, ("dim", f"… {count_noun(made - len(shown), 'line')} above{SEE_ALL}")))
    return lines + [_row(each, "dim") for each in shown]


def _rows(text: str) -> list[str]:
    text = without_controls(text)
    return text.removesuffix("\n").split("\n") if text else []


def _row(text: str, style: str) -> Line:
    kept, more = _cut(text)
    return (INDENT, *line(kept, style), *more)


def _cut(text: str) -> tuple[str, Line]:
    """The first characters of a line, and how many more it has."""
    more = len(text) - COLUMNS
    note = f"… {count_noun(more, 'more character')}{SEE_ALL}"
    return text[:COLUMNS], (("dim", note),) if more > 0 else ()


def _change_counts(event: ToolCallResponseEvent) -> str:
    """`+3 -1` for a change of a file."""
    if event.status != "success" or not isinstance(event.display, dict):
        return ""
    stat = event.display.get("diffStat")
    if not isinstance(stat, dict):
        return ""
    counts = cast("dict[str, int]", stat)
    if any(count for name, count in counts.items() if name.startswith("user_")):
        # The model's counts and the person's are of two steps, the diff is of both together.
        rows = diff_lines(str(cast("object", event.display.get("fileDiff", ""))))
        styles = [{style for style, _ in row} for row in rows]
        added, removed = (sum(each in row for row in styles) for each in ("added", "removed"))
        return f"+{added} -{removed}"
    added = sum(count for name, count in counts.items() if name.endswith("added_lines"))
    removed = sum(count for name, count in counts.items() if name.endswith("removed_lines"))
    return f"+{added} -{removed}"


MAX_PAGES = 200
MAX_CHARACTERS = 2_000_000
"""Characters of a page that are shown: its end."""
LONG_PROMPT, LONG_ROW = 10, 1_000
"""Line breaks, and characters, of a prompt from which on it is a block: it was pasted."""


class PagerBlock(msgspec.Struct, frozen=True):
    """One block. `path`: the file that has all of it, "" if `text` is all."""

    title: str
    text: str
    path: str = ""

    @property
    def whole(self) -> str:
        """All of the text, safe to show."""
        text = self.text
        if self.path:
            try:
                text = Path(self.path).read_text(encoding="utf-8", errors="replace")
            except OSError:  # it was removed: the part that is known remains
                text = self.text
        more = len(text) - MAX_CHARACTERS
        shown = escaped(text[-MAX_CHARACTERS:].expandtabs(TAB), block=True)
        where = f"; all of it: {escaped(self.path)}" if self.path else ""
        return f"… {more:,} characters above{where}\n{shown}" if more > 0 else shown


class PagerBlocks:
    """Collects the newest blocks of a session from its events, and its `changes`: path -> content
    before the first (None: no file) and after the last."""

    def __init__(self) -> None:
        self.items: deque[PagerBlock] = deque(maxlen=MAX_PAGES)
        self.dropped = 0
        self.changes: dict[str, tuple[str | None, str]] = {}
        self._thoughts: list[str] = []
        self._described: dict[str, str] = {}

    def prompt(self, text: str) -> None:
        """Takes a prompt; only a long one is a block."""
        if text.count("\n") >= LONG_PROMPT or len(text) > LONG_ROW:
            self.add(PagerBlock("Prompt", text))

    def feed(self, event: Event) -> int:
        """Takes an event; the number of the block that a call's end has become, or 0."""
        if isinstance(event, ThoughtEvent):
            self._thoughts.append(f"{event.subject}\n{event.description}".strip())
        elif isinstance(event, ToolCallUpdateEvent):
            self._described[event.call_id] = event.description
        elif isinstance(event, ToolCallResponseEvent | ApiRequestEvent | RunFinishedEvent):
            if self._thoughts:
                self.add(PagerBlock("Thoughts", "\n\n".join(self._thoughts)))
                self._thoughts.clear()
            if isinstance(event, ToolCallResponseEvent):
                return self.call(event, self._described.pop(event.call_id, ""))
        return 0

    def number_blocks(self) -> list[tuple[int, PagerBlock]]:
        """The blocks with their numbers, which stay when older ones are dropped."""
        return list(enumerate(self.items, self.dropped + 1))

    def add(self, page: PagerBlock) -> None:
        """Takes a block."""
        self.dropped += len(self.items) == MAX_PAGES
        self.items.append(page)

    def call(self, event: ToolCallResponseEvent, described: str) -> int:
        """Takes a call that has ended; the number of its block, or 0."""
        display = event.display
        text = event.error or ""
        if isinstance(display, dict):
            made = str(display.get("fileDiff") or display.get("text") or "")
            whole_error = event.status == "error" and text
            text = f"{text}\n\n{made}" if whole_error and made else made or text
            self._note_change(event, display)
        elif event.status == "success":
            text = _answer_text(event) or display or ""
        if not text.strip() and not event.output_file:
            return 0
        from alhena.tools.catalogue import plain_name  # not before the prompt is painted

        title = plain_name(event.name, event.mcp_server_name)
        described = without_title_words(title, one_line(described, 80))
        self.add(PagerBlock(f"{title} {described}".strip(), text, event.output_file or ""))
        return self.dropped + len(self.items)

    def _note_change(self, event: ToolCallResponseEvent, display: dict[str, Any]) -> None:
        path, now = display.get("filePath"), display.get("newContent")
        if event.status != "success" or not isinstance(path, str) or not isinstance(now, str):
            return
        before: str | None = display.get("originalContent")
        self.changes[path] = (self.changes[path][0] if path in self.changes else before, now)


def _answer_text(event: ToolCallResponseEvent) -> str:
    """The text that the model got."""
    for part in event.parts:
        response = getattr(part, "function_response", None)
        if response is not None:
            return str(response.response.get("output", ""))
    return ""


ROWS = 400
"""Rows of one text that are coloured; the others stay plain, so that a large one is fast."""
MAX_COLOURED = 40_000
LEXERS_KEPT = 64


def colour_rows(rows: Sequence[str], name: str) -> list[Line] | None:
    """Rows of a file of this name, with "" for text that is not coloured; None where the language
    is not known. The text is the same, character by character."""
    text = "\n".join(rows)
    lexer = _lexer(name) if len(text) <= MAX_COLOURED else None
    if lexer is None:
        return None
    lines: list[Line] = []
    row: list[Span] = []
    for kind, piece in _pieces(lexer, text):
        for number, part in enumerate(piece.split("\n")):
            if number:
                lines.append(tuple(row))
                row = []
            if part:
                row.append((kind, part))
    lines.append(tuple(row))
    whole = ["".join(part for _, part in each) for each in lines]
    return lines if whole == list(rows) else None


def _pieces(lexer: "Lexer", text: str) -> Iterator[Span]:
    from pygments.token import Comment, Keyword, Number, String

    styles = ((Comment, "comment"), (Keyword, "keyword"), (String, "string"), (Number, "number"))
    for kind, piece in lexer.get_tokens(text):
        yield next((style for known, style in styles if kind in known), ""), piece


@lru_cache(maxsize=LEXERS_KEPT)
def _lexer(name: str) -> "Lexer | None":
    """The lexer for files of a name; None for an unknown one. Plugins are slow, so not used."""
    from fnmatch import fnmatchcase

    from pygments import lexers

    for _, aliases, patterns, _ in lexers.get_all_lexers(plugins=False):
        if aliases and any(fnmatchcase(name, each) for each in patterns):
            make = cast("Callable[..., Lexer]", lexers.find_lexer_class_by_name(aliases[0]))
            return make(stripnl=False, ensurenl=False)
    return None
