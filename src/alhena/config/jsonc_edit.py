"""Setting and removing values in JSON with comments; every other byte stays as it was."""

import json
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
    clean, start, _ = _opened(text)
    return _set(text, clean, start, path, value)


def without_value(text: str, path: tuple[str, ...]) -> str:
    """`text`, a JSON object with comments, without the member at `path`, however often it stands
    there; comments within its value go with it, and every other one stays. Raises JsonEditError
    when the text is no JSON object."""
    while True:
        clean, start, value = _opened(text)
        _object(value)
        for key in path[:-1]:
            found = [span for name, span in _members(clean, start) if name == key]
            if not found or clean[found[-1][0]] != "{":
                return text
            start = found[-1][0]
        names = [name for name, _ in _members(clean, start)]
        if path[-1] not in names:
            return text
        text = _cut(text, clean, start, names.index(path[-1]))


def without_keys(text: str, names: Collection[str]) -> str:
    """`text`, a JSON object, without some of its members. Raises JsonEditError when it is none, or
    has comments, which would be lost."""
    clean, _, value = _opened(text)
    entries = _object(value)
    if _has_comment(text, clean):
        raise JsonEditError("has comments, which would be lost")
    kept = {name: entry for name, entry in entries.items() if name not in names}
    return json.dumps(kept, ensure_ascii=False, indent=2) + "\n"


def _opened(text: str) -> tuple[str, int, Any]:
    """The text with its comments as spaces, where its value begins, and the value. Raises
    JsonEditError."""
    clean = strip_comments(text)
    try:
        value = json.loads(clean.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise JsonEditError(f"is no valid JSON: {error}") from error
    return clean, len(clean) - len(clean.lstrip("\ufeff \t\r\n")), value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise JsonEditError("holds something else than an object")
    return cast("dict[str, Any]", value)


def _cut(text: str, clean: str, start: int, index: int) -> str:
    """`text` without one member of the object at `start`, and without one comma beside it."""
    spans = [span for _, span in _members(clean, start)]
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
        found = [span for name, span in _members(clean, start) if name == key]
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


def _members(clean: str, start: int) -> Iterator[tuple[str, tuple[int, int]]]:
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
