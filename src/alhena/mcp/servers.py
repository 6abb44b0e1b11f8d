"""The servers of a session, and their tools in its registry."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from alhena.config.mcp_servers import (
    ConfiguredServers,
    McpServer,
    Named,
    describe_server,
    harmless_of,
)
from alhena.config.pinned_entries import printable_path
from alhena.display_text import escaped, exact, one_line
from alhena.mcp.connection import ListedPrompt, ListedResource, ListedTool, scope_remedy
from alhena.mcp.listing import (
    Key,
    Names,
    accepted_names,
    add_name_hash,
    ambiguous_names,
    valid_name,
)
from alhena.mcp.opening import Open
from alhena.mcp.pins import UNKNOWN_THEN, Pins, ServerSource, source_of, tools_hash
from alhena.mcp.resources import ListMcpResources, ReadMcpResource, offers_resources
from alhena.mcp.server import CLOSED, Server, ServerOffer, ServerPace, ServerState, late
from alhena.mcp.tool import McpTool, frame_instructions
from alhena.tools.registry import ALIASES, BUILT_IN, ToolOrigin, ToolRegistry
from alhena.wire.content import encode_value

FIRST_PROMPT_S = 10.0
"""Seconds the first prompt waits for servers without a configured timeout."""

LONGEST_WAIT_S = 30.0
"""Maximum seconds it waits for any server, whatever its timeout."""

MAX_TOLD = 640
"""Maximum characters of a warning."""

MAX_SHOWN = 200
"""Number of questions whose tools are remembered; an answer to an older one covers only its
call."""


MAX_NAMED = 3
"""Maximum number of tools named in one line, and of lines on one subject."""


class ServerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a server for people. `why` is the reason why it is not connected; `tools` are
    the declared names of its tools, beside its own names for them. `left_out` maps unusable tools
    to the reasons; `notes` are diagnostics."""

    name: str
    state: ServerState
    why: str = ""
    description: str = ""
    transport: str = ""
    tools: dict[str, str] = {}
    prompts: tuple[ListedPrompt, ...] = ()
    resources: tuple[ListedResource, ...] = ()
    templates: tuple[ListedResource, ...] = ()
    left_out: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    instructions: str = ""


class ServerOutlets(msgspec.Struct, frozen=True, kw_only=True):
    """`warn` receives warnings for the person; `changed` is called when tools or instructions
    change. `directory` is the default working directory of servers. `named` replaces secrets in the
    settings by names. With `finds_later` tools that come after the first prompt are found by
    search. `is_too_large` says of the sizes of declarations, in characters, whether
    these tools are found by search instead."""

    warn: Callable[[str], None]
    changed: Callable[[], None]
    directory: str = ""
    named: Named | None = None
    finds_later: bool = False
    is_too_large: Callable[[Sequence[int]], bool] = lambda _sizes: False


class Servers:
    """Connects all servers concurrently in the background; a failure is reported and affects no
    other server. Use it in one event loop."""

    def __init__(
        self,
        configured: ConfiguredServers,
        open_: Open,
        registry: ToolRegistry,
        pins: Pins,
        outlets: ServerOutlets,
        pace: ServerPace | None = None,
    ) -> None:
        self.pins = pins
        self.disabled: Mapping[str, str] = configured.disabled
        self.problems: Mapping[str, str] = configured.problems
        self._registry = registry
        self._outlets = outlets
        self._registered: dict[Key, McpTool] = {}
        self._declared: dict[Key, bool] = {}
        self._asked: dict[Key, ListedTool] = {}
        self._ambiguous: frozenset[str] = frozenset()
        self._shown: dict[str, tuple[ListedTool, ...]] = {}
        self._names = Names((*configured.servers, *configured.disabled), self._is_taken)
        self._warned: set[str] = set()
        self._closed = False
        self._started = False
        self.begun = False
        self._instructing: set[str] = set()
        self._open = open_
        self._pace = pace
        self.servers = {
            name: self._build_server(name, config) for name, config in configured.servers.items()
        }

    def start(self) -> None:
        """Starts connecting all servers; further calls do nothing, nor does one after `close`."""
        if self._started or self._closed:
            return
        self._started = True
        for problem in self.problems.values():
            self._warn(problem)
        for server in self.servers.values():
            server.start()

    async def wait_until_settled(self, longest: float | None = None) -> None:
        """Waits until each server has connected or failed, at most its `timeout` and `longest`
        seconds (default: ten without a `timeout`, 30 with one)."""
        waiting = [self._wait_for(server, longest) for server in self.servers.values()]
        await asyncio.gather(*waiting)

    def begin(self) -> None:
        """Fixes the tool names, and which tools are declared: a model is about to see them."""
        self._names.tell({key: tool.name for key, tool in self._registered.items()})
        self._choose_declared()
        if not self.begun:
            self.begun = True
            self._instructing = {
                name for name, each in self.servers.items() if each.offer.instructions
            }
            self._expect_changes()

    def _keeps_declared(self) -> bool:
        """True while the tools of servers come and go without a change of what is declared."""
        return self.begun and bool(self._registry.search.note)

    def _expect_changes(self) -> None:
        """Has later tools found by search, where some may come: declaring them would cost the
        whole prefix of the conversation."""
        later = [
            each.name
            for each in self.servers.values()
            if not each.settled.is_set() or each.offer.changes_tools
        ]
        if later and self._outlets.finds_later:
            self._registry.search.open(self._describe_servers(), later)

    def _choose_declared(self) -> None:
        """Decides on tools that have not been decided on. A decision never changes: what is
        declared is the beginning of every request."""
        tools = {key: tool for key, tool in self._registered.items() if not _is_always(tool)}
        new = tools.keys() - self._declared.keys()
        if not new:
            return
        declared = not self._registry.search.note and not self._outlets.is_too_large(
            [len(encode_value(tool.declaration())) for tool in tools.values()]
        )
        self._declared |= dict.fromkeys(new, declared)
        if declared:
            return
        for key in new:
            self._add_tool(key, tools[key])
        self._registry.search.open(self._describe_servers())

    def _describe_servers(self) -> dict[str, str]:
        return {each.name: exact(_describe(each)) for each in self.servers.values()}

    async def restart(self, name: str | None = None) -> None:
        """Reconnects one server, or all, and waits like the first prompt."""
        chosen = [each for each in self.servers.values() if name in (None, each.name)]
        await asyncio.gather(*(server.close() for server in chosen))
        if self._closed:
            return
        for server in chosen:
            server.settled.clear()
            server.start()
        await asyncio.gather(*map(self._wait_for, chosen))

    async def reconfigure(self, configured: ConfiguredServers) -> None:
        """Applies a new configuration: closes removed servers and drops their tools, connects new
        ones."""
        self.disabled, self.problems = configured.disabled, configured.problems
        old = dict(self.servers)
        self.servers.clear()  # cleared in place: the dict is shared
        for name, config in configured.servers.items():
            self.servers[name] = old.pop(name, None) or self._build_server(name, config)
        self._sync()
        await asyncio.gather(*(server.close() for server in old.values()))
        if self._closed or not self._started:
            return
        new = [server for server in self.servers.values() if not server.settled.is_set()]
        for server in new:
            server.start()
        await asyncio.gather(*map(self._wait_for, new))

    async def close(self) -> None:
        """Closes all connections and kills the children with their process trees."""
        self._closed = True
        await asyncio.gather(*(server.close() for server in self.servers.values()))

    def tool(self, name: str) -> McpTool | None:
        """The server tool that a name refers to."""
        entry = self._registry.find(name, excluded=True)
        return entry.tool if entry is not None and isinstance(entry.tool, McpTool) else None

    def remember_shown_tool(self, name: str, *, every: bool) -> str:
        """Remembers the tool in a confirmation that may approve it beyond this call, or (`every`)
        all tools of its server. Returns the key for `approved`: the server may change meanwhile. ""
        for a tool that is not from a server."""
        tool = self.tool(name)
        if tool is None:
            return ""
        key = (tool.server.name, tool.listed.name)
        asked = self._asked.get(key, tool.listed)
        others = tool.server.offer.tools if every else ()
        tools = (asked, *(each for each in others if each.name != asked.name))
        mark = tools_hash(tools)
        self._shown.pop(mark, None)
        self._shown[mark] = tools
        while len(self._shown) > MAX_SHOWN:
            del self._shown[next(iter(self._shown))]
        return mark

    def record_approval(self, server: str, shown: str, *, every: bool) -> bool:
        """Records an approval of a tool, or of the whole server, as shown in the confirmation.
        False when that is no longer known: nothing is approved."""
        known, tools = self.servers.get(server), self._shown.get(shown)
        if known is None or tools is None:
            return False
        self.pins.approve(self._pin_name(known), tools, self._source(known), every=every)
        return True

    def sure_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The declared name of a tool, then its names that fit no other tool: an ambiguous name
        cannot have allowed this tool."""
        return (names[0], *(name for name in names[1:] if name not in self._ambiguous))

    def objection(self, name: str, *, approved: bool = False) -> str:
        """The reason why approvals do not cover a tool; "" if they do. `approved`: a person
        approved what was shown."""
        tool = self.tool(name)
        if tool is None or tool.server.config.trust:
            return ""
        source = self._source(tool.server)
        pinned = self._pins_of(tool.server, tool.listed, source)
        return self.pins.objection(pinned, tool.listed, source, approved=approved)

    def reports(self) -> tuple[ServerReport, ...]:
        """All configured servers, unusable and disabled ones last."""
        state = ServerState.DISABLED
        return (
            *map(self._report, self.servers.values()),
            *(
                ServerReport(name=name, state=ServerState.DISCONNECTED, why=why)
                for name, why in self.problems.items()
            ),
            *(ServerReport(name=name, state=state, why=why) for name, why in self.disabled.items()),
        )

    def _report(self, server: Server) -> ServerReport:
        offer = server.offer
        return ServerReport(
            name=server.name,
            state=server.state,
            why=server.why,
            description=server.config.description,
            transport=server.config.transport,
            tools={
                tool.listed.name: tool.name
                for (owner, _), tool in self._registered.items()
                if owner == server.name
            },
            prompts=offer.prompts,
            resources=offer.resources,
            templates=offer.templates,
            left_out=offer.left_out,
            notes=(*offer.problems, *server.notes),
            instructions=offer.instructions,
        )

    def _source(self, server: Server) -> ServerSource:
        source = source_of(server.config, self._outlets.directory)
        return msgspec.structs.replace(source, words=server.harmless(source.words))

    def _changes(self, server: Server, tool: ListedTool) -> str:
        """The changes of a tool to show in a confirmation; the tool is remembered for the
        approval."""
        self._asked[(server.name, tool.name)] = tool
        source = self._source(server)
        return self.pins.changes(self._pins_of(server, tool, source), tool, source)

    def _describe_server(self, server: Server) -> tuple[str, ...]:
        return describe_server(server.name, server.config, self._outlets.named)

    def _pin_name(self, server: Server) -> str:
        """The name for a server's pins: servers of different workspaces may share a name."""
        if not server.config.of_workspace:
            return server.name
        return f"{server.name} in {printable_path(self._outlets.directory)}"

    def _pins_of(self, server: Server, tool: ListedTool, source: ServerSource) -> str:
        """The name of the pins to compare a tool with: those of its server or, without any, those
        approved under its plain name."""
        own = self._pin_name(server)
        unknown = self.pins.objection(own, tool, source, approved=True) == UNKNOWN_THEN
        return server.name if unknown else own

    def _build_server(self, name: str, config: McpServer) -> Server:
        pace = _pace(config, self._pace)
        server = Server(name, config, self._open, self._server_changed, pace)
        server.harmless = harmless_of(name, config, self._outlets.named)
        return server

    async def _wait_for(self, server: Server, longest: float | None = None) -> None:
        timeout = server.config.timeout
        seconds = FIRST_PROMPT_S if longest is None else longest
        longest = LONGEST_WAIT_S if longest is None else longest
        if timeout is not None:
            seconds = min(longest, timeout / 1000)
        try:
            async with asyncio.timeout(longest):
                await server.loaded.wait()
                async with asyncio.timeout(seconds):
                    await server.settled.wait()
        except TimeoutError:
            if not server.loaded.is_set():  # it has not been asked yet
                seconds = longest
            elif server.pace.connect <= seconds:  # its own timeout is reporting it now
                why = server.reason_so_far or late(server.pace.connect)
                self._warn(f"MCP server '{server.name}': {why.rstrip('.')}.")
                return
            state = f"not connected after {seconds:g} s" if seconds else "still connecting"
            self._warn(f"MCP server '{server.name}' is {state}; the prompt goes without its tools.")

    def _server_changed(self, server: Server) -> None:
        if self._closed or self.servers.get(server.name) is not server:
            return
        name = server.name
        match server.state:
            case ServerState.NEEDS_AUTH:
                self._warn(
                    f"MCP server '{name}' needs you to sign in: alhena mcp auth {name} (or /mcp "
                    f"auth {name})"
                )
            case ServerState.DISCONNECTED:
                if server.why and server.why != CLOSED:
                    self._warn(f"MCP server '{name}': {server.why.rstrip('.')}.")
            case ServerState.CONNECTED:
                if server.refusal:
                    remedy = scope_remedy(name, server.config)
                    self._warn(f"MCP server '{name}': {server.refusal}. {remedy}")
                self._tell_offer(server)
                self._keep_instructions(server)
                self._sync()
            case ServerState.CONNECTING | ServerState.DISABLED:
                return

    def _keep_instructions(self, server: Server) -> None:
        """Has instructions that came too late for the system prompt come with found tools."""
        if self._keeps_declared() and server.name not in self._instructing:
            text = frame_instructions([(server.name, server.offer.instructions)])
            self._registry.search.instructions[server.name] = text

    def _tell_offer(self, server: Server) -> None:
        for line in _offer_lines(server.offer):
            self._warn(f"MCP server '{server.name}': {line}")

    def _sync(self) -> None:
        """Synchronizes the registry with the servers' current tools."""
        listed: dict[Key, tuple[Server, ListedTool]] = {
            (server.name, tool.name): (server, tool)
            for server in self.servers.values()
            for tool in server.offer.tools
        }
        given = self._names.assign(tuple(listed))
        self._ambiguous = ambiguous_names(listed)
        for key, tool in tuple(self._registered.items()):
            if given.get(key) != tool.name or listed[key][1] != tool.listed:
                self._registry.unregister(tool.name)
                del self._registered[key]
        odd: dict[str, list[str]] = {}
        for key, name in given.items():
            if key not in self._registered:
                odd.setdefault(key[0], []).extend(self._register(key, name, *listed[key]))
        for server, lines in odd.items():
            for line in _some(lines, "of its tools that are left out or called otherwise"):
                self._warn(f"MCP server '{server}': {line}")
        self._offer_resources()
        if self.begun:
            self.begin()
        self._outlets.changed()

    def _offer_resources(self) -> None:
        """Registers the resource tools while there are resources."""
        tools = (ListMcpResources(self.servers), ReadMcpResource(self.servers))
        wanted = offers_resources(self.servers)
        for tool in tools:
            there = self._registry.find(tool.name, excluded=True) is not None
            if wanted and not there:
                self._registry.register(tool, declared=not self._keeps_declared())
            elif there and not wanted:
                self._registry.unregister(tool.name)

    def _register(self, key: Key, name: str, server: Server, listed: ListedTool) -> Iterator[str]:
        """Adds a tool to the registry; yields warnings for the person."""
        tool = McpTool(name, server, listed, self._changes, self._describe_server)
        warning = self._add_tool(key, tool)
        if warning is not None:
            yield warning
        if name in self._registry.left_out:
            return
        self._registered[key] = tool
        if _is_hashed(name, key):
            yield (
                f"the tool '{escaped(listed.name)}' is called {name}, for its other names belong "
                "to other tools."
            )

    def _add_tool(self, key: Key, tool: McpTool) -> str | None:
        """Registers a tool, declared or not; returns the registry's warning."""
        return self._registry.register(
            tool,
            origin=ToolOrigin.MCP,
            server=key[0],
            accepted=accepted_names(*key, alone=not _is_hashed(tool.name, key)),
            declared=self._declared.get(key, True),
        )

    def _is_taken(self, name: str) -> bool:
        if name in BUILT_IN or name in ALIASES:
            return True
        entry = self._registry.find(name, excluded=True)
        return entry is not None and not isinstance(entry.tool, McpTool)

    def _warn(self, text: str) -> None:
        text = one_line(text, MAX_TOLD)
        if text not in self._warned:
            self._warned.add(text)
            self._outlets.warn(text)


def _is_hashed(name: str, key: Key) -> bool:
    return name == add_name_hash(valid_name(f"{key[0]}__{key[1]}"), key)


def _is_always(tool: McpTool) -> bool:
    return tool.server.config.always_declares(tool.listed.name)


def _describe(server: Server) -> str:
    """Describes a server in its settings' words or the first line of its instructions."""
    first, _, _ = server.offer.instructions.strip().partition("\n")
    return server.config.description or first


def _pace(config: McpServer, pace: ServerPace | None) -> ServerPace:
    pace = pace or ServerPace()
    if config.timeout is None:
        return pace
    return msgspec.structs.replace(pace, connect=config.timeout / 1000)


def _offer_lines(offer: ServerOffer) -> Iterator[str]:
    """The problems of a server's lists, one line each."""
    if offer.is_empty and not offer.left_out and not offer.problems:
        yield "No prompts, tools, or resources found on the server."
    yield from _some(tuple(_left_out(offer.left_out)), "reasons to leave out tools")
    for problem in offer.problems:
        yield f"{problem}."


def _some(lines: Sequence[str], what: str) -> Iterator[str]:
    """The first of these lines, and the number of further `what`."""
    yield from lines[:MAX_NAMED]
    if len(lines) > MAX_NAMED:
        yield f"there are {len(lines) - MAX_NAMED:,} more {what}."


def _left_out(left_out: Mapping[str, str]) -> Iterator[str]:
    """One line for each reason."""
    tools: dict[str, list[str]] = {}
    for tool, reason in left_out.items():
        tools.setdefault(reason, []).append(f"'{escaped(tool[:100])}'")
    for reason, names in tools.items():
        more = len(names) - MAX_NAMED
        named = ", ".join(names[:MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        subject = "the tool" if len(names) == 1 else "the tools"
        verb = "is" if len(names) == 1 else "are"
        yield f"{subject} {named} {verb} left out: {reason}."
