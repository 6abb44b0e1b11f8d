"""Setting one value in JSON with comments; every other byte stays as it was."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, cast

from alhena.config.jsonc import strip_comments

_TOKENS = r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]|[^\s{}\[\],:"]+'


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
    there; comments within its value go with it, and every other one stays. Raises JsonEditError
    when the text is no JSON object."""
    while True:
        clean = strip_comments(text)
        try:
            value = json.loads(clean.removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:
            raise JsonEditError(f"is no valid JSON: {error}") from error
        if not isinstance(value, dict):
            raise JsonEditError("holds something else than an object")
        start = len(clean) - len(clean.lstrip("\ufeff \t\r\n"))
        for key in path[:-1]:
            found = [span for name, span in members(clean, start) if name == key]
            if not found or clean[found[-1][0]] != "{":
                return text
            start = found[-1][0]
        names = [name for name, _ in members(clean, start)]
        if path[-1] not in names:
            return text
        text = _cut(text, clean, start, names.index(path[-1]))


def _cut(text: str, clean: str, start: int, index: int) -> str:
    """`text` without one member of the object at `start`, and without one comma beside it."""
    spans = [span for _, span in members(clean, start)]
    _, close = json.JSONDecoder().raw_decode(clean, start)
    # With something behind it the comma of the last member is none that trails, and is seen.
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
    for token in re.finditer(_TOKENS, strip_comments(text)):
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


def repeated_keys(text: str) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """The keys that stand more than once in one object, with the lines they stand on; the last one
    counts. `text` is valid JSON with comments."""
    lines: list[dict[tuple[str, ...], list[int]]] = []
    inside: list[tuple[str, ...] | None] = []  # the path of each object around, None for a list
    path: tuple[str, ...] = ()
    found: list[tuple[tuple[str, ...], tuple[int, ...]]] = []
    line, key = 1, False
    for token in re.finditer(_TOKENS, strip_comments(text)):
        word = token[0]
        if word == "\n":
            line += 1
        elif word in "{[":
            inside.append(path if word == "{" else None)
            lines.append({})
            key = False
        elif word in "}]":
            inside.pop()
            found += ((each, tuple(on)) for each, on in lines.pop().items() if len(on) > 1)
            key = False
        elif word == ",":
            key = False
        elif word[0] == '"' and not key and inside and inside[-1] is not None:
            path = (*inside[-1], cast("str", json.loads(word)))
            lines[-1].setdefault(path, []).append(line)
            key = True
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
