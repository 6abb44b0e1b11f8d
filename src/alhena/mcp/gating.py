"""What servers list -> what is taken of it. One odd entry costs only itself (MCP-03)."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import msgspec

from alhena.display_text import exact, one_line
from alhena.mcp.connection import ListedPrompt, ListedResource, ListedTool, PromptArgument
from alhena.wire.plain import as_object
from alhena.wire.schema.types import untyped_at

MAX_NAME = 300
MAX_DESCRIPTION = 10_000
"""Characters of a tool's description that a model is told."""

_EMPTY: dict[str, Any] = {"type": "object", "properties": {}}

T = TypeVar("T")


class Taken(msgspec.Struct, frozen=True):
    """The tools that can be used, and the others with the reasons."""

    tools: tuple[ListedTool, ...] = ()
    left_out: dict[str, str] = {}


def taken_tools(entries: Iterable[object], wanted: Callable[[str], bool]) -> Taken:
    """The tools of a list that are `wanted` by name."""
    tools: dict[str, ListedTool] = {}
    left_out: dict[str, str] = {}
    for place, entry in enumerate(entries, 1):
        fields = _object(entry)
        name = fields.get("name")
        if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME:
            left_out[f"entry {place}"] = "it has no name that can be used"
        elif not wanted(name):
            continue
        elif name in tools:
            left_out[name] = "the server lists it twice; the first one is used"
        else:
            made = _tool(name, fields)
            if isinstance(made, str):
                left_out[name] = made
            else:
                tools[name] = made
    return Taken(tuple(tools.values()), left_out)


def _tool(name: str, fields: dict[str, Any]) -> ListedTool | str:
    given: object = fields.get("inputSchema")
    schema = _EMPTY if given is None else as_object(given)
    if schema is None:
        return "its parameters are described by something that is no schema"
    place = untyped_at(schema)
    if place is not None:
        return f"its schema does not say the type of {_place(place)}"
    annotations = _object(fields.get("annotations"))
    description = _text(fields.get("description"))
    if len(description) > MAX_DESCRIPTION:
        description = description[:MAX_DESCRIPTION] + " […]"
    return ListedTool(
        name=name,
        title=_text(fields.get("title")) or _text(annotations.get("title")),
        description=description,
        schema=schema,
    )


def taken_prompts(entries: Iterable[object]) -> tuple[ListedPrompt, ...]:
    """The prompts of a list; those without a name are none."""

    def made(fields: dict[str, Any]) -> ListedPrompt | None:
        name = _text(fields.get("name"))
        if not name.strip() or len(name) > MAX_NAME:
            return None
        given: object = fields.get("arguments")
        items = cast("list[object]", given) if isinstance(given, list) else []
        arguments = (_object(each) for each in items)
        return ListedPrompt(
            name=name,
            title=_text(fields.get("title")),
            description=_text(fields.get("description")),
            arguments=tuple(
                PromptArgument(
                    name=_text(each.get("name")),
                    description=_text(each.get("description")),
                    required=each.get("required") is True,
                )
                for each in arguments
                if _text(each.get("name"))
            ),
        )

    return _unique(entries, made, lambda prompt: prompt.name)


def taken_resources(entries: Iterable[object]) -> tuple[ListedResource, ...]:
    """The resources of a list; those without a URI are none."""

    def made(fields: dict[str, Any]) -> ListedResource | None:
        uri = _text(fields.get("uri"))
        if not uri:
            return None
        return ListedResource(
            uri=uri,
            name=_text(fields.get("name")),
            title=_text(fields.get("title")),
            description=_text(fields.get("description")),
            mime_type=_text(fields.get("mimeType")),
        )

    return _unique(entries, made, lambda resource: resource.uri)


def shown_to_models(tool: ListedTool) -> str:
    """The description with nothing in it that people do not see: a server must not tell a model
    what it hides from them."""
    return exact(tool.description)


def _unique(
    entries: Iterable[object],
    made: Callable[[dict[str, Any]], T | None],
    name: Callable[[T], str],
) -> tuple[T, ...]:
    items = [item for entry in entries if (item := made(_object(entry))) is not None]
    return tuple({name(item): item for item in reversed(items)}.values())[::-1]


def _place(path: str) -> str:
    return "the parameters" if path == "$" else one_line(path.removeprefix("$."), 200)


def _object(value: object) -> dict[str, Any]:
    return as_object(value) or {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
