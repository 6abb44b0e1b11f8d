"""Makes text safe to display: it cannot control a terminal, hide characters, or move text around
it.

`escaped` and `one_line` are for messages, `exact` for confirmations, and `without_controls` for
answers, which programs read too. For paths that a model may use again see
`system.errors.printable`.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

ELLIPSIS = "…"
PADDING = 40
"""Columns of consecutive blanks that can push the end of a line out of sight; a tab counts as 4."""
LINE_BREAKS = 4
"""Maximum consecutive line breaks (with only blanks between) displayed in a command."""

# Characters that isprintable accepts although nothing is drawn: Unicode's default ignorable
# code points, and blanks that are not white space.
_UNDRAWN = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    "\U00016fe4\U0001d159" + "".join(map(chr, range(0xFE00, 0xFE10)))
)
_SELECTORS = ("\U000e0000", "\U000e0fff")
_OVERLAYS = ("\u0334", "\u0338")
_MARKS = 4
"""Maximum combining marks on a letter of a living language."""

_EMOJI = (
    r"[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf"
    r"\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_SCRIPT = r"[\u0600-\u0dff]"
JOINED = (
    rf"(?<={_EMOJI})\ufe0f|(?<=[#*0-9])\ufe0f(?=\u20e3)|(?<=[#*0-9]\ufe0f)\u20e3"
    rf"|(?<=[\ufe0f\u2600-\u27bf\U0001f000-\U0001faff])\u200d(?={_EMOJI})"
    rf"|(?<={_SCRIPT})[\u200c\u200d](?={_SCRIPT})"
)
"""Pattern of characters without a form of their own that join others to one sign."""

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BLANKS = {" ": "spaces", "\t": "tabs", "\n": "line breaks"}
_LOOKALIKE = (
    r"(?<!\\)(\\++)(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|\{[0-9]+ (?:spaces|tabs|line breaks)\})"
)


def money(amount: float | None) -> str:
    """An amount of US dollars with two significant digits, cents from a dollar on."""
    if amount is None:
        return "unknown"
    if amount >= 1:
        return f"${amount:,.2f}"
    digits = 2
    while amount and digits < 8 and amount < 10 ** (1 - digits):
        digits += 1
    return f"${amount:.{digits}f}"


def escaped(text: str, *, block: bool = False) -> str:
    """Puts `text` on one line, with invisible characters written as `\\x1b`, `\\u202e`, `\\n`.

    What joins emoji, or letters of scripts that need it, is kept; with `block`, line breaks and
    tabs too. Escaped and plain text is unchanged.
    """
    if text.isascii() and text.isprintable():
        return text
    if block and "\n" in text:  # most lines of a large output are as they are
        return "\n".join(escaped(each, block=True) for each in text.split("\n"))
    kept = "\t" if block else ""
    joined = joins(text)
    return "".join(
        _SHORT.get(char) or code(char) if hidden and char not in kept and at not in joined else char
        for at, (char, hidden) in enumerate(mark_unseen(text))
    )


def joins(text: str) -> frozenset[int]:
    """The indices of the characters that join others to one sign (`JOINED`)."""
    if text.isascii():
        return frozenset()
    import re

    return frozenset(match.start() for match in re.finditer(JOINED, text))


def one_line(text: str, limit: int = 0) -> str:
    """Puts a message on one line: runs of white space become single spaces, the rest is `escaped`.

    A message longer than `limit` characters (0: unlimited) is truncated with an ellipsis.
    """
    # Text beyond the limit need not be escaped.
    line = escaped(" ".join((text[: 4 * limit + 100] if limit else text).split()))
    whole = not limit or (len(line) <= limit and len(text) <= 4 * limit + 100)
    return line if whole else line[: max(limit - 1, 0)].rstrip() + ELLIPSIS


def message_line(text: str, limit: int) -> str:
    """A message on one line as `one_line`, and how many characters of a longer one are left out."""
    line = one_line(text)
    more = len(line) - limit
    return line if more <= 0 else f"{line[:limit]}{ELLIPSIS} ({more:,} more characters)"


def sentence(text: str) -> str:
    """A message that begins with a capital letter, unless its first word is a name: of a key, a
    path, a command."""
    first = text.split(" ", 1)[0].rstrip(",")
    is_word = len(first) > 1 and first.isalpha() and first.islower()
    return text[:1].upper() + text[1:] if is_word else text


def first_of(names: Sequence[str], most: int, count: int = 0) -> str:
    """The first names of a list on one line, and how many more there are; `count` is their number
    where the list has only some."""
    more = (count or len(names)) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def exact(text: str) -> str:
    """Makes all of `text` visible: line breaks and tabs are kept, padding becomes `\\{400 spaces}`,
    invisible characters are escaped.

    The result is unambiguous: backslashes before text that looks like such an escape are doubled.
    """
    if text.isascii() and text.isprintable() and "\\" not in text and " " * PADDING not in text:
        return text
    import re

    shown: list[str] = []
    for piece, coded in _pieces(text):
        if coded:
            tail = shown[-1] if shown else ""
            slashes = len(tail) - len(tail.rstrip("\\"))
            shown += ["\\" * slashes, piece]
        else:
            shown.append(re.sub(_LOOKALIKE, _double_slashes, piece))
    return "".join(shown)


def without_controls(text: str) -> str:
    """Removes terminal sequences and control characters from `text`; line breaks and tabs are kept.

    For answers and results, which programs read too: all letters and marks of a language are kept.
    An incomplete sequence loses only its first character.
    """
    if text.isascii() and text.isprintable():
        return text
    import re

    if "\x1b" in text:
        text = re.sub(
            r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-OQ-WYZ\\])",
            "",
            text,
        )
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+", "", text)


def mark_unseen(text: str) -> Iterator[tuple[str, bool]]:
    """Each character of `text`, with True if a reader would miss or mistake it."""
    room = 0
    category = _categories(text)
    for char in text:
        if " " <= char < "\x7f":
            room = _MARKS if char.isalnum() else 0
            yield char, False
        elif unseen(char):
            room = 0
            yield char, True
        elif category(char)[0] == "M":
            if category(char) == "Me" or _OVERLAYS[0] <= char <= _OVERLAYS[1]:
                room = 0  # it is drawn through or around the preceding text
            yield char, room == 0
            room = max(room - 1, 0)
        else:
            room = _MARKS if char.isalnum() else 0
            yield char, False


def unseen(char: str) -> bool:
    """True when a character is a control, is not drawn, or changes the display of others."""
    return not char.isprintable() or char in _UNDRAWN or _SELECTORS[0] <= char <= _SELECTORS[1]


def code(char: str) -> str:
    """Formats a character as `\\x1b`, `\\u202e` or `\\U000e0001`."""
    point = ord(char)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def is_padding(run: str) -> bool:
    """True when consecutive blanks (spaces and tabs) are wide enough to hide the text after
    them."""
    return len(run) + 3 * run.count("\t") >= PADDING


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Alternating pieces of unchanged text and replacements."""
    import re

    for index, run in enumerate(re.split(r"([ \t\n]{5,})", text)):
        if index % 2 == 0:
            for hidden, pairs in groupby(_mark_hidden(run), key=lambda pair: pair[1]):
                chars = "".join(char for char, _ in pairs)
                yield ("".join(map(code, chars)) if hidden else chars), hidden
        elif run.count("\n") > LINE_BREAKS:
            yield _count_blanks(run), True
        else:
            for part in re.split(r"(\n)", run):
                yield (_count_blanks(part), True) if is_padding(part) else (part, False)


def _mark_hidden(text: str) -> Iterator[tuple[str, bool]]:
    return ((char, hidden and char not in "\n\t") for char, hidden in mark_unseen(text))


def _count_blanks(run: str) -> str:
    shown: list[str] = []
    for char, group in groupby(run):
        count = len(list(group))
        shown.append(f"\\{{{count} {_BLANKS[char]}}}" if count > 1 else code(char))
    return "".join(shown)


def _double_slashes(match: "re.Match[str]") -> str:
    slashes, name = match.groups()
    point = -1 if name.startswith("{") else int(name[1:], 16)
    if point > 0x10FFFF:
        return match[0]
    char = chr(point) if point >= 0 else ""
    ours = not char or char in _BLANKS or unseen(char) or _categories(char)(char)[0] == "M"
    return slashes * 2 + name if ours else match[0]


def _categories(text: str) -> Callable[[str], str]:
    """A function for the category of characters; loads the full table only for non-ASCII text."""
    if text.isascii():
        return lambda _char: "Cc"
    from unicodedata import category

    return category
