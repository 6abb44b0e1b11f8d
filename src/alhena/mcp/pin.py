"""A tool as it was when a person approved it, and how one differs from that."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from alhena.display_text import one_line
from alhena.mcp.connection import ListedTool
from alhena.mcp.source import UNKNOWN, Source

MAX_KEPT = 20_000
"""Characters of a description or a schema that are kept to show the difference; the hash is of
all of it."""
MAX_DIFFERENCE = 2 * MAX_KEPT
"""Characters of a description or a schema that the difference is looked for in."""
MAX_WORDS = 1_000
MAX_PROPERTIES = 500
MAX_PROPERTY = 100
MAX_NAMED = 20
_SHORT = 16
"""Digits of the hash of a part: it says where a difference is, and not whether there is one."""


class Pin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as it was approved. `parts` has the hashes of title, description and schema,
    `properties` of those of the schema; `source` is what the server was. Of each text `kept`
    characters are here at most, 0 where none are."""

    hash: str
    source: Source = UNKNOWN
    parts: dict[str, str] = {}
    properties: dict[str, str] = {}
    title: str = ""
    description: str = ""
    schema: str = ""
    kept: int = MAX_KEPT

    def without_texts(self) -> "Pin":
        """The same as small as it gets: it tells another tool from this one, and not how."""
        return msgspec.structs.replace(
            self, kept=0, title="", description="", schema="", properties={}
        )


def pin_of(tool: ListedTool, source: Source, most: int = MAX_KEPT) -> Pin:
    """The pin of a tool of a server that is `source`, with so many characters of its texts."""
    parts = {"title": tool.title, "description": tool.description, "schema": tool.schema}
    return Pin(
        hash=tool_hash(tool),
        source=msgspec.structs.replace(source, words=source.words[:MAX_WORDS]),
        title=tool.title[:most],
        description=tool.description[:most],
        schema=_pretty(tool.schema)[:most],
        parts={name: _digest(part)[:_SHORT] for name, part in parts.items()},
        properties=_properties(tool.schema),
    )


def tool_hash(tool: ListedTool) -> str:
    """What tells this tool from any that is not as it is."""
    return _digest([tool.name, tool.title, tool.description, tool.schema])


def tools_hash(tools: Iterable[ListedTool]) -> str:
    """What tells these tools from any others."""
    return _digest([tool_hash(tool) for tool in tools])


def difference(pin: Pin, tool: ListedTool, source: Source) -> str:
    """A unified diff from the tool as it was approved to the tool as it is, with what differs
    behind the part that was kept; "" for none."""
    if pin.hash == tool_hash(tool) and pin.source.hash == source.hash:
        return ""
    from difflib import unified_diff

    # The same server may be in other words than those that were kept.
    same = pin.source.hash == source.hash
    now = pin_of(tool, pin.source if same else source, MAX_DIFFERENCE)
    before, after = _lines(pin, pin), _lines(now, pin)
    told = [*unified_diff(before, after, "approved", "now", lineterm="", n=2)]
    told += _unseen(pin, tool, now)
    if not same and pin.source.words == now.source.words:
        told.append("! the server has other variables, headers, files or another directory")
    return "\n".join(told)


def _lines(pin: Pin, old: Pin) -> list[str]:
    """What a pin says, no more of it than was kept of what was approved."""
    told = [f"server: {pin.source.words}"] if pin.source.words or old.source.words else []
    if old.kept:
        told.append(f"title: {pin.title}")
        pairs = ((pin.description, old.description), (pin.schema, old.schema))
        told += (text[: old.kept] if len(was) >= old.kept else text for text, was in pairs)
    return [line for each in told for line in each.split("\n")]


def _unseen(pin: Pin, tool: ListedTool, now: Pin) -> Iterator[str]:
    """Lines on what the diff cannot show: it lies behind what was kept, or what is looked at.
    Numbers are of characters."""
    lengths = {
        "title": len(tool.title),
        "description": len(tool.description),
        "schema": len(_pretty(tool.schema)),
    }
    were = {"title": pin.title, "description": pin.description, "schema": pin.schema}
    for part, length in lengths.items():
        if pin.parts.get(part) == now.parts[part]:
            continue
        if not pin.kept:
            yield f"! its {part} is another, and what it was is not kept; now it has {length:,}"
            continue
        cut = len(were[part]) >= pin.kept
        if not cut and length <= MAX_DIFFERENCE:
            continue
        seen = pin.kept if cut else MAX_DIFFERENCE
        yield (
            f"! its {part} is another, and may differ behind the first {seen:,} characters, which "
            f"are all that is compared here; now it has {length:,}"
        )
        if part == "schema":
            yield from _other_properties(pin.properties, now.properties)


def _other_properties(before: dict[str, str], now: dict[str, str]) -> Iterator[str]:
    found = {
        "are new": [name for name in now if name not in before],
        "are gone": [name for name in before if name not in now],
        "are not as they were": [name for name in now if before.get(name, now[name]) != now[name]],
    }
    for what, names in found.items():
        if names:
            more = len(names) - MAX_NAMED
            named = ", ".join(one_line(name, 60) for name in names[:MAX_NAMED])
            yield f"! properties that {what}: {named}" + (f" and {more} more" if more > 0 else "")


def _properties(schema: dict[str, Any]) -> dict[str, str]:
    """The hashes of the properties of a schema, of so many of them."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    named = sorted(cast("dict[str, Any]", properties).items())
    return {name[:MAX_PROPERTY]: _digest(each)[:_SHORT] for name, each in named[:MAX_PROPERTIES]}


def _digest(value: Any) -> str:
    from hashlib import sha256

    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _pretty(schema: dict[str, Any]) -> str:
    encoded = msgspec.json.encode(schema, order="deterministic")
    return msgspec.json.format(encoded, indent=2).decode("utf-8")
