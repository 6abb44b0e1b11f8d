"""Reading .env files, as the dotenv of Node has it.

A line is `NAME=value`, with `export` before it or not; `NAME: value` is the same. A value in single
quotes, double quotes or backticks is taken whole, over several lines, too; in double quotes `\\n`
and `\\r` are line breaks. A value without quotes goes to a `#` or the end of its line, without the
blanks around it. Nothing is put in for `$NAME`. Lines of any other form say nothing. Of a name that
stands there twice the last counts.
"""

QUOTES = ("'", '"', "`")
_BLANKS = " \t\v\f\u00a0\ufeff"
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


def parse_env(text: str) -> dict[str, str]:
    """The variables of a .env file, in the order in which their names come up. Linear in the length
    of the text."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    closing = _Closing(text)
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        named = _name(text, position)
        if named is None:
            position = _line_end(text, position) + 1
            continue
        name, position = named
        value, position = _value(text, position, closing)
        found.pop(name, None)
        found[name] = value
    return found


class _Closing:
    """Where quotes end. What is known of a text is kept: one without a closing quote is looked
    through once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._unclosed: dict[str, int] = {}

    def end(self, start: int) -> int:
        """The offset of the quote that closes the one at `start`; -1 where none does."""
        quote = self._text[start]
        if start >= self._unclosed.get(quote, len(self._text)):
            return -1
        position = start + 1
        while True:
            position = self._text.find(quote, position)
            if position < 0:
                self._unclosed[quote] = min(start, self._unclosed.get(quote, start))
                return -1
            if self._text[position - 1] != "\\" or position - 1 == start:
                return position
            position += 1


def _name(text: str, position: int) -> tuple[str, int] | None:
    """The name of the line that begins at `position`, and where its value may begin."""
    position = _skip(text, position)
    if text.startswith("export", position):
        after = _skip(text, position + 6)
        if after > position + 6 and text[after : after + 1] in _NAME:
            position = after
    end = position
    while end < len(text) and text[end] in _NAME:
        end += 1
    if end == position:
        return None
    equals = _skip(text, end)
    if text[equals : equals + 1] == "=":
        return text[position:end], equals + 1
    if text[end : end + 1] == ":" and text[end + 1 : end + 2] in tuple(_BLANKS):
        return text[position:end], end + 1
    return None


def _value(text: str, position: int, closing: _Closing) -> tuple[str, int]:
    """The value that begins at `position`, and where the next line does."""
    start = _skip(text, position)
    if text[start : start + 1] in QUOTES:
        end = closing.end(start)
        if end > 0:
            after = _skip(text, end + 1)
            if text[after : after + 1] in ("", "\n", "#"):
                inner = text[start + 1 : end]
                return _with_breaks(inner, text[start]), _line_end(text, after) + 1
    line_end = _line_end(text, start)
    comment = text.find("#", start, line_end)
    bare = text[start : line_end if comment < 0 else comment].strip(_BLANKS)
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in QUOTES:
        return _with_breaks(bare[1:-1], bare[0]), line_end + 1
    return _with_breaks(bare, bare[:1]), line_end + 1


def _with_breaks(value: str, quote: str) -> str:
    if quote != '"':
        return value
    return value.replace("\\n", "\n").replace("\\r", "\r")


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANKS:
        position += 1
    return position


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
