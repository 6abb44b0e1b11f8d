"""Regular expressions that users write: bounded in length and in time.

The standard `re` cannot be interrupted, so one bad pattern would hang the process. `regex` takes a
timeout; it is imported by the first rule that has a pattern.
"""

import time
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regex import Pattern

MAX_PATTERN_LENGTH = 2048
BUDGET_SECONDS = 0.05


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

    def _run(self, pattern: str, text: str, *, anywhere: bool, partial: bool) -> bool | None:
        if self._left <= 0:
            return None
        started = time.thread_time()
        try:
            compiled = compile_pattern(pattern)
            method = compiled.search if anywhere else compiled.match
            found = method(text, timeout=self._left, partial=partial)
        except (TimeoutError, ValueError, RecursionError, MemoryError):
            return None
        finally:
            self._left -= time.thread_time() - started
        if found is None:
            return False
        return not (anywhere and partial and found.partial and found.start() == len(text))
