"""Regular expressions that users write, bounded; and the stable JSON they are searched in (POL-05).

The standard `re` cannot be interrupted, so one bad pattern would hang the process. `regex` takes a
timeout; it is imported by the first rule that has a pattern.
"""

import time
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from regex import Match, Pattern

MAX_PATTERN_LENGTH = 2048
BUDGET_SECONDS = 0.05


class _Unknown(Enum):
    """The answer for a pattern that could not be run to its end."""

    UNKNOWN = 0


_UNKNOWN = _Unknown.UNKNOWN


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> "Pattern[str]":
    """The compiled pattern. Raises ValueError, with a reason for people, when it cannot be used."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(
            f"is {len(pattern)} characters long, at most {MAX_PATTERN_LENGTH} are allowed"
        )
    import regex

    try:
        return regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(f"is not a regular expression: {error}") from error


def to_word_end(pattern: str) -> str:
    """`pattern` for matches in a command that end where a word does."""
    return rf"(?:{pattern})(?:(?!\S)|(?<=\s))"


def to_word_end_in_json(pattern: str) -> str:
    """The same for a command in JSON, where quotes, tabs and line breaks are escaped."""
    return rf'(?:{pattern})(?:(?=\s|"|\\[nt])|(?<=\s|[^\\]")|\Z)'


class PatternClock:
    """Runs patterns within one time budget for a whole decision, in seconds of this thread's CPU.

    Each question is answered True or False, or None when the pattern could not be run to its end.
    """

    __slots__ = ("_left",)

    def __init__(self, seconds: float = BUDGET_SECONDS) -> None:
        self._left = seconds

    def search(self, pattern: str, text: str) -> bool | None:
        """Does `pattern` match anywhere in `text`?"""
        return self._run(pattern, text, anywhere=True, partial=False)

    def starts(self, pattern: str, text: str) -> bool | None:
        """Does `pattern` match at the start of `text`?"""
        return self._run(pattern, text, anywhere=False, partial=False)

    def could_start(self, pattern: str, text: str) -> bool | None:
        """Could it, if more text followed?"""
        return self._run(pattern, text, anywhere=False, partial=True)

    def could_search(self, pattern: str, text: str) -> bool | None:
        """Could a match that begins inside `text` be completed by more text?"""
        return self._run(pattern, text, anywhere=True, partial=True)

    def reaches(self, pattern: str, text: str, start: int) -> bool | None:
        """Does a match begin at or before `start`, and end after it?"""
        for position, anywhere in ((start, False), (0, True)):
            found = self._found(pattern, text, position=position, anywhere=anywhere)
            if found is _UNKNOWN:
                return None
            if found and found.start() <= start < found.end():
                return True
        return False

    def _run(self, pattern: str, text: str, *, anywhere: bool, partial: bool) -> bool | None:
        found = self._found(pattern, text, anywhere=anywhere, partial=partial)
        if found is _UNKNOWN:
            return None
        if found is None:
            return False
        return not (anywhere and partial and found.partial and found.start() == len(text))

    def _found(
        self, pattern: str, text: str, *, anywhere: bool, partial: bool = False, position: int = 0
    ) -> "Match[str] | _Unknown | None":
        if self._left <= 0:
            return _UNKNOWN
        started = time.thread_time()
        try:
            compiled = compile_pattern(pattern)
            method = compiled.search if anywhere else compiled.match
            return method(text, pos=position, timeout=self._left, partial=partial)
        except (TimeoutError, ValueError, RecursionError, MemoryError):
            return _UNKNOWN
        finally:
            self._left -= time.thread_time() - started


def stable_json(args: Mapping[str, Any]) -> str:
    """`args` as compact JSON: keys sorted at every level, no spaces, non-ASCII as itself.

    The same arguments always give the same text, so `"command":"(git|npm)` is a usable pattern.
    A lone surrogate becomes its \\uXXXX escape. Raises ValueError for what has no JSON form or is
    nested too deeply.
    """
    try:
        return msgspec.json.encode(args, order="sorted").decode("utf-8")
    except UnicodeEncodeError:
        return _escaped(args)
    except (TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"the arguments have no JSON form: {error}") from error


def _escaped(args: Mapping[str, Any]) -> str:
    import json

    text = json.dumps(
        args, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)
