"""At which lines of a policy file its tables begin; the TOML reader of the library does not say."""

import re

_TOKEN = re.compile(
    r"""(?P<head>^[ \t]*\[\[[ \t]*(?P<quote>["']?)(?P<name>[A-Za-z0-9_-]+)(?P=quote)[ \t]*\]\])"""
    r"""|\"{3}|'{3}|["'#]""",
    re.MULTILINE,
)
_BASIC_END = re.compile(r'(?:[^"\\\n]|\\.)*+"')


def table_lines(text: str, table: str) -> list[int]:
    """The lines (from 1) of each `[[table]]` of valid TOML, passing over strings and comments."""
    lines: list[int] = []
    line, counted, position = 1, 0, 0
    while (token := _TOKEN.search(text, position)) is not None:
        if token["head"] is not None:
            line += text.count("\n", counted, token.start())
            counted = token.start()
            if token["name"] == table:
                lines.append(line)
            position = token.end()
        else:
            position = _end(text, token[0], token.end())
    return lines


def _end(text: str, token: str, start: int) -> int:
    """Where the comment or string ends that `token` began."""
    match token:
        case "#":
            return _after(text, "\n", start)
        case "'":
            return _after(text, "'", start)
        case '"':
            found = _BASIC_END.match(text, start)
            return len(text) if found is None else found.end()
        case _:
            return _multiline_end(text, token, start)


def _after(text: str, mark: str, start: int) -> int:
    found = text.find(mark, start)
    return len(text) if found < 0 else found + len(mark)


def _multiline_end(text: str, token: str, start: int) -> int:
    """Behind the closing marks; up to two more of the same belong to the string."""
    position, end = start, text.find(token, start)
    while end >= 0:
        escape = text.find("\\", position, end) if token[0] == '"' else -1
        if escape < 0:
            break
        position = escape + 2
        if position > end:
            end = text.find(token, position)
    if end < 0:
        return len(text)
    end += len(token)
    return end + min(2, len(text[end : end + 2]) - len(text[end : end + 2].lstrip(token[0])))
