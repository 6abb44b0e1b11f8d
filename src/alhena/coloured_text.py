"""Colours and emphasis of a program's output, as sequences `CSI … m` set them."""

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from alhena.display_text import without_controls

COLOUR = re.compile(r"\x1b\[([0-9;:]*)m")
"""A sequence that changes them; its parameters."""
_MARKS = frozenset("123479")
_UNMARKS = {"21": "1", "22": "12", "23": "3", "24": "4", "27": "7", "29": "9"}
_LENGTHS = {"5": 3, "2": 5}
"""Form of a colour by numbers -> how many parameters it has."""


class Pen(msgspec.Struct, frozen=True):
    """Colours and emphasis of a text: the parameters of its colour and its ground (`31`,
    `48;5;120`), and those of its marks: 1 bold, 2 dim, 3 italic, 4 underlined, 7 reversed, 9 struck
    out."""

    colour: str = ""
    ground: str = ""
    marks: str = ""

    @property
    def sequence(self) -> str:
        """The sequence that begins writing so, whatever came before."""
        return f"\x1b[{';'.join(filter(None, ('0', *self.marks, self.colour, self.ground)))}m"


@lru_cache(maxsize=512)
def change_pen(pen: Pen, parameters: str) -> Pen:
    """The pen after a sequence with these parameters; unknown ones change nothing."""
    colour, ground, marks = pen.colour, pen.ground, set(pen.marks)
    rest = [each.lstrip("0") or "0" for each in re.split("[;:]", parameters)]
    while rest:
        code, length = rest[0], 1
        if code == "0":
            colour, ground, marks = "", "", set[str]()
        elif code in _MARKS:
            marks.add(code)
        elif code in _UNMARKS:
            marks -= set(_UNMARKS[code])
        elif code in ("38", "48"):
            length = _LENGTHS.get("".join(rest[1:2]), len(rest))
            whole = ";".join(rest[:length]) if len(rest) >= length > 1 else ""
            colour, ground = (whole, ground) if code == "38" else (colour, whole)
        elif len(code) > 1 and code[:-1] in ("3", "9"):
            colour = "" if code == "39" else code
        elif code[:-1] in ("4", "10"):
            ground = "" if code == "49" else code
        rest = rest[length:]
    return Pen(colour, ground, "".join(sorted(marks)))


def coloured_parts(text: str) -> Iterator[tuple[Pen, str]]:
    """The parts of a text, each with how it is written; neighbours differ in it."""
    pen, parts = Pen(), list[str]()
    at, before = 0, pen
    for found in (*COLOUR.finditer(text), None):
        end = len(text) if found is None else found.start()
        if end > at:
            if pen != before and parts:
                yield before, "".join(parts)
                parts.clear()
            before = pen
            parts.append(text[at:end])
        if found is not None:
            pen, at = change_pen(pen, found[1]), found.end()
    if parts:
        yield before, "".join(parts)


def merge_colours(text: str) -> str:
    """The text with no more sequences than its changes of colour need."""
    if "\x1b" not in text:
        return text
    shown, before = list[str](), Pen()
    for pen, part in coloured_parts(text):
        shown.append(part if pen == before else f"{pen.sequence}{part}")
        before = pen
    return "".join(shown) + ("" if before == Pen() else Pen().sequence)


def only_colours(text: str) -> str:
    """Removes all that acts on a terminal, except for colours and emphasis."""
    if "\x1b" not in text:
        return without_controls(text)
    parts = COLOUR.split(text)
    parts[::2] = map(without_controls, parts[::2])
    parts[1::2] = (f"\x1b[{each}m" for each in parts[1::2])
    return "".join(parts)
