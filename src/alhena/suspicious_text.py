"""Detects deceptive text and describes it in words for a warning."""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from alhena.display_text import (
    JOINED,
    LINE_BREAKS,
    code,
    escaped,
    is_padding,
    joins,
    mark_unseen,
    one_line,
    unseen,
)

MOST_WARNINGS = 8
"""Maximum clauses returned by `suspicious`."""
_SHOWN = 40

_CONTROLS = {
    "\0": "null character",
    "\x07": "bell",
    "\x08": "backspace",
    "\r": "carriage return",
    "\x0b": "vertical tab",
    "\x0c": "form feed",
    "\x1b": "escape character",
    "\x7f": "delete character",
    "\x9b": "control sequence introducer",
}
# Letters of other scripts that look like a Latin one.
_LOOKALIKES = frozenset(
    "\u0430\u0441\u0435\u04bb\u0456\u0458\u04cf\u043e\u0440\u051b\u0455\u0443"  # Cyrillic
    "\u0445\u051d\u0475\u0501\u043a\u0410\u0412\u0415\u041a\u041c\u041d\u041e"  # Cyrillic
    "\u0420\u0421\u0422\u0425\u0423\u0406\u0408\u0405\u050c\u051a\u051c\u04c0"  # Cyrillic
    "\u0474"  # Cyrillic
    "\u03b1\u03bd\u03bf\u03c1\u03b9\u03c5\u03b3\u03c7\u03b7\u03c4\u03c9\u03f2"  # Greek
    "\u03f3\u03ba\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f"  # Greek
    "\u03a1\u03a4\u03a5\u03a7"  # Greek
    "\u0585\u057d\u0578\u0576\u0570\u0581\u0566\u0584\u054d\u0555\u054f\u053c"  # Armenian
    "\u13aa\u13ac\u13b3\u13b7\u13bb\u13df\u13da\u13a2\u13a0\u13a1\u13e2\u13c0"  # Cherokee
    "\u0261\u0251\u0269\u028b"  # phonetic
)
_SLASHES = "\u2044\u2215\u29f8\uff0f"


def suspicious(text: str, programs: Iterable[str] = ()) -> tuple[str, ...]:
    """Warnings about a deceptive `text`, each a clause such as "contains a right-to-left override
    (\\u202e) at column 12"; empty for an unsuspicious one.

    `programs` are the programs named in a command line: their names must be Latin if they look so.
    """
    roots = tuple(programs)
    if text.isascii() and text.isprintable() and "  " not in text and all(map(str.isascii, roots)):
        return ()
    found = [*_hidden(text), *_padding(text)]
    if not (text.isascii() and all(map(str.isascii, roots))):
        found += [*_right_to_left(text), *_lookalikes(text, roots)]
    return _limit_warnings(found)


def hidden(text: str) -> tuple[str, ...]:
    """Warnings about hidden characters in a text of any language, such as a file or a message, as
    clauses like those of `suspicious`. Letters, blanks and line ends are allowed; so are joiners in
    emoji and in scripts that need them."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return ()
    plain = re.sub(JOINED, "x", text.replace("\r\n", " \n"))
    return _limit_warnings(list(_hidden(plain)))


def write_hidden(text: str) -> str:
    """A text in any language with hidden characters (see `hidden`) written as `\\x1b` or `\\u202e`,
    and line endings normalised."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    text = text.replace("\r\n", "\n")
    joined = joins(text)
    plain = "".join(
        code(char) if hidden and char not in "\r\n\t" and at not in joined else char
        for at, (char, hidden) in enumerate(mark_unseen(text))
    )
    return plain.replace("\r", "\\r")


def _limit_warnings(found: list[str]) -> tuple[str, ...]:
    if len(found) > MOST_WARNINGS:
        more = len(found) - MOST_WARNINGS + 1
        found[MOST_WARNINGS - 1 :] = [f"there are {more} more such findings"]
    return tuple(found)


def _hidden(text: str) -> Iterator[str]:
    first: dict[str, int] = {}
    counts: dict[str, int] = {}
    for at, (char, hidden) in enumerate(mark_unseen(text)):
        if hidden and char not in "\n\t":
            first.setdefault(char, at)
            counts[char] = counts.get(char, 0) + 1
    for char, at in first.items():
        name = _name(char)
        article = "an" if name[0] in "aeiou" else "a"
        more = f", {counts[char]} times in all" if counts[char] > 1 else ""
        # Finding the position requires a scan of all preceding text.
        place = _place(text, at) if len(first) <= MOST_WARNINGS else f"character {at + 1}"
        yield f"contains {article} {name} ({code(char)}) at {place}{more}"


def _padding(text: str) -> Iterator[str]:
    for match in re.finditer(r"[ \t]{10,}", text):
        if is_padding(match[0]):
            yield f"has {len(match[0])} blanks in a row at {_place(text, match.start())}"
            break
    for match in re.finditer(r"[ \t\n]{5,}", text):
        breaks = match[0].count("\n")
        if breaks > LINE_BREAKS:
            yield f"has {breaks} line breaks in a row at {_place(text, match.start())}"
            break


def _right_to_left(text: str) -> Iterator[str]:
    for at, char in enumerate(text):
        if char > "\u0590" and not unseen(char) and unicodedata.bidirectional(char) in ("R", "AL"):
            yield (
                f"has right-to-left letters from {_place(text, at)} on: what is around them may be "
                "shown in another order"
            )
            return


def _lookalikes(text: str, programs: tuple[str, ...]) -> Iterator[str]:
    said: set[str] = set()
    for match in re.finditer(r"[^\W\d_]+", text):
        run = match[0]
        if run.isascii() or run in said or re.search("[A-Za-z]", run) is None:
            continue
        alike = [char for char in dict.fromkeys(run) if _like_latin(char)]
        if alike:
            said.add(run)
            place = _place(text, match.start())
            yield f"{_quoted(run)} at {place} mixes in {_describe_letters(alike)}"
            if len(said) > MOST_WARNINGS:
                return
    hosts = re.findall(r"://([^\s/?#\"'<>]+)", text)
    for kind, name in (*(("program", p) for p in programs), *(("host", h) for h in hosts)):
        for run in re.findall(r"[^\W\d_]+", name):
            if run not in said and not run.isascii() and all(map(_like_latin, run)):
                said.add(run)
                yield f"the {kind} {_quoted(name)} is written with {_describe_letters(list(run))}"
    slash = re.search(rf"(?<=[A-Za-z.])[{_SLASHES}]|[{_SLASHES}](?=[A-Za-z.~])", text)
    if slash is not None:
        char, place = slash[0], _place(text, slash.start())
        yield f"has a character that only looks like a slash (U+{ord(char):04X}) at {place}"


def _like_latin(char: str) -> bool:
    """True when a non-ASCII letter looks like an ASCII letter."""
    if char.isascii():
        return False
    if char in _LOOKALIKES:
        return True
    plain = unicodedata.normalize("NFKC", char)
    raised = unicodedata.decomposition(char).startswith(("<super>", "<sub>"))
    return len(plain) == 1 and plain.isascii() and plain.isalpha() and not raised


def _describe_letters(letters: list[str]) -> str:
    distinct = list(dict.fromkeys(letters))
    points = ", ".join(f"U+{ord(char):04X}" for char in distinct[:4])
    more = "" if len(distinct) <= 4 else ", …"
    return f"letters that only look Latin ({points}{more})"


def _quoted(word: str) -> str:
    return f'"{one_line(escaped(word), _SHOWN)}"'


def _name(char: str) -> str:
    known = _CONTROLS.get(char)
    if known is not None:
        return known
    match unicodedata.category(char):
        case "Cc":
            return "control character"
        case "Cs":
            return "half of a surrogate pair"
        case "Co":
            return "private character"
        case "Cn":
            return "character of no known meaning"
        case _:
            return unicodedata.name(char, "character").lower()


def _place(text: str, at: int) -> str:
    """The position of a character, counted from 1; with the line only if there are several."""
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return f"column {column}" if "\n" not in text else f"line {line}, column {column}"
