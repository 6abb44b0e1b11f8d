"""JSON with comments: parses it, finds lines of keys, sets and removes values without losing
comments."""

import json
import re
from collections.abc import Iterator
from typing import Any


def strip_comments(text: str) -> str:
    """Replaces // and /* */ comments and trailing commas in `text` by spaces.

    Lines and offsets are unchanged, so that a parser's error position fits the original. Strings
    are unchanged. The parser will report an unterminated comment.
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
    """The offset after the string that starts at `start`."""
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
    """The offset after the comment at `start`; `start` itself if there is none."""
    if text.startswith("//", start):
        end = text.find("\n", start)
        return len(text) if end < 0 else end
    if text.startswith("/*", start):
        end = text.find("*/", start + 2)
        return start if end < 0 else end + 2
    return start


_TOKENS = r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]|[^\s{}\[\],:"]+'


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line, from 1, of each value of a JSON object, by its keys from the top; the last one of a
    repeated key. List contents have no keys. `text` is valid JSON with comments."""
    lines: dict[tuple[str, ...], int] = {}
    line = 1
    inside: list[tuple[str, ...] | None] = []  # paths of open objects; None in a list
    key: str | None = None
    for token in re.finditer(_TOKENS, strip_comments(text)):
        word = token[0]
        around = inside[-1] if inside else None
        if word == "\n":
            line += 1
        elif word in "}]":
            inside.pop()
        elif word in ",:":
            continue
        elif around is not None and key is None:
            key = str(json.loads(word))
        else:
            path = None if inside else ()
            if around is not None and key is not None:
                path, key = (*around, key), None
                lines[path] = line
            if word in "{[":
                inside.append(path if word == "{" else None)
    return lines


class JsonEditError(ValueError):
    """The value cannot be set; the message explains why."""


def with_value(text: str, path: tuple[str, ...], value: Any) -> str:
    """`text`, a JSON object with comments, with `value` at `path`; "" counts as `{}`.

    Creates missing objects on the path. Raises JsonEditError when the text is not JSON, a value on
    the path is not an object, or the replaced value contains a comment.
    """
    if not text.strip():
        text = "{}\n"
    clean, start, _ = _parse_text(text)
    return _set(text, clean, start, path, value)


def without_value(text: str, path: tuple[str, ...]) -> str:
    """`text`, a JSON object with comments, without all members at `path`, comments inside their
    values included; other comments stay. Raises JsonEditError when the text is not a JSON object.
    """
    while True:
        clean, start, value = _parse_text(text)
        if not isinstance(value, dict):
            raise JsonEditError("contains something else than an object")
        for key in path[:-1]:
            found = [span for name, span in _members_edit(clean, start) if name == key]
            if not found or clean[found[-1][0]] != "{":
                return text
            start = found[-1][0]
        names = [name for name, _ in _members_edit(clean, start)]
        if path[-1] not in names:
            return text
        text = _cut(text, clean, start, names.index(path[-1]))


def _parse_text(text: str) -> tuple[str, int, Any]:
    """The text with comments as spaces, the start of its value, and the value. Raises
    JsonEditError."""
    clean = strip_comments(text)
    try:
        value = json.loads(clean.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise JsonEditError(f"is no valid JSON: {error}") from error
    return clean, len(clean) - len(clean.lstrip("\ufeff \t\r\n")), value


def _cut(text: str, clean: str, start: int, index: int) -> str:
    """`text` without one member of the object at `start` and one adjacent comma."""
    spans = [span for _, span in _members_edit(clean, start)]
    _, close = json.JSONDecoder().raw_decode(clean, start)
    # The inserted 0 keeps the comma of the last member from being stripped as trailing.
    bare = strip_comments(f"{text[: close - 1]}0{text[close - 1 :]}")
    before = bare.find(",", spans[index - 1][1]) if index else -1
    begin = _skip(clean, before + 1 if index else start + 1)
    end = spans[index][1]
    after = _skip(bare, end)
    comma = after if bare[after] == "," else before
    dropped = {*range(begin, end), comma}
    first, last = text.rfind("\n", 0, begin) + 1, text.find("\n", max(end, comma))
    left = "".join(text[at] for at in range(first, last) if at not in dropped)
    if first > start and not left.strip():
        dropped |= {*range(first, last + 1)}
    return "".join(char for at, char in enumerate(text) if at not in dropped)


def _set(text: str, clean: str, start: int, path: tuple[str, ...], value: Any) -> str:
    end = len(clean)
    for depth, key in enumerate(path):
        if clean[start] != "{":
            where = ".".join(path[:depth]) or "the document"
            raise JsonEditError(f"contains something else than an object as {where}")
        found = [span for name, span in _members_edit(clean, start) if name == key]
        if not found:
            return _insert_member(text, clean, start, path[depth:], value)
        start, end = found[-1]  # the last one of a repeated key is used
    old = text[start:end]
    if _has_comment(old, clean[start:end]):
        raise JsonEditError(f"has a comment in {'.'.join(path)}, which would be lost")
    return text[:start] + json.dumps(value, ensure_ascii=False) + text[end:]


def _insert_member(text: str, clean: str, start: int, path: tuple[str, ...], value: Any) -> str:
    """`text` with a new member at the start of the object at `start`."""
    for key in reversed(path[1:]):
        value = {key: value}
    line = text.rfind("\n", 0, start) + 1
    indent = text[line:start][: len(text[line:start]) - len(text[line:start].lstrip())]
    inner = indent + "  "
    written = json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n" + inner)
    empty = clean[_skip(clean, start + 1)] == "}"
    end = (
        "" if not empty else "" if "\n" in text[start : clean.index("}", start)] else f"\n{indent}"
    )
    member = f"\n{inner}{json.dumps(path[0], ensure_ascii=False)}: {written}"
    return text[: start + 1] + member + ("" if empty else ",") + end + text[start + 1 :]


def _members_edit(clean: str, start: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """The keys of the object at `start`, each with the range of its value. `clean` is valid JSON
    without comments."""
    decoder = json.JSONDecoder()
    position = _skip(clean, start + 1)
    while clean[position] != "}":
        key, position = decoder.raw_decode(clean, position)
        begin = _skip(clean, _skip(clean, position) + 1)
        _, position = decoder.raw_decode(clean, begin)
        yield key, (begin, position)
        position = _skip(clean, position)
        if clean[position] == ",":
            position = _skip(clean, position + 1)


def _skip(clean: str, position: int) -> int:
    while clean[position] in " \t\r\n":
        position += 1
    return position


def _has_comment(old: str, clean: str) -> bool:
    """True when stripping removed more than trailing commas."""
    return any(was not in (now, ",") for was, now in zip(old, clean, strict=True))
