"""Tools that are not declared: `search_tools` finds them, `call_tool` calls them.

A call of `call_tool` becomes one of the tool that it names as soon as it has come
(`wire.content.meant_call`), so rules, hooks, people and records only know the tool itself.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import (
    ConfirmationDetails,
    ExecutionContext,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)
from alhena.values import Value
from alhena.wire.content import CALL_TOOL
from alhena.wire.json_values import as_object
from alhena.wire.request import FunctionDeclaration

SEARCH_TOOLS = "search_tools"
DEFAULT_LIMIT = 5
MAX_LIMIT = 20
MAX_LISTED = 30
"""Maximum number of names in an answer without a match, for each server."""
MAX_SHOWN_SCHEMA = 4_000
"""Maximum characters of a schema in the error of a call."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_NAME, _PARAMETER, _TEXT = 6.0, 2.0, 1.0


class SearchableTool(Value, frozen=True):
    """A tool that can be found: its `names`, declared one first, its declaration, and the name of
    its server, "" for the program's own."""

    names: tuple[str, ...]
    declaration: FunctionDeclaration
    server: str


def search(tools: Sequence[SearchableTool], query: str, limit: int) -> list[SearchableTool]:
    """The tools that fit a query best: one of exactly that name first, then by words in names,
    descriptions and parameters, rare words counting more; none that has no word of it."""
    exact = [each for each in tools if query.strip() in each.names]
    words = dict.fromkeys(_split(query))
    weights = [_weigh_words(each) for each in tools]
    scores: dict[int, float] = {}
    for word in words:
        found = {index: _match(word, each) for index, each in enumerate(weights)}
        found = {index: value for index, value in found.items() if value}
        rarity = math.log(1 + len(tools) / max(1, len(found)))
        for index, value in found.items():
            scores[index] = scores.get(index, 0.0) + value * rarity
    ranked = sorted(scores, key=lambda index: (-scores[index], tools[index].names[0]))
    best = exact + [tools[index] for index in ranked if tools[index] not in exact]
    return best[:limit]


def describe_groups(
    tools: Iterable[SearchableTool], servers: Mapping[str, str], waiting: Iterable[str] = ()
) -> str:
    """The text of the system prompt about tools that are found by search: a line for each server
    with its description in `servers` and the number of its tools; `waiting` may list further ones
    later. "" without any."""
    counts: dict[str, list[str]] = {}
    for each in tools:
        counts.setdefault(each.server, []).append(each.names[0])
    lines = [
        _describe_group(server, servers.get(server, ""), names)
        for server, names in sorted(counts.items())
    ]
    lines += (f"- {name}: may bring more" for name in sorted({*waiting} - counts.keys()))
    if not lines:
        return ""
    return (
        f"Further tools are not declared. Find them with `{SEARCH_TOOLS}`, which shows their "
        f"parameters, and call them with `{CALL_TOOL}`:\n" + "\n".join(lines)
    )


def _describe_group(server: str, description: str, names: Sequence[str]) -> str:
    about = " ".join(description.split())[:200] or f"such as {', '.join(sorted(names)[:3])}"
    number = "1 tool" if len(names) == 1 else f"{len(names):,} tools"
    return f"- {server or 'tools of this program'}: {about} ({number})"


def _split(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _weigh_words(tool: SearchableTool) -> dict[str, float]:
    """The words of a tool, each with the weight of the best of its places."""
    found: dict[str, float] = {}
    schema = tool.declaration.parameters_json_schema or tool.declaration.parameters or {}
    places = (
        (_TEXT, [tool.declaration.description, *_texts(schema)]),
        (_PARAMETER, list(_properties(schema))),
        (_NAME, [tool.names[0], tool.server]),
    )
    for weight, texts in places:
        for text in texts:
            found |= dict.fromkeys(_split(text), weight)
    return found


def _match(word: str, weights: Mapping[str, float]) -> float:
    """The weight of a word; half of it for one that only begins alike."""
    if word in weights:
        return weights[word]
    alike = (
        weight
        for other, weight in weights.items()
        if min(len(word), len(other)) >= 3 and (other.startswith(word) or word.startswith(other))
    )
    return max(alike, default=0.0) / 2


def _properties(schema: Mapping[str, Any]) -> Iterable[str]:
    return as_object(schema.get("properties")) or {}


def _texts(schema: Mapping[str, Any]) -> Iterable[str]:
    """The descriptions of the parameters."""
    for value in (as_object(schema.get("properties")) or {}).values():
        text = (as_object(value) or {}).get("description")
        if isinstance(text, str):
            yield text


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode("utf-8", "replace")


def show_tool(tool: SearchableTool) -> str:
    """A tool with its description and the schema of its parameters, for the model."""
    declaration = tool.declaration
    schema = declaration.parameters_json_schema or declaration.parameters or {}
    return f"## {declaration.name}\n{declaration.description.strip()}\nargs: {_encode(schema)}"


def explain_schema(message: str, schema: Mapping[str, Any]) -> str:
    """The error of a call with the schema that its arguments have to fit."""
    shown = _encode(schema)
    if len(shown) > MAX_SHOWN_SCHEMA:
        shown = shown[:MAX_SHOWN_SCHEMA] + "…"
    return f"{message}\nThe arguments have to fit this schema: {shown}"


class SearchTools(DeclarativeTool):
    """Finds tools among `tools`, which are asked for with each call, as are `servers` without any.
    With the tools of a server come its `instructions` that are not in the system prompt."""

    name = SEARCH_TOOLS

    def __init__(
        self,
        tools: Callable[[], Sequence[SearchableTool]],
        instructions: Mapping[str, str] = MappingProxyType({}),
        servers: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._tools = tools
        self._instructions = instructions
        self._servers = servers

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return _ToolSearchCall(params, self._tools, self._instructions, self._servers)


class _ToolSearchCall(BaseInvocation):
    def __init__(
        self,
        params: dict[str, Any],
        tools: Callable[[], Sequence[SearchableTool]],
        instructions: Mapping[str, str],
        servers: Callable[[], Iterable[str]],
    ) -> None:
        super().__init__(params)
        self._tools = tools
        self._instructions = instructions
        self._servers = servers

    def describe(self) -> str:
        """Describes the call to people in one line."""
        return f"Find tools: {' '.join(self.params['query'].split())[:200]}"

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails | None:
        """It only reads."""
        del context
        return None

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Answers with the tools that fit best, or with the names there are."""
        del context
        tools = self._tools()
        limit = min(int(self.params.get("limit") or DEFAULT_LIMIT), MAX_LIMIT)
        found = search(tools, self.params["query"], limit)
        if not found:
            text = _list_all(tools, self._servers(), self.params["query"])
            return ToolResult(llm_content=text, display="No tool found")
        shown = ", ".join(each.names[0] for each in found)
        servers = dict.fromkeys(each.server for each in found)
        told = [self._instructions[name] for name in servers if self._instructions.get(name)]
        text = "\n\n".join((*map(show_tool, found), *told))
        return ToolResult(llm_content=text, display=f"Found {shown}")


def _list_all(tools: Sequence[SearchableTool], servers: Iterable[str], query: str) -> str:
    """The answer where nothing is found: the names there are, and the `servers` without tools."""
    groups: dict[str, list[str]] = {name: [] for name in servers}
    for each in tools:
        groups.setdefault(each.server or "this program", []).append(each.names[0])
    if not groups:
        return f'No tool matches "{query}": there are none besides the declared ones.'
    lines: list[str] = []
    for server, names in sorted(groups.items()):
        more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
        listed = ", ".join(sorted(names)[:MAX_LISTED]) or "none so far"
        lines.append(f"- {server}: {listed}{more}")
    return f'No tool matches "{query}". There are the tools of:\n' + "\n".join(lines)


class CallTool(DeclarativeTool):
    """Declared for tools that are found by search. A well-formed call of it is one of the tool that
    it names by the time it gets here; this one answers all others."""

    name = CALL_TOOL

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Says how a call has to look."""
        return ToolFailure.of_params(
            f"This is no call of a tool: {params.get('name')!r} cannot be called with these "
            f'arguments. Send {{"name": "…", "args": {{…}}}}, as `{SEARCH_TOOLS}` shows them.'
        )

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Never reached: `check` refuses every call."""
        raise AssertionError(params)
