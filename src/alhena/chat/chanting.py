"""Whether a text that streams in says the same over and over."""

import msgspec

STRIDE = 499
"""Characters between two looks; a prime, so that looks fall on all places of what is repeated."""
PROBE = 50
"""Characters that are looked for in what came before them."""
OCCURRENCES = 10
"""How often they are there when a text is chanting."""
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
    """What is repeated. `begins` is its first place in the text; what lies `end` and before says
    nothing new from there on."""

    text: str
    begins: int
    end: int


class Chanting:
    """Takes a text piece by piece; how it is cut into pieces changes nothing.

    Code, tables, lists, headings, quotations and rules may repeat themselves: nothing in a code
    block counts, and any of the others begins the count anew, as does the end of a code block. A
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
        """Where the prose begins that `text[begin:end]` ends with; `end` when it ends with
        something else. A line that began before `begin` is prose, unless it is the last one."""
        import re

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
