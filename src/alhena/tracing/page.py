"""A session as one page that loads nothing: its timeline and its conversation; and its
steps without secrets, for documents."""

import base64
import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from alhena.session.transcript import Piece, facts
from alhena.suspicious_text import write_hidden
from alhena.telemetry.records import Redaction
from alhena.tracing.timeline import Step, StepKind, Timeline, call_title, milliseconds

_AHEAD = 1_024
"""Characters read at least beyond those that are kept: a secret must not be cut before it is
found."""
_DEEPEST = 32


class Redactor:
    """Redacts secrets, writes hidden characters as escapes, and cuts texts at about `limit` bytes
    of a page (None: never)."""

    def __init__(self, redaction: Redaction, limit: int | None = None) -> None:
        self._redaction = redaction
        self._limit = limit
        self._ahead_by = max(_AHEAD, redaction.longest)

    def text(self, text: str) -> str:
        """The text as a page shows it."""
        return self._cut(write_hidden(self._redaction.text(self._cut_texts(text))), len(text))

    def args(self, args: dict[str, Any] | None) -> str:
        """Arguments as JSON; no valid JSON when they are cut."""
        if args is None:
            return ""
        value = self._redaction.value(self._cut_texts(args))
        text = msgspec.json.encode(value).decode("utf-8")
        return self._cut(text, len(text))

    def step(self, step: Step) -> dict[str, Any]:
        """A step as plain values; its arguments are JSON texts."""
        plain = msgspec.to_builtins(step)
        for name, shown in zip(("name", "text"), call_title(step), strict=True):
            if name in plain:
                plain[name] = shown
        for name in ("name", "status", "text", "result", "diff", "reason", "rule"):
            if name in plain:
                plain[name] = self.text(plain[name])
        for name, args in (("args", step.args), ("proposedArgs", step.proposed_args)):
            if name in plain:
                plain[name] = self.args(args)
        return plain

    def _cut_texts(self, value: Any, depth: int = _DEEPEST) -> Any:
        """The value with as much of its texts as has to be read."""
        if self._limit is None:
            return value
        if isinstance(value, str):
            return value[: self._limit + self._ahead_by]
        if depth and isinstance(value, dict):
            known = cast("dict[str, Any]", value)
            return {key: self._cut_texts(each, depth - 1) for key, each in known.items()}
        if depth and isinstance(value, list | tuple):
            return [self._cut_texts(each, depth - 1) for each in cast("Sequence[Any]", value)]
        return value

    def _cut(self, text: str, whole: int) -> str:
        if self._limit is None:
            return text
        kept = text[: self._limit]
        size = size_in_page(kept)
        if size > self._limit:
            kept = kept[: len(kept) * self._limit // size]
        if len(kept) == len(text):
            return text
        return f"{kept}… [{max(whole - len(kept), 1):,} more characters]"


def size_in_page(text: str) -> int:
    """Bytes of a text as JSON in a page, where each `<` is an escape."""
    return len(msgspec.json.encode(text)) + 5 * text.count("<")


def as_json(timeline: Timeline, redaction: Redaction) -> dict[str, Any]:
    """The session, its totals and its steps as plain values, without secrets."""
    clean: Callable[[Any], Any] = redaction.value
    session = facts(timeline.transcript)
    return {
        "session": {name: clean(value) for name, value in session.items()},
        "problems": list(timeline.problems),
        "begin": timeline.begin,
        "totals": msgspec.to_builtins(timeline.totals),
        "lanes": clean(list(timeline.lanes)),
        "steps": [
            {"took": step.took, "lane": step.lane} | clean(msgspec.to_builtins(step))
            for step in timeline.steps
        ],
    }


MARK = b'<meta name="generator" content="alhena trace">'
"""Text near the beginning of a page."""
_FILES = Path(__file__).parent
_ROOM = 190_000
_ROOM_OF_CALL = 1_000
_ROOM_OF_STEP = 2_000
_SHARE_OF_JOURNAL = 0.7
_LEAST = 100
"""Characters that are kept of each text, whatever the size of the page."""
_INTERNED = ("reason", "rule")

Item = int | tuple[str, str, str, str]
"""An item of the conversation: the position of a step, or role, heading, time and text."""


def as_page(
    timeline: Timeline,
    redaction: Redaction,
    *,
    view: Literal["timeline", "conversation"] = "timeline",
    journal_size: int | None = None,
) -> bytes:
    """The page, without secrets. With `journal_size`, long texts are cut so that the page is small:
    200 kB and 1 kB for each call, more for long conversations. Without it, they are whole."""
    talk, earlier = _items(timeline)
    limit = None
    if journal_size is not None:
        texts = [*_texts(timeline.steps), *_own_texts(talk), *_own_texts(earlier)]
        skeleton = sum(map(_skeleton, timeline.steps)) + 8 * len(talk)
        room = _room(len(timeline.steps), timeline.totals.calls, journal_size)
        limit = fitting(map(size_in_page, texts), room - skeleton)
    redactor = Redactor(redaction, limit)
    words: dict[str, int] = {}
    steps = [redactor.step(step) for step in timeline.steps]
    for step in steps:
        for name in _INTERNED:
            if name in step:
                step[name] = words.setdefault(step[name], len(words))
    session = {name: str(value) for name, value in facts(timeline.transcript).items()}
    title = redactor.text(session["title"]) or "A session"
    data = {
        "view": view,
        "session": {name: redactor.text(value) for name, value in session.items()},
        "problems": timeline.problems,
        "begin": timeline.begin,
        "totals": timeline.totals,
        "lanes": [redactor.text(name) for name in timeline.lanes],
        "words": list(words),
        "steps": steps,
        "talk": [_clean(item, redactor) for item in talk],
        "earlier": [_clean(item, redactor) for item in earlier],
    }
    return _fill_template(title, data)


def _room(steps: int, calls: int, journal_size: int) -> int:
    """Bytes for the data of a page. Of a session with calls the calls decide, each with a prompt
    and two answers at most; steps beyond that are conversation."""
    wanted = _ROOM_OF_CALL * calls + _ROOM_OF_STEP * max(0, steps - 4 * calls)
    return _ROOM + min(wanted, round(_SHARE_OF_JOURNAL * journal_size))


def fitting(sizes: Iterable[int], room: int) -> int:
    """The length at which texts of these sizes have to be cut to fit into `room`."""
    ordered = sorted(sizes)
    for place, size in enumerate(ordered):
        left = len(ordered) - place
        if size * left > room:
            return max(_LEAST, room // left)
        room -= size
    return max(ordered[-1] if ordered else 0, _LEAST)


def _texts(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        yield from (step.text, step.result, step.diff)
        for args in filter(None, (step.args, step.proposed_args)):
            yield msgspec.json.encode(args).decode("utf-8")


def _own_texts(items: Iterable[Item]) -> Iterator[str]:
    return (item[3] for item in items if isinstance(item, tuple))


def _skeleton(step: Step) -> int:
    return 360 if step.kind is StepKind.TOOL else 220


class _StepPositions:
    """Positions of steps by what they are. Texts and ids may recur: `take` gives each its own."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._found: dict[Hashable, list[int]] = {}

    def add(self, key: Hashable, at: int) -> None:
        """Adds the position of a step."""
        self._found.setdefault(key, []).append(at)

    def __contains__(self, key: object) -> bool:
        return key in self._found

    def take(self, key: Hashable, time: str) -> int:
        """The step of a content of this `time`, which is recorded behind it: the last one that
        began before, and was not taken."""
        steps, positions = self._timeline.steps, self._found[key]
        end = milliseconds(time) - self._timeline.begin
        before = [at for at in positions if steps[at].at <= end] or positions[:1]
        last = max(steps[at].at for at in before)
        found = next(at for at in before if steps[at].at == last)
        if len(positions) > 1:
            positions.remove(found)
        return found


def _items(timeline: Timeline) -> tuple[list[Item], list[Item]]:
    """The current conversation, and what was replaced in it."""
    calls, said = _StepPositions(timeline), _StepPositions(timeline)
    replaced = {step.replaces: at for at, step in enumerate(timeline.steps) if step.replaces}
    for at, step in enumerate(timeline.steps):
        if step.call_id:
            calls.add(step.call_id, at)
        if step.text and step.kind in (StepKind.PROMPT, StepKind.MODEL):
            said.add((step.kind, step.text), at)

    def items(pieces: Iterator[Piece]) -> Iterator[Item]:
        for piece in pieces:
            asks = piece.role == "model"
            if piece.call_id in calls:
                if asks:
                    yield calls.take(piece.call_id, piece.at)
                elif piece.call_id in replaced:
                    yield replaced[piece.call_id]
                continue
            key = (StepKind.MODEL if asks else StepKind.PROMPT, piece.body)
            if key in said and not piece.code:
                yield said.take(key, piece.at)
            else:
                yield piece.role, piece.heading, piece.at, piece.body

    transcript = timeline.transcript
    return list(items(transcript.pieces())), list(items(transcript.earlier_pieces()))


def _clean(item: Item, redactor: Redactor) -> Item:
    if isinstance(item, int):
        return item
    role, heading, at, text = item
    return role, redactor.text(heading), at, redactor.text(text)


def _fill_template(title: str, data: dict[str, Any]) -> bytes:
    """The template with these data. Neither a text nor a name can end the script they are in."""
    template, style, script = (
        (_FILES / f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    values = {
        "title": escape(title),
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
        "data": msgspec.json.encode(data).decode("utf-8").replace("<", "\\u003c"),
    }
    head, *pieces = template.split("{{")
    filled = [head]
    for piece in pieces:
        name, _, rest = piece.partition("}}")
        filled += (values[name], rest)
    return "".join(filled).encode("utf-8", "replace")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
