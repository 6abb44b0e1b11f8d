"""Where the keys of JSON with comments stand: on which lines, and which of them more than once."""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from alhena.config.jsonc import strip_comments

_TOKENS = r'"(?:[^"\\]|\\.)*"|[{}\[\],:\n]|[^\s{}\[\],:"]+'


class _Member(NamedTuple):
    """A key and its value: in which object, counted as they begin, and on which lines."""

    around: int
    path: tuple[str, ...]
    key_line: int
    value_line: int
    listed: bool


class _Around:
    """An object or a list that has begun and not ended. `entries` are those of a list so far;
    `listed`: it is one, or is in one."""

    def __init__(self, number: int, path: tuple[str, ...], *, is_list: bool, listed: bool) -> None:
        self.number = number
        self.path = path
        self.is_list = is_list
        self.listed = listed
        self.entries = 0

    def next_entry(self) -> tuple[str, ...]:
        """The path of the entry of a list that begins, like `hooks[1]`."""
        self.entries += 1
        *above, last = self.path or ("",)
        return (*above, f"{last}[{self.entries - 1}]")


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line on which each value of a JSON object begins, by its keys from the top; lines count
    from 1. Of a key that stands there twice it is the last. What is in lists has no keys. `text` is
    valid JSON with comments."""
    return {each.path: each.value_line for each in _members(text) if not each.listed}


def repeated_keys(text: str) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """The keys that stand more than once in one object, with the lines they stand on; the last one
    counts. `text` is valid JSON with comments."""
    lines: dict[tuple[int, tuple[str, ...]], list[int]] = {}
    for each in _members(text):
        lines.setdefault((each.around, each.path), []).append(each.key_line)
    return [(path, tuple(found)) for (_, path), found in lines.items() if len(found) > 1]


def _members(text: str) -> Iterator[_Member]:
    """The members of all objects, in the order in which their values begin."""
    line = key_line = begun = 1
    inside: list[_Around] = []
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
        elif around is not None and not around.is_list and key is None:
            key, key_line = str(json.loads(word)), line
        else:
            path: tuple[str, ...] = ()
            if key is not None and around is not None:
                path = (*around.path, key)
                yield _Member(around.number, path, key_line, line, around.listed)
                key = None
            elif around is not None:
                path = around.next_entry()
            if word in "{[":
                is_list = word == "["
                listed = is_list or (around is not None and around.listed)
                inside.append(_Around(begun, path, is_list=is_list, listed=listed))
                begun += 1
