"""The names of tools, their registry and their declarations for the model (TOOLS-06)."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.near_names import near_names
from alhena.tools.catalogue import CATALOGUE, SMALL_TOOLS
from alhena.tools.contract import Tool
from alhena.tools.params import BUILT_IN as BUILT_IN_FOLDER
from alhena.tools.params import task_by_name
from alhena.values import Value, fold_name, fold_names, meant_names
from alhena.wire.content import CALL_TOOL
from alhena.wire.errors import WireError
from alhena.wire.request import FunctionDeclaration
from alhena.wire.schema.keywords import is_plain

if TYPE_CHECKING:
    import asyncio

    from alhena.tools.tool_search import SearchableTool

ALIASES: dict[str, str] = {
    alias: name for name, tool in CATALOGUE.items() for alias in tool.aliases
}
"""Accepted name -> declared name."""

READ_RESOURCE = "read_mcp_resource"
"""The built-in tool that reads from MCP servers: rules for servers apply to it too."""

DELEGATE = "delegate_to_agent"
"""The built-in tool that delegates a task to a subagent."""

BUILT_IN = frozenset(CATALOGUE)
"""The declared names of all built-in tools, in every session or not."""

_FOLDED = {fold_name(name): ALIASES.get(name, name) for name in (*ALIASES, *BUILT_IN)}

UNDECLARED = {"smart_edit": "replace"}
"""Tools that are not declared beside another one, which does the same: calls of them are accepted,
and who names one in `tools.core` gets both."""

DISCOVERED_PREFIX = "discovered_tool_"
"""Prefix of the names of discovered tools, so that none can pass for a built-in tool."""

MAX_NAME_LENGTH = 63


def declared_name(name: str) -> str:
    """The declared name of the tool called `name`."""
    return ALIASES.get(name, name)


def resolve_name(name: str) -> str:
    """The declared name of the built-in tool that settings call `name`, in any case and with any
    separators; other names as they are."""
    return declared_name(name) if name in ALIASES else _FOLDED.get(fold_name(name), name)


def all_names(declared: str) -> tuple[str, ...]:
    """All names of the tool declared as `declared`: that name first, then its aliases."""
    return (declared, *(alias for alias, target in ALIASES.items() if target == declared))


def is_own_name(name: str) -> bool:
    """True for a name that a discovered tool may be called by beside its declared one: no built-in
    tool has it, and it cannot be taken for that of a server's tool."""
    of_server = "__" in name or name.startswith("mcp_")
    return name not in BUILT_IN and name not in ALIASES and not of_server


def known_names(name: str) -> tuple[str, ...]:
    """The names by which rules know the tool called `name`, as far as that tells: its aliases, and
    the two names of what may be a discovered tool."""
    names = (name, *all_names(resolve_name(name)))
    own = name.removeprefix(DISCOVERED_PREFIX)
    if is_own_name(own):
        names = (*names, f"{DISCOVERED_PREFIX}{own}", own)
    return tuple(dict.fromkeys(names))


def called_names(
    names: Sequence[str], server: str | None, args: Mapping[str, Any]
) -> tuple[str, ...]:
    """The names under which rules match a call of the tool with these `names`: those and, for a
    subagent's task, the subagent's name."""
    agent = args.get("agent_name")
    if server is None and DELEGATE in names and isinstance(agent, str) and agent not in BUILT_IN:
        return (*names, agent)
    return tuple(names)


def qualified_names(server: str, name: str) -> tuple[str, str]:
    """The two accepted names of tool `name` of MCP server `server`."""
    return f"{server}__{name}", f"mcp_{server}_{name}"


def is_declarable(name: str) -> bool:
    """True when `name` may be declared: `[A-Za-z_][A-Za-z0-9_.-]{0,62}`."""
    if not name or len(name) > MAX_NAME_LENGTH or not name.isascii():
        return False
    rest = name.replace("_", "a").replace(".", "a").replace("-", "a")
    return rest.isalnum() and (name[0].isalpha() or name[0] == "_")


SEARCH_PAIR = frozenset({"search_tools", CALL_TOOL})
"""The built-in tools that find and call those which are not declared."""

_LEFT_OUT = BUILT_IN - SMALL_TOOLS - SEARCH_PAIR
"""The built-in tools that a session with short declarations does not have."""
MAX_SUGGESTIONS = 3
MAX_SHOWN_NAME = 100


class ToolOrigin(IntEnum):
    """The source of a tool; tools are declared in this order."""

    BUILT_IN = 0
    DISCOVERED = 1
    MCP = 2


class RegisteredTool(Value, frozen=True, kw_only=True):
    """A tool with its origin; `server` names its MCP server. `schema` replaces the tool's own
    parameter schema in the declaration; None: unchanged. One that is not `declared` is found by
    `search_tools`."""

    tool: Tool
    origin: ToolOrigin
    server: str | None
    wire_name: str
    names: tuple[str, ...]
    schema: dict[str, Any] | None = None
    declared: bool = True


class ToolRegistry:
    """The tools of a session. `exclude` hides tools by any of their names;
    those that `declare` names are declared even beside others that do the same. With `short` the
    only built-in tools are those of `SMALL_TOOLS`, with short declarations. `left_out` maps
    names of tools that cannot be declared to the reasons."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        exclude: Collection[str] = (),
        declare: Collection[str] = (),
        short: bool = False,
    ) -> None:
        self.left_out: dict[str, str] = {}
        self._entries: dict[str, RegisteredTool] = {}
        self._excluded: set[str] = set()
        self._hidden: frozenset[str] = frozenset()
        self._named = frozenset(map(resolve_name, declare))
        self.search = ToolSearch(self, self._list_searchable, self._list_servers)
        self._short = read_short_declarations() if short else {}
        self.exclude(exclude)
        for tool in tools:
            self.register(tool)

    def register(
        self,
        tool: Tool,
        *,
        origin: ToolOrigin = ToolOrigin.BUILT_IN,
        server: str | None = None,
        accepted: Iterable[str] = (),
        declared: bool = True,
    ) -> str | None:
        """Adds a tool; `accepted` are further names for it; one that is not `declared` needs
        `search`. Returns a warning when it replaces a tool of the same name, or is left out
        because its parameters cannot be declared.

        Raises ValueError for a name that cannot be declared to a model.
        """
        if self._short and origin is ToolOrigin.BUILT_IN and tool.name in _LEFT_OUT:
            return None
        wire_name = tool.name if is_declarable(tool.name) else f"_{tool.name}"
        if not tool.name or not is_declarable(wire_name):
            raise ValueError(
                f"a tool cannot be named {tool.name[:MAX_SHOWN_NAME]!r}: use up to 63 letters, "
                "digits, '_', '.' and '-', beginning with a letter or '_'"
            )
        try:
            schema = adapt_schema(tool.parameter_schema)
        except WireError as error:
            self.left_out[tool.name] = error.message
            return f'Tool "{tool.name}" is left out: {error.message}'
        names = dict.fromkeys((*all_names(tool.name), wire_name))
        if server is not None:
            names |= dict.fromkeys(qualified_names(server, tool.name.removeprefix(f"{server}__")))
        names |= dict.fromkeys(accepted)
        replaced = self._entries.pop(tool.name, None)
        self._entries[tool.name] = RegisteredTool(
            tool=tool,
            origin=origin,
            server=server,
            wire_name=wire_name,
            names=tuple(names),
            schema=schema,
            declared=declared,
        )
        if replaced is None or replaced.tool is tool:
            return None
        return f'Tool "{tool.name}" was registered twice; the later one is used.'

    def is_free(self, name: str) -> bool:
        """True if a discovered tool may be called `name` too: no tool and no agent is."""
        delegate = self._entries.get(DELEGATE)
        schema = {} if delegate is None else delegate.tool.parameter_schema
        taken = name in self._entries or bool(self._meant(name))
        return is_own_name(name) and not taken and task_by_name(name, {}, schema) is None

    def unregister(self, name: str) -> bool:
        """Removes the named tool; False when there was none."""
        entry = self.find(name, excluded=True)
        return entry is not None and self._entries.pop(entry.tool.name, None) is not None

    def exclude(self, names: Iterable[str]) -> None:
        """Hides further tools; a name may be declared, accepted or qualified."""
        for name in names:
            self._excluded.update((name.lstrip("_"), resolve_name(name)))

    def hide(self, names: Iterable[str]) -> None:
        """Hides these tools temporarily, in place of those of an earlier call."""
        self._hidden = frozenset(name.lstrip("_") for name in names)

    def find(self, name: str, *, excluded: bool = False) -> RegisteredTool | None:
        """Finds the entry for an exact, accepted, declared or qualified name. None for an ambiguous
        name."""
        entry = self._entries.get(name) or self._entries.get(declared_name(name))
        if entry is None:
            meant = self._meant(name)
            entry = meant[0] if len(meant) == 1 else None
        if entry is None or (not excluded and self._is_excluded(entry)):
            return None
        return entry

    def find_call(
        self, name: str, args: dict[str, Any]
    ) -> tuple[RegisteredTool, dict[str, Any]] | None:
        """Finds the entry for a call, with the call's arguments. A call of a subagent by its own
        name becomes a call of delegate_to_agent."""
        entry = self.find(name)
        if entry is not None:
            return entry, args
        entry = self.find(DELEGATE)
        if entry is None or self._meant(name):
            return None
        task = task_by_name(name, args, entry.tool.parameter_schema)
        return None if task is None else (entry, task)

    def get(self, name: str) -> Tool | None:
        """The active tool called `name`."""
        entry = self.find(name)
        return None if entry is None else entry.tool

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the active tools in declaration order, also of those found by search."""
        return tuple(entry.wire_name for entry in self._list_offered())

    @property
    def all_tools(self) -> tuple[Tool, ...]:
        """All active tools by display name."""
        tools = (entry.tool for entry in self._sort_active())
        return tuple(sorted(tools, key=lambda tool: (tool.display_name.casefold(), tool.name)))

    def function_declarations(
        self, names: Collection[str] | None = None
    ) -> tuple[FunctionDeclaration, ...]:
        """The declarations of the active tools that are declared, or of the tools called
        `names`."""
        entries = [entry for entry in self._list_offered() if entry.declared]
        if names is not None:
            wanted = {id(entry) for entry in map(self.find, names) if entry is not None}
            entries = [entry for entry in self._sort_active() if id(entry) in wanted]
        return tuple(map(self._declare, entries))

    def suggestions(self, name: str) -> str:
        """The error message for a call to an unknown or ambiguous tool, with suggestions."""
        shown = name if len(name) <= MAX_SHOWN_NAME else name[:MAX_SHOWN_NAME] + "…"
        meant = self._meant(name)
        exact = sorted(each.wire_name for each in meant if not self._is_excluded(each))
        if len(meant) > 1 and exact:
            told = " or ".join(f'"{known}"' for known in exact)
            return (
                f'Tool "{shown}" is ambiguous: it could be said of more than one tool. Call the '
                f"one that is meant by its exact name: {told}."
            )
        nearest = near_names(shown, self.names, MAX_SUGGESTIONS, 0.0)
        listed = ", ".join(f'"{known}"' for known in nearest)
        if not nearest:
            return f'Tool "{shown}" not found. There are no tools.'
        how = "Did you mean one of: " if len(nearest) > 1 else "Did you mean "
        return f'Tool "{shown}" not found. {how}{listed}?'

    def _list_searchable(self) -> "list[SearchableTool]":
        from alhena.tools.tool_search import SearchableTool

        return [
            SearchableTool((entry.wire_name, *entry.names), _declaration(entry), entry.server or "")
            for entry in self._list_offered()
            if not entry.declared
        ]

    def _list_servers(self) -> set[str]:
        """The servers with tools, also with hidden ones."""
        return {entry.server for entry in self._entries.values() if entry.server is not None}

    def _declare(self, entry: RegisteredTool) -> FunctionDeclaration:
        short = self._short.get(entry.tool.name)
        if short is None or entry.origin is not ToolOrigin.BUILT_IN:
            return _declaration(entry)
        return msgspec.structs.replace(short, name=entry.wire_name)

    def _meant(self, name: str) -> list[RegisteredTool]:
        """The tools for which an otherwise unused name is accepted."""
        return [each for each in self._entries.values() if name in each.names]

    def _is_excluded(self, entry: RegisteredTool) -> bool:
        bare = {name.lstrip("_") for name in entry.names}
        return not bare.isdisjoint(self._excluded) or not bare.isdisjoint(self._hidden)

    def _list_offered(self) -> list[RegisteredTool]:
        """The active tools without those that others stand for."""
        active = self._sort_active()
        names = {entry.tool.name for entry in active}
        return [
            entry
            for entry in active
            if entry.tool.name in self._named or UNDECLARED.get(entry.tool.name) not in names
        ]

    def _sort_active(self) -> list[RegisteredTool]:
        """Active tools: built-in and discovered ones as registered, then MCP by server and name,
        whenever which of them came."""
        active = [entry for entry in self._entries.values() if not self._is_excluded(entry)]
        return sorted(active, key=_declared_order)


class ToolSearch:
    """The search for tools of a registry that are not declared. `note` is the text about them for
    the system prompt, "" while all are declared; `descriptions` are those of servers, and
    `instructions` those that came too late for the system prompt."""

    def __init__(
        self,
        registry: ToolRegistry,
        list_tools: "Callable[[], list[SearchableTool]]",
        list_servers: Callable[[], set[str]],
    ) -> None:
        self.note = ""
        self.descriptions: Mapping[str, str] = {}
        self.instructions: dict[str, str] = {}
        self._registry = registry
        self._list_tools = list_tools
        self._list_servers = list_servers

    def open(
        self, descriptions: Mapping[str, str] = MappingProxyType({}), waiting: Iterable[str] = ()
    ) -> None:
        """Declares the two tools that find and call those which are not declared, and fixes the
        note; does neither while there is nothing to find. `waiting` are servers without tools so
        far. A program's own tools of these names keep them: then the model can only call tools by
        their own names."""
        from alhena.tools.tool_search import CallTool, SearchTools, describe_groups

        self.descriptions = {**self.descriptions, **descriptions}
        self.note = self.note or describe_groups(self._list_tools(), self.descriptions, waiting)
        if not self.note:
            return
        search = SearchTools(self._list_tools, self.instructions, self._list_empty_servers)
        for tool in (search, CallTool()):
            if self._registry.find(tool.name, excluded=True) is None:
                self._registry.register(tool)

    def _list_empty_servers(self) -> list[str]:
        """The servers without tools."""
        return sorted(self.descriptions.keys() - self._list_servers())


def _declared_order(entry: RegisteredTool) -> tuple[int, str, str]:
    named = "" if entry.server is None else entry.wire_name
    return entry.origin, entry.server or "", named


def _declaration(entry: RegisteredTool) -> FunctionDeclaration:
    declaration = entry.tool.declaration()
    if entry.schema is None:
        return msgspec.structs.replace(declaration, name=entry.wire_name)
    return msgspec.structs.replace(
        declaration, name=entry.wire_name, parameters_json_schema=entry.schema, parameters=None
    )


def adapt_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """Adapts a schema for the declaration; None when it needs no change. Raises SchemaError."""
    if is_plain(schema):
        return None
    from alhena.wire.schema.adapt import local_schema

    told = local_schema(schema)
    return None if told == schema else told


class _ShortDeclaration(msgspec.Struct):
    description: str
    parameters: dict[str, Any]


def read_short_declarations() -> dict[str, FunctionDeclaration]:
    """The declarations of `SMALL_TOOLS` for models with a small window, by name."""
    data = (BUILT_IN_FOLDER / "small_declarations.json").read_bytes()
    found = msgspec.json.decode(data, type=dict[str, _ShortDeclaration])
    return {
        name: FunctionDeclaration(
            name=name, description=each.description, parameters_json_schema=each.parameters
        )
        for name, each in found.items()
    }


NEVER = frozenset(
    {"delegate_to_agent", "ask_user", "enter_plan_mode", "exit_plan_mode", "complete_task"}
)
"""Tools that steer the session or its person; whatever an agent lists, these are not its own."""


def select_tools(session: ToolRegistry, patterns: Sequence[str], *own: Tool) -> ToolRegistry:
    """A registry of the session's visible tools that `patterns` mean, and of the agent's `own`.

    A pattern is a tool's name, `*`, or for an MCP server `server__tool`, `server__*` or their
    `mcp_server_` forms, or another program's name of one. A bare name never means a tool of a
    server, whatever that calls its tools. A tool that a pattern names exactly is declared; others
    are found by search if the session's are.
    """
    patterns = [each for name in patterns for each in _names_meant(name)]
    registry = ToolRegistry()
    any_found = False
    for name in dict.fromkeys((*session.names, *UNDECLARED)):
        entry = session.find(name)
        if entry is None or entry.tool.name in NEVER:
            continue
        if entry.tool.name in SEARCH_PAIR and session.search.note:
            continue
        meaning = [pattern for pattern in patterns if _means(pattern, entry)]
        if meaning:
            declared = any("*" not in each for each in meaning)
            any_found = any_found or not (declared or entry.declared)
            copy_entry(registry, entry, declared=declared)
    for tool in own:
        registry.register(tool)
    if any_found:
        registry.search.open(session.search.descriptions)
    return registry


def _names_meant(pattern: str) -> tuple[str, ...]:
    """The pattern and what it means by the names of other programs; a shell command in brackets
    means the shell."""
    name, bracket, rest = pattern.partition("(")
    found = (name, *(meant_names(name) or ()))
    if not bracket:
        return found
    named = len(rest) > 1 and rest.endswith(")") and "run_shell_command" in map(resolve_name, found)
    return found if named else (pattern,)


def copy_entry(registry: ToolRegistry, entry: RegisteredTool, *, declared: bool = False) -> None:
    """Registers a tool of another registry; with `declared` it is declared in any case."""
    registry.register(
        entry.tool,
        origin=entry.origin,
        server=entry.server,
        accepted=entry.names,
        declared=declared or entry.declared,
    )


def _means(pattern: str, entry: RegisteredTool) -> bool:
    if pattern == "*":
        return True
    if entry.server is None:
        return pattern in entry.names or fold_name(pattern) in fold_names(entry.names)
    prefixes = (f"{entry.server}__", f"mcp_{entry.server}_")
    if not pattern.startswith(prefixes):
        return pattern == "mcp_*"
    return pattern in entry.names or pattern in {f"{prefix}*" for prefix in prefixes}


def unmatched_patterns(patterns: Iterable[str], names: Collection[str]) -> tuple[str, ...]:
    """The patterns of an agent's tools that mean no tool of these names."""
    known = fold_names(tuple(names))

    def is_known(pattern: str) -> bool:
        return any(
            each.endswith("*") or each in names or fold_name(each) in known
            for each in _names_meant(pattern)
        )

    return tuple(each for each in patterns if not is_known(each))


def missing_tools(session: ToolRegistry, patterns: Sequence[str]) -> tuple[str, ...]:
    """The patterns of an agent's tools that mean no tool of this session, nor a built-in one."""
    if "*" in patterns:
        return ()
    entries = (session.find(name) for name in session.names)
    names = {name for entry in entries if entry is not None for name in entry.names}
    return unmatched_patterns(patterns, {*names, *session.names, *BUILT_IN, *ALIASES})


ToolSource = Callable[[], Awaitable[None]]
"""Registers its tools; reports failures instead of raising them."""


class ToolSources:
    """Sources are asked once, all at the same time, before the first prompt; one that was cancelled
    is asked again. Watchers are called when tools were added or removed, with true if what is
    declared follows that."""

    def __init__(self) -> None:
        self._waiting: list[ToolSource] = []
        self.watchers: list[Callable[[bool], None]] = []
        self._closing: list[ToolSource] = []
        self._turn: asyncio.Lock | None = None

    def add(self, source: ToolSource) -> None:
        """A source that is to be asked."""
        self._waiting.append(source)

    @property
    def waiting(self) -> bool:
        """True when one has still to be asked."""
        return bool(self._waiting)

    async def gather(self) -> None:
        """Asks all that have not answered yet."""
        if not self._waiting:
            return
        import asyncio  # not at the top: listing the tools needs no event loop

        self._turn = self._turn or asyncio.Lock()
        async with self._turn:
            if not self._waiting:  # they have answered another caller meanwhile
                return
            async with asyncio.TaskGroup() as tasks:
                for source in self._waiting:
                    tasks.create_task(self._ask(source))
            self.notify_change()

    def watch(self, listener: Callable[[bool], None]) -> None:
        """Calls `listener` whenever tools have come or gone, with true if what is declared follows
        that."""
        self.watchers.append(listener)

    def when_closed(self, close: ToolSource) -> None:
        """Has `close` called when the session ends."""
        self._closing.append(close)

    async def close(self) -> None:
        """Ends what sources have left running. Can be called again."""
        while self._closing:
            await self._closing.pop()()

    def notify_change(self, *, declares: bool = True) -> None:
        """Tells those who watch."""
        for listener in tuple(self.watchers):
            listener(declares)

    async def _ask(self, source: ToolSource) -> None:
        await source()
        self._waiting.remove(source)
