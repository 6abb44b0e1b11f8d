"""Whether a model goes in circles: the same calls with the same results, the same errors.

What is repeated is not a call but a call with its result: whoever reads a file after an edit, pages
through a long one or polls a process that goes on learns something each time.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.chat.quoting import own_words, without_own
from alhena.wire.content import FunctionResponsePart, Part

if TYPE_CHECKING:
    from re import Match, Pattern

MAX_PERIOD = 5
"""Turns of the longest cycle that is found."""
REPEATS = 5
"""How often a cycle has to be gone through, with results that are the same to the letter."""
ERROR_REPEATS = 10
"""The same where calls that fail have other arguments each time, and always the same error, but for
what it repeats of these arguments."""
ALIKE_REPEATS = 20
"""The same for results that differ in nothing but times, durations, process ids and addresses."""
LIKENED_REPEATS = 50
"""The same for calls that are another one each time, but of one `CalledTool.likeness`."""
READ_FOR_LIKENESS = 4_096
"""Characters at either end of a result in which such things are looked for; between these ends it
has to be the same."""

_MOST_AMOUNTS = 200
_SMALL = {"s": 1.0, "m": 1e-3, "µ": 1e-6, "u": 1e-6, "n": 1e-9}


class LoopKind(StrEnum):
    """How a model repeats itself. Those that the reference knows have its names."""

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
    not fail, a person or a rule would not have it. `likeness` is what a call and its result come to
    without what makes no difference in the end, such as a number that counts up; None of a call of
    which that cannot be told: a number may be a page, a line, an id, and so another question."""

    name: str
    args: Mapping[str, Any]
    result: tuple[Part, ...]
    failed: bool = False
    refused: bool = False
    likeness: str | None = None


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
        self._likened: deque[int] = deque(maxlen=MAX_PERIOD * LIKENED_REPEATS)
        self._alike: deque[int] = deque(maxlen=MAX_PERIOD * ALIKE_REPEATS)
        self._amounts: deque[tuple[float, ...]] = deque(maxlen=MAX_PERIOD * ALIKE_REPEATS)
        self._turns: deque[dict[int, tuple[str, bool]]] = deque(maxlen=MAX_PERIOD)

    def reset(self) -> None:
        """Begins anew: what came before counts no more."""
        self._exact.clear()
        self._guesses.clear()
        self._unquoted.clear()
        self._likened.clear()
        self._alike.clear()
        self._amounts.clear()
        self._turns.clear()

    def feed(self, calls: Sequence[CalledTool]) -> Loop | None:
        """Takes a turn's calls; the loop that they complete, if they do."""
        if not calls:
            return None
        exact, guesses, unquoted, likened = set[int](), set[int](), set[int](), set[int]()
        alike: dict[int, tuple[float, ...]] = {}
        called: dict[int, tuple[str, bool]] = {}
        for call in calls:
            args = _canonical(call.args)
            guess = call.failed and not call.refused
            head = hash((call.name, call.failed, b"" if guess else args))
            called[head] = call.name, call.failed
            texts = tuple(_texts(call.result))
            exact.add(hash((head, args, texts)))
            guesses.add(hash((head, texts)))
            liken = (head, texts) if call.likeness is None else (call.name, call.likeness)
            likened.add(hash(liken))
            if guess:
                texts = tuple(_texts(call.result, own_words(call.args)))
            unquoted.add(hash((head, texts)))
            # What is done for the first time costs no second look.
            known = any(head in turn for turn in self._turns)
            settled = (
                [_settled(text) for text in texts] if known else [(text, ()) for text in texts]
            )
            amounts = tuple(amount for _, found in settled for amount in found)
            alike[hash((head, tuple(text for text, _ in settled)))] = amounts
        self._exact.append(hash(frozenset(exact)))
        self._guesses.append(hash(frozenset(guesses)))
        self._unquoted.append(hash(frozenset(unquoted)))
        self._likened.append(hash(frozenset(likened)))
        self._alike.append(hash(frozenset(alike)))
        self._amounts.append(tuple(each for key in sorted(alike) for each in alike[key]))
        self._turns.append(called)
        period = (
            cycle(self._exact, REPEATS)
            or cycle(self._guesses, ERROR_REPEATS)
            or cycle(self._unquoted, ERROR_REPEATS)
            or cycle(self._likened, LIKENED_REPEATS)
        )
        if not period:
            period = cycle(self._alike, ALIKE_REPEATS)
            if period and self._counts_down(period):
                return None
        return self._loop(period) if period else None

    def _counts_down(self, period: int) -> bool:
        """Whether what differs between the rounds of a cycle becomes less from one to the next: the
        time that is left of something is progress, the time that has passed is none."""
        steps = list(self._amounts)[-period * ALIKE_REPEATS :]
        for phase in range(period):
            for column in zip(*steps[phase::period], strict=False):
                if column[0] > column[-1] and all(a >= b for a, b in pairwise(column)):
                    return True
        return False

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


def _canonical(args: Mapping[str, Any]) -> bytes:
    """Arguments as JSON, whatever the order of their keys."""
    try:
        return msgspec.json.encode(args, order="sorted")
    except (TypeError, UnicodeEncodeError, RecursionError):
        return repr(args).encode("utf-8", "backslashreplace")


def _texts(parts: tuple[Part, ...], own: Sequence[str] = ()) -> Iterator[str]:
    """All that a result says, without the caller's `own` words; ids of calls are no part of it."""
    for part in parts:
        response = part.function_response
        if response is not None:
            said = without_own(response.response, own) if own else response.response
            yield _canonical(said).decode("utf-8")
            for inner in response.parts or ():
                yield from _medium(inner)
        else:
            yield from _medium(part)


def _medium(part: Part | FunctionResponsePart) -> Iterator[str]:
    """What a part holds that is no response; data as they are, for they may be large."""
    if part.inline_data is not None:
        yield part.inline_data.mime_type
        yield part.inline_data.data
    else:
        yield repr(part)


def _settled(text: str) -> tuple[str, tuple[float, ...]]:
    """A text without times, durations, process ids and addresses; and how much the times and
    durations are, in seconds."""
    amounts: list[float] = []

    def take(match: "Match[str]") -> str:
        if match[2] is not None:
            amounts.append(_seconds(match[2], match[3]))
        elif match[1] is not None and len(amounts) < _MOST_AMOUNTS:
            amounts.append(_of_day(match[1]))
        return ""

    pattern = _volatile()
    if len(text) <= 2 * READ_FOR_LIKENESS:
        return pattern.sub(take, text), tuple(amounts[:_MOST_AMOUNTS])
    head = pattern.sub(take, text[:READ_FOR_LIKENESS])
    tail = pattern.sub(take, text[-READ_FOR_LIKENESS:])
    middle = text[READ_FOR_LIKENESS:-READ_FOR_LIKENESS]
    return f"{head}\0{middle}\0{tail}", tuple(amounts[:_MOST_AMOUNTS])


def _of_day(time: str) -> float:
    """`10:02:03,5` in seconds, or `10:02` in minutes: it is compared with its own kind."""
    amount = 0.0
    for field in time.replace(",", ".").split(":"):
        amount = amount * 60 + float(field)
    return amount


def _seconds(amount: str, unit: str) -> float:
    size = 60.0 if unit.startswith("min") else 3600.0 if unit.startswith("h") else _SMALL[unit[0]]
    return float(amount.replace(",", ".")) * size


def _volatile() -> "Pattern[str]":
    """Dates, times of day, durations with a unit, ids of processes, addresses in memory."""
    import re

    return re.compile(  # kept by `re`
        r"\d{4}-\d\d-\d\d"
        r"|(\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?)Z?"
        r"|(\d+(?:[.,]\d+)?) ?([mnµu]?s|secs?|seconds?|min|mins|minutes?|hours?)\b"
        r"|(?i:\bp(?:g|p)?ids?\b\W{0,3}\d+)"
        r"|0x[0-9a-fA-F]{6,}"
    )
