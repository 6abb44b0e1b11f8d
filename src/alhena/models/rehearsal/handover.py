"""The end of work for another agent: one call of complete_task, which bears what was found."""

import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from alhena.models.rehearsal import report
from alhena.models.rehearsal.outline import outline
from alhena.models.rehearsal.results import file_text, is_binary_notice, listing, matches
from alhena.models.rehearsal.steps import Asking, ask
from alhena.models.rehearsal.toolbox import Call, Outcome, Toolbox

HAND_OVER = "complete_task"

_LAST_TURN = re.compile(r"\bcall `?complete_task`? now\b", re.IGNORECASE)
_MOST_LOCATIONS = 20
_MOST_SYMBOLS = 8
_DEFINED = re.compile(
    r"\b(?:def|class|func|function|fn|struct|enum|trait|interface|type|module)\s+(\w+)"
)


class Location(msgspec.Struct, frozen=True):
    """A file that was looked into."""

    path: str
    reason: str
    symbols: tuple[str, ...] = ()


class Findings(msgspec.Struct, frozen=True):
    """A report: its text, the steps taken, the files that matter."""

    text: str
    trace: tuple[str, ...] = ()
    locations: tuple[Location, ...] = ()


def is_last_call(text: str) -> bool:
    """Whether words of a user content ask for the result at once, instead of for anything new."""
    return _LAST_TURN.search(text) is not None


def find_root(seen: Sequence[Outcome], tools: Toolbox) -> Asking:
    """list_directory, when files are to be named by their whole paths and no result so far tells
    where the working directory is."""
    relative = any(not path.startswith("/") for path, _ in _looked_into(seen))
    if not relative or _root(seen):
        return ()
    return (yield from ask(tools, Call("list_directory", {"path": "."})))


def findings(text: str, seen: Sequence[Outcome]) -> Findings:
    """What the outcomes of a whole conversation add to its report."""
    root = _root(seen)
    found: dict[str, Location] = {}
    for path, outcome in _looked_into(seen):
        place = posixpath.normpath(posixpath.join(root, path)) if root else path
        known = found.get(place, Location(place, ""))
        reason, symbols = _told_by(path, outcome)
        found[place] = Location(
            place,
            "; ".join(dict.fromkeys(filter(None, (known.reason, reason)))),
            tuple(dict.fromkeys((*known.symbols, *symbols)))[:_MOST_SYMBOLS],
        )
    return Findings(text, tuple(map(_step, seen)), tuple(found.values())[:_MOST_LOCATIONS])


def completion(found: Findings, tools: Toolbox) -> Call | None:
    """The call that hands the findings over in the form its declaration asks for. None when that
    asks for something that is not in findings."""
    value = _fitted(tools.property_schema(HAND_OVER, "result"), found, "result")
    return None if value is None else Call(HAND_OVER, {"result": value})


def _fitted(schema: dict[str, Any], found: Findings, name: str) -> Any:
    """The findings as a value of the schema, None when they are not of its kind."""
    kind = str(schema.get("type", "string")).lower()
    if kind == "string":
        return None if schema.get("enum") else found.text
    if kind == "object":
        return _filled(schema, found)
    if kind == "array":
        items = _table(schema.get("items"))
        if str(items.get("type", "string")).lower() == "object":
            entries = [_entry(items, place) for place in found.locations]
            return None if None in entries else entries
        return _strings(found, name)
    return None


def _filled(schema: dict[str, Any], found: Findings) -> dict[str, Any] | None:
    values: dict[str, Any] = {}
    for name, described in _table(schema.get("properties")).items():
        value = _fitted(_table(described), found, name)
        if value is not None:
            values[name] = value
    return values if _complete(schema, values) else None


def _strings(found: Findings, name: str) -> list[str]:
    if re.search(r"path|file|location", name, re.IGNORECASE):
        return [place.path for place in found.locations]
    return list(found.trace)


def _entry(schema: dict[str, Any], place: Location) -> dict[str, Any] | None:
    """A location as an object of the schema: a path by its name, a list of symbols, words."""
    values: dict[str, Any] = {}
    for name, described in _table(schema.get("properties")).items():
        kind = str(_table(described).get("type", "string")).lower()
        if kind == "array":
            values[name] = list(place.symbols)
        elif kind == "string":
            is_path = re.search(r"path|file", name, re.IGNORECASE)
            values[name] = place.path if is_path else place.reason
    return values if _complete(schema, values) else None


def _complete(schema: dict[str, Any], values: dict[str, Any]) -> bool:
    required = schema.get("required")
    names = cast("list[object]", required) if isinstance(required, list | tuple) else []
    return all(name in values for name in names)


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _root(seen: Iterable[Outcome]) -> str:
    """The working directory, from the heading of its listing; "" when no result tells it."""
    for outcome in seen:
        here = outcome.call.args.get("path", outcome.call.args.get("dir_path"))
        if outcome.ok and outcome.call.name == "list_directory" and here == ".":
            return listing(outcome.output).root
    return ""


def _looked_into(seen: Iterable[Outcome]) -> list[tuple[str, Outcome]]:
    """The files whose content was seen, each with the outcome that showed it."""
    files: list[tuple[str, Outcome]] = []
    for outcome in seen:
        if not outcome.ok:
            continue
        if outcome.call.name == "read_file" and not is_binary_notice(outcome.output):
            args = outcome.call.args
            path = args.get("absolute_path", args.get("file_path", args.get("path")))
            files.append((str(path), outcome))
        elif outcome.call.name == "search_file_content":
            hits = dict.fromkeys(hit.file for hit in matches(outcome.output))
            files.extend((file, outcome) for file in hits)
    return files


def _told_by(path: str, outcome: Outcome) -> tuple[str, list[str]]:
    """Why a file matters by one outcome, and what it defines."""
    if outcome.call.name == "read_file":
        text = file_text(outcome.output)
        made = outline(path, text.text)
        names = [found[1] for entry in made.entries if (found := _DEFINED.search(entry))]
        if not names and made.kind != "first lines":
            names = [entry.strip() for entry in made.entries]
        return f"read: {report.count(text.lines, 'line')}", names
    hits = [hit for hit in matches(outcome.output) if hit.file == path]
    pattern = report.code(str(outcome.call.args.get("pattern", "")))
    symbols = [found[1] for hit in hits if (found := _DEFINED.search(hit.text))]
    match = "matches" if len(hits) == 1 else "match"
    return f"{report.count(len(hits), 'line')} {match} {pattern}", symbols


def _step(outcome: Outcome) -> str:
    """A step in one line: the call, and how it ended."""
    args = ", ".join(f"{key}={str(value)[:80]!r}" for key, value in outcome.call.args.items())
    if not outcome.ok:
        return f"{outcome.call.name}({args}) failed: {report.first_line(outcome.error or '')}"
    if outcome.call.name == "read_file":
        size = report.count(file_text(outcome.output).lines, "line")
        return f"{outcome.call.name}({args}): {size}"
    return f"{outcome.call.name}({args}): {report.first_line(outcome.output) or 'nothing'}"
