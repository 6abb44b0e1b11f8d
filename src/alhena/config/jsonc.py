"""JSON with comments: what editors and the reference accept in settings files."""


def strip_comments(text: str) -> str:
    """`text` with // and /* */ comments and trailing commas replaced by spaces.

    Lines and offsets stay as they were, so that a parser's error position fits the original.
    Strings are left alone. An unterminated comment is left for the parser to complain about.
    """
    out = list(text)
    position = 0
    comma = -1
    while position < len(text):
        char = text[position]
        if char == '"':
            position = _end_of_string(text, position)
            comma = -1
            continue
        end = _end_of_comment(text, position) if char == "/" else position
        if end > position:
            out[position:end] = [c if c == "\n" else " " for c in text[position:end]]
            position = end
            continue
        if char == ",":
            comma = position
        elif char in "]}" and comma >= 0:
            out[comma] = " "
            comma = -1
        elif not char.isspace():
            comma = -1
        position += 1
    return "".join(out)


def _end_of_string(text: str, start: int) -> int:
    """The offset behind the string that starts at `start`."""
    position = start + 1
    while position < len(text):
        if text[position] == "\\":
            position += 2
        elif text[position] == '"':
            return position + 1
        else:
            position += 1
    return len(text)


def _end_of_comment(text: str, start: int) -> int:
    """The offset behind the comment at `start`; `start` itself when there is none."""
    if text.startswith("//", start):
        end = text.find("\n", start)
        return len(text) if end < 0 else end
    if text.startswith("/*", start):
        end = text.find("*/", start + 2)
        return start if end < 0 else end + 2
    return start
