"""Steps without secrets, for documents."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from alhena.session.transcript import facts
from alhena.suspicious_text import shown
from alhena.telemetry.records import Redaction
from alhena.tracing.timeline import Step, Timeline

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
        return self._cut(shown(self._redaction.text(self._ahead(text))), len(text))

    def args(self, args: dict[str, Any] | None) -> str:
        """Arguments as JSON; no valid JSON when they are cut."""
        if args is None:
            return ""
        value = self._redaction.value(self._ahead(args))
        text = msgspec.json.encode(value).decode("utf-8")
        return self._cut(text, len(text))

    def step(self, step: Step) -> dict[str, Any]:
        """A step as plain values; its arguments are JSON texts."""
        plain = msgspec.to_builtins(step)
        for name in ("name", "status", "text", "result", "diff", "reason", "rule"):
            if name in plain:
                plain[name] = self.text(plain[name])
        for name, args in (("args", step.args), ("proposedArgs", step.proposed_args)):
            if name in plain:
                plain[name] = self.args(args)
        return plain

    def _ahead(self, value: Any, depth: int = _DEEPEST) -> Any:
        """The value with as much of its texts as has to be read."""
        if self._limit is None:
            return value
        if isinstance(value, str):
            return value[: self._limit + self._ahead_by]
        if depth and isinstance(value, dict):
            known = cast("dict[str, Any]", value)
            return {key: self._ahead(each, depth - 1) for key, each in known.items()}
        if depth and isinstance(value, list | tuple):
            return [self._ahead(each, depth - 1) for each in cast("Sequence[Any]", value)]
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
