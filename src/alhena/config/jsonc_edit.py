"""Setting one value in JSON with comments; every other byte stays as it was."""

import json
from collections.abc import Iterator
from typing import Any

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
    """The keys of the object at `start`, each with where its value begins and ends."""
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
