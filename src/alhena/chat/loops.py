"""Loop detection: the same calls with the same results, or the same words over and over.

What is repeated is not a call but a call with its result: whoever reads a file after an edit, pages
through a long one or polls a running process learns something each time.
"""

import os.path
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.wire.content import FunctionResponsePart, Part

_PROMPTS = Path(__file__).parent / "prompts"


def loop_note(detail: str) -> str:
    """The words for the model that was found in a loop. `detail` says what is repeated."""
    return _text("loop").replace("${detail}", detail)


def loop_question() -> str:
    """The question behind a stretch of a conversation: does it get anywhere?"""
    return _text("loop_check")


def _text(name: str) -> str:
    return (_PROMPTS / f"{name}.md").read_text(encoding="utf-8").rstrip()


OWN = "\0"
"""Placeholder for words of the arguments in an error."""
READ = 4_096
"""Characters at either end of a text, and at the beginning of an argument, that are looked at."""

_MOST = 100
_BETWEEN = re.compile(r"[\\\s\"'`<>()\[\]{},\0]+")


class OwnWords:
    """The texts and numbers among the arguments of a call, in the forms in which an error may
    repeat them: as they are, on one line, escaped, the first line; of a path its directory and its
    name."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        forms: set[str] = set()
        for value in islice(_leaves(args), _MOST):
            value = value[:READ].strip()
            forms |= {value, " ".join(value.split()), repr(value)[1:-1], value.split("\n")[0]}
            if "/" in value:
                plain = os.path.normpath(value)
                forms |= {plain, *os.path.split(plain)}
        escaped = {_canonical(form)[1:-1].decode() for form in forms if form}
        texts = filter(_BETWEEN.search, escaped)
        self._texts = sorted(texts, key=lambda form: (-len(form), form))
        self._words = escaped.difference(self._texts)

    def mask_words(self, said: str) -> str:
        """A text as JSON, with the placeholder for each of these words, and for the whole path that
        ends with one."""
        if len(said) <= 2 * READ:
            return self._without(said)
        return f"{self._without(said[:READ])}{said[READ:-READ]}{self._without(said[-READ:])}"

    def _without(self, said: str) -> str:
        for text in self._texts:
            said = said.replace(text, OWN)
        words = _BETWEEN.split(said)
        return " ".join(OWN if self._is_own(word.strip(".:;")) else word for word in words)

    def _is_own(self, word: str) -> bool:
        return word in self._words or word.rpartition("/")[2] in self._words


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, Mapping):
        fields = cast("Mapping[Any, Any]", value)
        for each in fields.values():
            yield from _leaves(each)
    elif isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        for each in items:
            yield from _leaves(each)


MAX_PERIOD = 5
"""Turns of the longest cycle that is found."""
REPEATS = 5
"""Repetitions of a cycle with identical results that make a loop."""
ERROR_REPEATS = 10
"""The same where calls that fail have other arguments each time, and always the same error, but for
what it repeats of these arguments."""


class LoopKind(StrEnum):
    """Kinds of loops. Those that the reference knows have its names."""

    CALLS = "consecutive_identical_tool_calls"
    CYCLE = "repeating_tool_call_cycle"
    ERRORS = "repeated_tool_error"
    CHANTING = "chanting_identical_sentences"
    JUDGED = "llm_detected_loop"


class Loop(msgspec.Struct, frozen=True):
    """A loop that was found. `detail` says in words what is repeated."""

    kind: LoopKind
    detail: str


class CalledTool(msgspec.Struct, frozen=True):
    """A call that has ended. `result` are the parts that the model gets for it. `refused`: it did
    not fail, a person or a rule would not have it."""

    name: str
    args: Mapping[str, Any]
    result: tuple[Part, ...]
    failed: bool = False
    refused: bool = False


class CallLoops:
    """Takes the calls of one turn after the other; forgets all but the last hundred turns.

    A turn is what it called with which results, in whatever order and however often within it. Of
    a call that failed its arguments do not count in the long run, only the error, nor what the
    error repeats of them: another guess that comes to the same is no progress. What was refused is
    no guess: another call is another proposal, although the answer is the same.
    """

    def __init__(self) -> None:
        self._exact: deque[int] = deque(maxlen=MAX_PERIOD * REPEATS)
        self._guesses: deque[int] = deque(maxlen=MAX_PERIOD * ERROR_REPEATS)
        self._unquoted: deque[int] = deque(maxlen=MAX_PERIOD * ERROR_REPEATS)
        self._turns: deque[dict[int, tuple[str, bool]]] = deque(maxlen=MAX_PERIOD)

    def reset(self) -> None:
        """Resets: earlier turns no longer count."""
        self._exact.clear()
        self._guesses.clear()
        self._unquoted.clear()
        self._turns.clear()

    def feed(self, calls: Sequence[CalledTool]) -> Loop | None:
        """Takes a turn's calls; the loop that they complete, if they do."""
        if not calls:
            return None
        exact, guesses, unquoted = set[int](), set[int](), set[int]()
        called: dict[int, tuple[str, bool]] = {}
        for call in calls:
            args = _canonical(call.args)
            guess = call.failed and not call.refused
            head = hash((call.name, call.failed, b"" if guess else args))
            called[head] = call.name, call.failed
            texts = tuple(_texts(call.result))
            exact.add(hash((head, args, texts)))
            guesses.add(hash((head, texts)))
            if guess:
                texts = tuple(map(OwnWords(call.args).mask_words, texts))
            unquoted.add(hash((head, texts)))
        self._exact.append(hash(frozenset(exact)))
        self._guesses.append(hash(frozenset(guesses)))
        self._unquoted.append(hash(frozenset(unquoted)))
        self._turns.append(called)
        period = (
            cycle(self._exact, REPEATS)
            or cycle(self._guesses, ERROR_REPEATS)
            or cycle(self._unquoted, ERROR_REPEATS)
        )
        return self._loop(period) if period else None

    def _loop(self, period: int) -> Loop:
        called = [call for turn in list(self._turns)[-period:] for call in turn.values()]
        names = ", ".join(dict.fromkeys(f"`{name}`" for name, _ in called))
        if all(failed for _, failed in called):
            return Loop(LoopKind.ERRORS, f"{names} failed again and again with the same error")
        if period == 1:
            return Loop(LoopKind.CALLS, f"{names} was called again and again with the same result")
        return Loop(
            LoopKind.CYCLE,
            f"the same {period} steps ({names}) were taken again and again with the same results",
        )


def cycle(steps: Sequence[int], repeats: int, longest: int = MAX_PERIOD) -> int:
    """The length of the shortest cycle that the last steps have gone through `repeats` times; 0
    when there is none of at most `longest` steps."""
    count = len(steps)
    for period in range(1, longest + 1):
        begin = count - period * repeats
        if begin < 0:
            return 0
        if all(steps[index] == steps[index + period] for index in range(begin, count - period)):
            return period
    return 0


def _canonical(value: object) -> bytes:
    """A value as JSON, whatever the order of its keys."""
    try:
        return msgspec.json.encode(value, order="sorted")
    except (TypeError, UnicodeEncodeError, RecursionError):
        return repr(value).encode("utf-8", "backslashreplace")


def _texts(parts: tuple[Part, ...]) -> Iterator[str]:
    """All that a result says; ids of calls are no part of it."""
    for part in parts:
        response = part.function_response
        if response is not None:
            yield _canonical(response.response).decode("utf-8")
            for inner in response.parts or ():
                yield from _medium(inner)
        else:
            yield from _medium(part)


def _medium(part: Part | FunctionResponsePart) -> Iterator[str]:
    """The content of a part that is not a response; raw data for media, which may be large."""
    if part.inline_data is not None:
        yield part.inline_data.mime_type
        yield part.inline_data.data
    else:
        yield repr(part)


STRIDE = 499
"""Characters between two looks; a prime, so that looks fall on all places of what is repeated."""
PROBE = 50
"""Characters that are looked for in what came before them."""
OCCURRENCES = 10
"""Occurrences that make a repetition loop."""
WINDOW = OCCURRENCES * 250
"""Characters in which they are looked for."""
_WORDS = 10
"""Letters and digits without which a repeated piece says nothing."""
_HEAD = 24
"""Characters of a line that say what kind it is."""
_FENCES = ("```", "~~~")
_STRUCTURE = r"[ \t]*(?:\||[-*+][ \t]|\d{1,9}[.)][ \t]|\#{1,6}[ \t]|>|(?:[-*_=+][ \t]*){3,}$)"
"""The beginnings of table rows, list items, headings, quotations and rules."""


class Chant(msgspec.Struct, frozen=True):
    """A repeated text. `begins`: its first position; up to `end` the text adds nothing new after
    that."""

    text: str
    begins: int
    end: int


class Chanting:
    """Takes a text piece by piece; how it is cut into pieces changes nothing.

    Code, tables, lists, headings, quotations and rules may repeat themselves: nothing in a code
    block counts, and any of the others restarts the count, as does the end of a code block. A
    character costs the same however much came before it.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._waiting = 0
        self._text = ""
        self._dropped = 0
        self._looked = 0
        self._line = ""
        self._fence = ""
        self._clear = 0
        self.found: Chant | None = None

    def feed(self, piece: str) -> Chant | None:
        """Takes the next piece; the chant, once the text is one."""
        if self.found is not None:
            return self.found
        self._pieces.append(piece)
        self._waiting += len(piece)
        if self._dropped + len(self._text) + self._waiting < self._looked + STRIDE:
            return None
        text = self._text + "".join(self._pieces)
        self._pieces.clear()
        self._waiting = 0
        at = self._looked - self._dropped
        while at + STRIDE <= len(text):
            at += STRIDE
            self._read(text[at - STRIDE : at], self._dropped + at)
            if not self._fence and self._repeats(text, at):
                return self.found
        self._looked = self._dropped + at
        keep = max(0, at - WINDOW - 1)
        self._text = text[keep:]
        self._dropped += keep
        return None

    def _read(self, segment: str, end: int) -> None:
        """Follows lines into code blocks and out of them."""
        first, *others = segment.split("\n")
        self._line += first[: max(0, _HEAD - len(self._line))]
        for line in others:
            self._end_line(end)
            self._line = line[:_HEAD]

    def _end_line(self, end: int) -> None:
        line = self._line.strip()
        mark = line[:3]
        if mark not in _FENCES:
            return
        if not self._fence:
            self._fence = mark
        elif self._fence == mark and not line.strip(mark[0]):  # what names a language closes none
            self._fence = ""
            self._clear = end

    def _repeats(self, text: str, at: int) -> bool:
        begin = max(0, at - WINDOW, self._clear - self._dropped)
        probe = text[at - PROBE : at]
        if text.count(probe, begin, at) < OCCURRENCES:
            return False
        begin = self._prose(text, begin, at)
        if text.count(probe, begin, at) < OCCURRENCES:
            return False
        if _letters(probe) < _WORDS and (at - begin < WINDOW or _letters(text[begin:at])):
            return False  # lines to be filled in, columns kept apart by blanks
        first = text.index(probe, begin)
        self.found = Chant(probe, self._dropped + first, self._dropped + at)
        return True

    def _prose(self, text: str, begin: int, end: int) -> int:
        """The start of the prose at the end of `text[begin:end]`; `end` if it ends with something
        else. A line that began before `begin` is prose, unless it is the last one."""
        structure = re.compile(_STRUCTURE)
        if structure.match(self._line):
            return end
        at = end
        while at > begin:
            at = text.rfind("\n", begin, at)
            if at < 0:
                return begin
            # The line above: the one below is prose.
            start = text.rfind("\n", begin, at) + 1
            if start == 0:
                start = begin
                if self._dropped + begin > 0 and text[begin - 1] != "\n":
                    return begin
            if structure.match(text[start : min(at, start + _HEAD)]):
                return at + 1
        return begin


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))
