"""What an error says besides what it repeats of the call's own arguments."""

import os.path
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import msgspec

from alhena.display_text import escaped

OWN = "\0"
"""What stands in the place of such words."""
READ = 4_096
"""Characters at either end of a text, and at the beginning of an argument, that are looked at."""

_MOST = 100
_MOST_PIECES = 400
_ENDS = 16
_SHORT = 3
"""A piece of a path with fewer characters is no mark of it."""
_CUT = 16
"""An argument that is quoted no further than to an ellipsis is told by so many characters."""
_AROUND = frozenset(" \t\n\"'`<>()[]{}," + OWN)


def own_words(args: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts and numbers among arguments, in the forms in which an error may repeat them, the
    longest first."""
    found: set[str] = set()
    pieces: set[str] = set()
    for value in islice(_leaves(args), _MOST):
        whole = value[:READ].strip()
        found.update(_forms(whole))
        if "/" in whole and "\n" not in whole and len(pieces) < _MOST_PIECES:
            pieces.update(_pieces(whole))
    found |= pieces
    found.discard("")
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def without_own(value: Any, own: Sequence[str]) -> Any:
    """A JSON value in whose texts one mark stands for every one of these words; of a path that ends
    with them, for all of it."""
    if isinstance(value, str):
        if len(value) <= 2 * READ:
            return _without(value, own)
        head, tail = _without(value[:READ], own), _without(value[-READ:], own)
        return f"{head}{value[READ:-READ]}{tail}"
    if isinstance(value, Mapping):
        fields = cast("Mapping[Any, Any]", value)
        return {key: without_own(each, own) for key, each in fields.items()}
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return [without_own(each, own) for each in items]
    return value


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


def _forms(value: str) -> Iterator[str]:
    """As it is, on one line, as messages and programs show it."""
    first, *more = value.split("\n", 1)
    yield value
    yield " ".join(value.split())
    yield repr(value)[1:-1]
    yield escaped(value)
    yield msgspec.json.encode(value.encode("utf-8", "replace").decode("utf-8"))[1:-1].decode()
    if more:
        yield first.strip()


def _pieces(value: str) -> Iterator[str]:
    """Where a path is, and its ends: of one with many parts the longest and the shortest."""
    plain = os.path.normpath(value)
    yield os.path.dirname(plain)
    for path in (value, plain):
        parts = path.split("/")
        starts = range(len(parts))
        for start in dict.fromkeys((*starts[:_ENDS], *starts[-_ENDS:])):
            end = "/".join(parts[start:])
            if len(end) >= _SHORT:
                yield end


def _without(text: str, own: Sequence[str]) -> str:
    for form in own:
        if form in text:
            text = _replaced(text, form)
    for form in own:
        if len(form) > _CUT and form[:_CUT] in text:
            text = _replaced(text, form, cut=True)
    return text


def _replaced(text: str, form: str, *, cut: bool = False) -> str:
    """`text` with the mark for each occurrence of `form` that is no part of a longer word; `cut`:
    also for one that breaks off."""
    sought = form[:_CUT] if cut else form
    pieces: list[str] = []
    begin = 0
    at = text.find(sought)
    while at >= 0:
        end = _end(text, at, form) if cut else at + len(form)
        if cut or not (_runs_on(text, at) or _runs_on(text, end)):
            start = at
            if at > begin and text[at - 1] == "/":
                while start > begin and text[start - 1] not in _AROUND:
                    start -= 1
            pieces += [text[begin:start], OWN]
            begin = end
        at = text.find(sought, end)
    return "".join([*pieces, text[begin:]])


def _end(text: str, at: int, form: str) -> int:
    """Where the words that begin at `at` differ from `form`, behind the ellipsis that follows."""
    length = _CUT
    while length < len(form) and text[at + length : at + length + 1] == form[length]:
        length += 1
    end = at + length
    return next((end + len(dots) for dots in ("…", "...") if text.startswith(dots, end)), end)


def _runs_on(text: str, at: int) -> bool:
    """Whether a word goes on over a position."""
    return 0 < at < len(text) and _is_of_word(text[at - 1]) and _is_of_word(text[at])


def _is_of_word(char: str) -> bool:
    return char.isalnum() or char == "_"
