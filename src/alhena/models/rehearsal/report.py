"""The words of an answer: pure functions from results to Markdown."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from alhena.models.rehearsal.outline import outline
from alhena.models.rehearsal.results import CommandResult, FileText, Listing, Match
from alhena.models.rehearsal.toolbox import Outcome
from alhena.models.select import KEY_PAGE

NOTICE = (
    "[rehearsal] No language model is at work here: these are fixed rules. For real answers set "
    f"GEMINI_API_KEY ({KEY_PAGE}) and run again."
)
"""The first line of every answer."""

_SHOWN_LINES = 40
_SHOWN_ENTRIES = 60
_LINE_WIDTH = 200
_FLAGS = {
    "write_file": "auto_edit",
    "replace": "auto_edit",
    "run_shell_command": "yolo",
}


def count(number: int, noun: str) -> str:
    """ "1 file", "2 files", "0 entries"."""
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y") and not noun.endswith("ey"):
        return f"{number} {noun[:-1]}ies"
    return f"{number} {noun}{'es' if noun.endswith(('ch', 's')) else 's'}"


def code(text: str) -> str:
    """`text` as inline code, on one line."""
    text = " ".join(text.split()) if "\n" in text else text
    ticks = "`" * (_longest_ticks(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def block(text: str, lines: int = _SHOWN_LINES) -> str:
    """The beginning of `text` as a code block; says how much was left out."""
    every = text.rstrip("\n").splitlines()
    shown = "\n".join(_clipped(line) for line in every[:lines])
    fence = "`" * max(3, _longest_ticks(shown) + 1)
    more = f"\n({count(len(every) - lines, 'more line')} not shown.)" if len(every) > lines else ""
    return f"{fence}\n{shown}\n{fence}{more}"


def bullets(items: Sequence[str], shown: int = _SHOWN_ENTRIES) -> str:
    """A list, cut after `shown` items; says how many were left out."""
    lines = [f"- {_clipped(item)}" for item in items[:shown]]
    if len(items) > shown:
        lines.append(f"- … and {len(items) - shown} more")
    return "\n".join(lines)


def first_line(text: str) -> str:
    """The first line that says something, "" when there is none; a long one is cut."""
    return _clipped(next((line.strip() for line in text.splitlines() if line.strip()), ""))


def _clipped(line: str) -> str:
    return line if len(line) <= _LINE_WIDTH else line[:_LINE_WIDTH] + "…"


def _longest_ticks(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def trouble(outcome: Outcome, doing: str) -> str:
    """Why a step could not be done, and what would help."""
    name = outcome.call.name
    if outcome.missing:
        mode = _FLAGS.get(name)
        remedy = (
            f" Start with `--approval-mode {mode}`, or in a terminal where you can approve it."
            if mode
            else ""
        )
        return f"I could not {doing}: the tool `{name}` is not available here.{remedy}"
    message = _clipped(" ".join((outcome.error or "").split()))
    return f"I could not {doing}: `{name}` answered: {message}{_approval(name, message)}"


def _approval(name: str, message: str) -> str:
    refused = re.search(r"denied by policy|requires user confirmation", message, re.IGNORECASE)
    if refused is None or "--approval-mode" in message:
        return ""
    return f" `--approval-mode {_FLAGS.get(name, 'yolo')}` would allow it."


def folder(path: str, found: Listing) -> str:
    """The entries of a folder."""
    name = "This folder" if path == "." else code(path)
    where = f"{name} ({found.root})" if found.root and path == "." else name
    if not found.folders and not found.files:
        return f"{where} is empty."
    entries = [f"{item.rstrip('/')}/" for item in found.folders]
    entries += [f"{item} ({size} bytes)" if size >= 0 else item for item, size in found.files]
    return f"{where} holds {_sums(found)}:\n{bullets(entries)}"


def _sums(found: Listing) -> str:
    return f"{count(len(found.folders), 'folder')} and {count(len(found.files), 'file')}"


def kinds(names: Iterable[str]) -> str:
    """How many files there are of each extension, most frequent first."""
    counted = Counter(_kind(name) for name in names)
    ranked = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{number} {kind}" for kind, number in ranked[:8])
    return shown + (f", and {len(ranked) - 8} other kinds" if len(ranked) > 8 else "")


def _kind(name: str) -> str:
    base = name.rsplit("/", 1)[-1]
    stem, dot, suffix = base.rpartition(".")
    return f".{suffix}" if dot and stem and suffix else "without extension"


def by_folder(names: Iterable[str]) -> str:
    """How many files lie below each top-level folder, most first."""
    counted = Counter(name.split("/", 1)[0] for name in names if "/" in name.lstrip("/"))
    ranked = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:8]
    return ", ".join(f"{code(name + '/')} {number}" for name, number in ranked)


def file_lead(path: str, found: FileText) -> str:
    """The beginning of a file and its length."""
    if not found.text and not found.total:
        return f"{code(path)} is empty."
    return f"{code(path)} has {count(found.lines, 'line')}. It begins:\n{block(found.text)}"


def file_outline(path: str, found: FileText) -> str:
    """A file's length and outline."""
    if not found.text and not found.total:
        return f"{code(path)} is empty."
    made = outline(path, found.text)
    part = f" (from lines 1-{found.last})" if found.total > found.last else ""
    size = f"{count(found.lines, 'line')}, {count(len(found.text.split()), 'word')}"
    return f"{code(path)}: {size}. Its {made.kind}{part}:\n{block(chr(10).join(made.entries))}"


def search(text: str, where: str, found: Sequence[Match]) -> str:
    """The lines a search found, by file."""
    if not found:
        return f"No line {where} holds {code(text)}."
    files = len({match.file for match in found})
    lines = [f"{match.file}:{match.line}: {match.text.strip()}" for match in found]
    return (
        f"{code(text)} stands in {count(len(found), 'line')} of {count(files, 'file')} {where}:\n"
        f"{block(chr(10).join(lines))}"
    )


def command(line: str, result: CommandResult) -> str:
    """How a command ended and what it printed."""
    if result.exit_code.lstrip("-").isdigit():
        how = f"ended with exit code {result.exit_code}"
    elif result.signal:
        how = f"was ended by signal {result.signal}"
    else:
        how = "ran"
    error = f" {result.error.strip()}" if result.error.strip() else ""
    if not result.output.strip():
        return f"{code(line)} {how} and printed nothing.{error}"
    return f"{code(line)} {how}.{error} Its output:\n{block(result.output)}"
