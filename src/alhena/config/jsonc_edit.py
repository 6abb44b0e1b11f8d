"""Setting one value in JSON with comments; every other byte stays as it was."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, cast

from alhena.config.jsonc import strip_comments


class JsonEditError(ValueError):
    """The value cannot be set; the message says why, for people."""


def with_value(text: str, path: tuple[str, ...], value: Any) -> str:
    """`text`, a JSON object with comments, with `value` at `path`; "" counts as `{}`.

    Objects that are missing on the way are made. Raises JsonEditError when the text is no JSON,
    something on the way is no object, or a comment stands in what would be replaced.
    """
    if not text.strip():
        text = "{}\n"
    clean = strip_comments(text)
    try:
        json.loads(clean.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise JsonEditError(f"is no valid JSON: {error}") from error
    start = len(clean) - len(clean.lstrip("\ufeff \t\r\n"))
    return _set(text, clean, start, path, value)


def without_value(text: str, path: tuple[str, ...]) -> str:
    """`text`, a JSON object with comments, without the member at `path`, however often it stands
    there; its own comments go with it, and every other byte stays. Raises JsonEditError when the
    text is no JSON."""
    while True:
        clean = _checked(text)
        start = len(clean) - len(clean.lstrip("\ufeff \t\r\n"))
        for key in path[:-1]:
            found = [span for name, span in members(clean, start) if name == key]
            if not found or clean[found[-1][0]] != "{":
                return text
            start = found[-1][0]
        spans = [span for name, span in members(clean, start) if name == path[-1]]
        if not spans:
            return text
        text = _cut(text, clean, start, spans[-1])


def _checked(text: str) -> str:
    """`text` without comments. Raises JsonEditError when that is no JSON object."""
    clean = strip_comments(text)
    try:
        value = json.loads(clean.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise JsonEditError(f"is no valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise JsonEditError("holds something else than an object")
    return clean


def _cut(text: str, clean: str, start: int, span: tuple[int, int]) -> str:
    """`text` without the member whose value is at `span`, and without one comma beside it."""
    before = [other for _, other in members(clean, start) if other[1] <= span[0]]
    end = before[-1][1] if before else start + 1
    begin = _skip(clean, clean.index(",", end) + 1 if before else end)
    after = _comma(text, clean, span[1])
    if after is None and before:
        comma = clean.index(",", end)
        text = text[:comma] + " " + text[comma + 1 :]
    finish = span[1]
    if after is not None:
        text = text[:after] + " " + text[after + 1 :]
        if not text[finish : after + 1].strip():
            finish = after + 1
    line_begin = text.rfind("\n", 0, begin) + 1
    line_end = text.find("\n", finish)
    alone = line_end >= 0 and not (text[line_begin:begin] + text[finish:line_end]).strip()
    if alone and line_begin > start:
        return _tidy(text[:line_begin]) + text[line_end + 1 :]
    return text[:begin].rstrip(" \t") + text[finish:]


def _tidy(text: str) -> str:
    """Without the blanks that a comma at the end of the last line has left."""
    body = text[:-1] if text.endswith("\n") else text
    return body.rstrip(" \t") + text[len(body) :]


def _comma(text: str, clean: str, end: int) -> int | None:
    """Where the comma behind a value is, a trailing one too; None for none."""
    position = end
    while clean[position] in " \t\r\n":
        if text[position] == "," and not _in_comment(text, end, position):
            return position
        position += 1
    return position if clean[position] == "," else None


def _in_comment(text: str, begin: int, position: int) -> bool:
    """Whether a place behind a value is in a comment that begins there, too."""
    at = begin
    while at < position:
        if text.startswith("//", at):
            line = text.find("\n", at)
            at = len(text) if line < 0 else line
        elif text.startswith("/*", at):
            close = text.find("*/", at + 2)
            at = len(text) if close < 0 else close + 2
        else:
            at += 1
    return at > position


def _set(text: str, clean: str, start: int, path: tuple[str, ...], value: Any) -> str:
    end = len(clean)
    for depth, key in enumerate(path):
        if clean[start] != "{":
            where = ".".join(path[:depth]) or "the document"
            raise JsonEditError(f"holds something else than an object as {where}")
        found = [span for name, span in members(clean, start) if name == key]
        if not found:
            return _inserted(text, clean, start, path[depth:], value)
        start, end = found[-1]  # of a key that stands there twice, the last counts
    old = text[start:end]
    if _has_comment(old, clean[start:end]):
        raise JsonEditError(f"has a comment in {'.'.join(path)}, which would be lost")
    return text[:start] + json.dumps(value, ensure_ascii=False) + text[end:]


def _inserted(text: str, clean: str, start: int, path: tuple[str, ...], value: Any) -> str:
    """`text` with a new member at the beginning of the object at `start`."""
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


def members(clean: str, start: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """The keys of the object at `start`, each with where its value begins and ends. `clean` is
    valid JSON without comments."""
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
    """Whether stripping has taken more out than trailing commas."""
    return any(was not in (now, ",") for was, now in zip(old, clean, strict=True))


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line on which each value of a JSON object begins, by its keys from the top; lines count
    from 1. Of a key that stands there twice it is the last. What is in lists has no keys. `text` is
    valid JSON with comments."""
    found: dict[tuple[str, ...], int] = {}
    line = 1
    inside: list[tuple[str, ...] | None] = []  # the path of each object around, None for a list
    path: tuple[str, ...] | None = ()
    key: str | None = None
    for token in re.finditer(
        r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]|[^\s{}\[\],:"]+', strip_comments(text)
    ):
        word = token[0]
        if word == "\n":
            line += 1
            continue
        if word in "}]":
            inside.pop()
            key = None
        elif word == ",":
            key = None
        elif word != ":":
            around = inside[-1] if inside else None
            if around is not None and key is None and word[0] == '"':
                key = json.loads(word)
                path = (*around, cast("str", key))
                continue
            path = () if not inside else None if around is None else path
            if path:
                found[path] = line
            if word in "{[":
                inside.append(path if word == "{" else None)
                key = None
    return found


def without_keys(text: str, names: Collection[str]) -> str:
    """`text`, a JSON object, without some of its members. Raises JsonEditError when it is none, or
    has comments, which would be lost."""
    clean = strip_comments(text)
    try:
        value = json.loads(clean.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise JsonEditError(f"is no valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise JsonEditError("holds something else than an object")
    if _has_comment(text, clean):
        raise JsonEditError("has comments, which would be lost")
    entries = cast("dict[str, Any]", value)
    kept = {name: entry for name, entry in entries.items() if name not in names}
    return json.dumps(kept, ensure_ascii=False, indent=2) + "\n"
