"""Ended tool calls in lines: a diff with syntax colours, a list of tasks, an output."""

import re
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeGuard, cast

import msgspec

from alhena.display_text import escaped, one_line, without_controls
from alhena.events import (
    ApiRequestEvent,
    Event,
    RunFinishedEvent,
    ThoughtEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
)
from alhena.frontends.shared.listings import count_noun
from alhena.frontends.terminal.drawing.diff import diff_lines
from alhena.frontends.terminal.drawing.lines import (
    OBJECT,
    TAB,
    Line,
    coloured_lines,
    line,
    plain,
    safe,
)

_WORDS = re.compile(r"[A-Z][a-z]*|[a-z]+")
_OBJECTS = ("file_path", "absolute_path", "path", "dir_path", "command", "pattern", "query", "url")
"""Arguments that say what a call is about."""


def describe_arguments(args: Mapping[str, Any]) -> str:
    """The object of a call that no tool has described: it was refused, or is not checked yet."""
    names = (*(name for name in _OBJECTS if name in args), *args)
    found = next((each for name in names if isinstance(each := args[name], str)), "")
    return path_from_here(found)


def path_from_here(path: str) -> str:
    """The path of a file below the working directory without that."""
    with suppress(ValueError, OSError):
        return str(Path(path).relative_to(Path.cwd()))
    return path


SLOW_MS = 1_000
"""Milliseconds from which on a row has the time that a call took."""
INLINE = 100
"""Characters of a result or an error that are part of the row."""
DIFF_COLUMN = 9
"""The column of the text of a diff, behind number and sign."""
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


def header(
    event: ToolCallResponseEvent, title: str, description: str, *, ran: bool = False
) -> Line:
    """A finished call in one line: status, name, object, result. `ran`: it had begun when it was
    stopped."""
    style, mark = _MARKS.get(event.outcome, ("", "·"))
    description = without_title_words(title, description)
    lasted = f" · {duration(event.duration_ms)}" if event.duration_ms >= SLOW_MS else ""
    if event.name == ASK or event.status == "cancelled":
        lasted = ""  # it is the person's time; a stopped command says its own
    return (
        (style, mark),
        ("bold", f" {one_line(title)}"),
        (OBJECT, f" {description}" if description else ""),
        *_result_spans(event, ran=ran),
        ("dim", lasted),
    )


def _result_spans(event: ToolCallResponseEvent, *, ran: bool) -> Line:
    """The result of a call, as far as a few words have it."""
    if event.outcome == "success":
        words = _change_counts(event) or short_result(event.display)
        shown = f" · {words}" if "(" in words else f" ({words})"
        return (("dim", shown),) if words else ()
    if failed := event.command_failure:
        return (("error", f" · {failed.replace('exit code ', 'exit ')}"),)
    if event.status == "cancelled":
        return (("warning", f" · {_cancelled_text(event, ran=ran)}"),)
    text = _failure_words(event)
    return (("error", f" · {text}"),) if is_short(text) else (("error", " · failed"),)


_FAILURES = {
    "attempt_to_create_existing_file": "the file exists already",
    "edit_expected_occurrence_mismatch": "the text to replace is not unique",
    "edit_no_change": "nothing would change",
    "edit_no_occurrence_found": "the text to replace is not in the file",
    "file_not_found": "no such file",
    "file_too_large": "the file is too large",
    "path_is_not_a_directory": "not a directory",
    "path_not_in_workspace": "outside the workspace; /directory add DIR adds a folder",
    "search_path_not_a_directory": "not a directory",
    "search_path_not_found": "no such folder",
    "target_is_directory": "this is a directory",
}
"""Type of a failure -> words for a person, where those of the tool are for the model. The pager has
these."""


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
        (r"The answer was taken\.|Switching to Plan mode.*", ""),
        (r"User dismissed ask_user dialog.*|User submitted without answering.*", "no answer"),
        (r"Set 1 todo\(s\)(.*)", r"1 task\1"),
        (r"Set (\d+) todo\(s\)(.*)", r"\1 tasks\2"),
        (r"(?:Listed|Found) (\d+ [\w ]+)\.?", r"\1"),
    )
)


ASK, _ANSWERS = "ask_user", "**User answered:**\n"


def short_result(display: Any) -> str:
    """A few words for the result of a call: `122 matches`; of a text of several lines their
    number, with the blank ones."""
    if isinstance(display, dict):
        todos: Any = cast("dict[str, Any]", display).get("todos")
        return count_noun(len(cast("list[Any]", todos)), "task") if todos is not None else ""
    text = without_controls(display or "").strip()
    if text.startswith(_ANSWERS):
        given = [each.partition(" → ")[2] for each in text.split("\n")[1:]]
        text = ", ".join(filter(None, given))
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
    event: ToolCallResponseEvent, *, seen: bool = False, own: bool = False, output: str = ""
) -> list[Line]:
    """The result below the header. `seen`: the person saw the change before it was made, or the
    output as it came; `own`: the person made the call, and sees its whole output. `output` is the
    end of the output as it came, in colours."""
    display = event.display
    rows = 0 if own and seen else OWN_ROWS if own else OUTPUT_ROWS
    ran = _is_output(display)
    if event.status != "success":
        text = _failure_words(event)
        lines: list[Line] = []
        if event.status == "error" and (event.command_failure or not is_short(text)):
            lines = _first_rows(text, ERROR_ROWS, "error")  # the row has another reason, or none
        return lines + (_last_rows(display, rows, output) if ran else [])
    if ran:
        return _last_rows(display, rows, output)
    return _object(display, seen=seen) if isinstance(display, dict) else []


def is_refused(event: ToolCallResponseEvent) -> bool:
    """True for a call that the person has refused without a reason: the turn ends."""
    from alhena.scheduler.confirmation import NOT_ALLOWED

    return event.status == "cancelled" and (event.error or "").endswith(NOT_ALLOWED)


def is_more(event: ToolCallResponseEvent, rows: list[Line], *, seen: bool) -> bool:
    """True where the row and these lines of it are not all that there is to see."""
    display = event.display
    if isinstance(display, dict):
        cut = any(SEE_ALL in text for row in rows for _, text in row)
        return cut or (seen and not _is_output(display)) or not rows
    short = event.status == "success" or event.error_type in _FAILURES
    return short or any(SEE_ALL in text for row in rows for _, text in row)


def _failure_words(event: ToolCallResponseEvent) -> str:
    return _FAILURES.get(event.error_type or "") or _error_text(event)


def _error_text(event: ToolCallResponseEvent) -> str:
    told = event.display if isinstance(event.display, str) else ""
    # Of a tool that may not be called the model hears no more than that there is none.
    text = told if event.denied and told else event.error or told
    return without_controls(text).strip()


def _cancelled_text(event: ToolCallResponseEvent, *, ran: bool) -> str:
    """The word for a cancelled call: rejected, with the reason that a person gave, or stopped."""
    from alhena.scheduler.confirmation import NOT_ALLOWED

    _, refused, reason = (event.error or "").partition(NOT_ALLOWED)
    reason = one_line(reason.removeprefix(". Feedback:").strip(), INLINE)
    if refused:
        return f"rejected: {reason}" if reason else "rejected"
    if ran or isinstance(event.display, dict):
        return f"Stopped by you after {duration(event.duration_ms)}."
    return "cancelled"


def _object(display: dict[str, Any], *, seen: bool) -> list[Line]:
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


def _is_output(display: str | dict[str, Any] | None) -> TypeGuard[dict[str, Any]]:
    return isinstance(display, dict) and display.get("type") == "terminal_output"


def _last_rows(display: Mapping[str, Any], rows: int, output: str) -> list[Line]:
    """The last rows of a command's output, and how many there are above. `lines` of the display is
    the number of all where its text has not all. Rows that `output` has are as coloured there."""
    every = _rows(str(display.get("text", "")))
    shown = every[max(len(every) - rows, 0) :]
    made = len(every)
    if not any(map(_OMITTED.fullmatch, shown)):  # else they say themselves what is not there
        made = max(made, display.get("lines") or 0)
    lines: list[Line] = []
    if shown and made > len(shown):
        lines.append((INDENT, ("dim", f"… {count_noun(made - len(shown), 'line')} above{SEE_ALL}")))
    coloured = coloured_lines(output, "dim")[-len(shown) :] if shown and "\x1b" in output else []
    if [plain((each,)).rstrip() for each in coloured] == [safe(each).rstrip() for each in shown]:
        return lines + [(INDENT, *each) for each in coloured]
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
    counts = _changed_lines(event)
    return "" if counts is None else f"+{counts[0]} -{counts[1]}"


def _changed_lines(event: ToolCallResponseEvent) -> tuple[int, int] | None:
    """The numbers of added and removed lines of a file; None for what is no change of one."""
    if event.status != "success" or not isinstance(event.display, dict):
        return None
    stat = event.display.get("diffStat")
    if not isinstance(stat, dict):
        return None
    counts = cast("dict[str, int]", stat)
    if any(count for name, count in counts.items() if name.startswith("user_")):
        # The model's counts and the person's are of two steps, the diff is of both together.
        rows = diff_lines(str(cast("object", event.display.get("fileDiff", ""))))
        styles = [{style for style, _ in row} for row in rows]
        added, removed = (sum(each in row for row in styles) for each in ("added", "removed"))
        return added, removed
    added = sum(count for name, count in counts.items() if name.endswith("added_lines"))
    removed = sum(count for name, count in counts.items() if name.endswith("removed_lines"))
    return added, removed


MAX_PAGES = 200
MAX_CHARACTERS = 2_000_000
"""Characters of a page that are shown: its end."""
LONG_PROMPT, LONG_ROW = 10, 1_000
"""Line breaks, and characters, of a prompt from which on it is a block: it was pasted."""


def is_long(prompt: str) -> bool:
    """True for a prompt that was pasted."""
    return prompt.count("\n") >= LONG_PROMPT or len(prompt) > LONG_ROW


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


class FileChange(msgspec.Struct):
    """A file as a session has changed it: its contents before (None: no file) and after, and the
    hashes of all that it had. `earlier` are diffs from before the session was resumed, with their
    added and removed lines; of these no contents are known."""

    earlier: list[tuple[str, int, int]] = []
    before: str | None = None
    now: str = ""
    states: set[int] = set()


class PagerBlocks:
    """Collects the newest blocks of a session from its events, and its `changes` by path."""

    def __init__(self) -> None:
        self.items: deque[PagerBlock] = deque(maxlen=MAX_PAGES)
        self.dropped = 0
        self.changes: dict[str, FileChange] = {}
        self._thoughts: list[str] = []
        self._described: dict[str, str] = {}

    def prompt(self, text: str) -> None:
        """Takes a prompt; only a long one is a block."""
        if is_long(text):
            self.add(PagerBlock("Prompt", text))

    def feed(self, event: Event) -> int:
        """Takes an event; the number of the block that a call's end has become, or 0."""
        if isinstance(event, ThoughtEvent):
            self._thoughts.append(f"{event.subject}\n{event.description}".strip())
        elif isinstance(event, ToolCallRequestEvent):
            self._described[event.call_id] = describe_arguments(event.args)
        elif isinstance(event, ToolCallUpdateEvent):
            if event.description:
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
            self.note_change(event)
        elif event.status == "success":
            text = _answer_text(event) or display or ""
        if not text.strip() and not event.output_file:
            return 0
        from alhena.tools.catalogue import plain_name  # not before the prompt is painted

        title = plain_name(event.name, event.mcp_server_name)
        described = without_title_words(title, one_line(described, 80))
        self.add(PagerBlock(f"{title} {described}".strip(), text, event.output_file or ""))
        return self.dropped + len(self.items)

    def note_change(self, event: ToolCallResponseEvent) -> None:
        """Takes the change of a file that a call has made, if it has."""
        display, counts = event.display, _changed_lines(event)
        if counts is None or not isinstance(display, dict):
            return
        path, now, diff = (display.get(key) for key in ("filePath", "newContent", "fileDiff"))
        if not isinstance(path, str):
            return
        change = self.changes.setdefault(path, FileChange())
        if isinstance(now, str):
            if not change.states:
                change.before = display.get("originalContent")
            change.now = now
            change.states |= {content_hash(change.before), content_hash(now)}
        elif isinstance(diff, str):
            change.earlier.append((diff, *counts))


def content_hash(content: str | None) -> int:
    """A hash of a file's text, whatever its line endings."""
    return hash(content and content.replace("\r\n", "\n"))


def _answer_text(event: ToolCallResponseEvent) -> str:
    """The text that the model got."""
    for part in event.parts:
        response = getattr(part, "function_response", None)
        if response is not None:
            return str(response.response.get("output", ""))
    return ""
