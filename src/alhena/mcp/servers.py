"""The servers of a session, and their tools in its registry."""

import asyncio
from collections.abc import Callable, Iterator, Mapping

import msgspec

from alhena.config.mcp_servers import ConfiguredServers, McpServer
from alhena.config.pinned_entries import printable_path
from alhena.display_text import escaped, one_line
from alhena.mcp.connection import ListedPrompt, ListedResource, ListedTool
from alhena.mcp.listing import (
    Key,
    Names,
    accepted_names,
    ambiguous_names,
    hashed_name,
    valid_name,
)
from alhena.mcp.opening import Open
from alhena.mcp.pins import UNKNOWN_THEN, Pins, tools_hash
from alhena.mcp.resources import ListMcpResources, ReadMcpResource
from alhena.mcp.scopes import scope_remedy
from alhena.mcp.server import CLOSED, Pace, Server, ServerState, late
from alhena.mcp.shown import Named, Source, harmless_of, offer_lines, shown_server, some, source_of
from alhena.mcp.tool import McpTool
from alhena.tools.names import ALIASES, BUILT_IN
from alhena.tools.registry import Origin, ToolRegistry

FIRST_PROMPT_S = 10.0
"""Seconds that the first prompt waits for servers whose settings give no timeout."""

LONGEST_WAIT_S = 30.0
"""Seconds that it waits for any, whatever timeout that has."""

MAX_TOLD = 640
"""Characters of one warning."""

MAX_SHOWN = 200
"""Questions whose tools are remembered; an answer to an older one holds for its call alone."""


class ServerReport(msgspec.Struct, frozen=True, kw_only=True):
    """A server as people are told of it. `why` says why it is not connected; `tools` are the names
    that its tools are declared under, beside its own names for them. `left_out` are tools that
    cannot be used, with the reasons; `notes` may help to find out what is wrong."""

    name: str
    state: ServerState
    why: str = ""
    description: str = ""
    transport: str = ""
    tools: dict[str, str] = {}
    prompts: tuple[ListedPrompt, ...] = ()
    resources: tuple[ListedResource, ...] = ()
    left_out: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    instructions: str = ""


class Outlets(msgspec.Struct, frozen=True, kw_only=True):
    """`warn` takes what a person should know; `changed` is called when tools have come or gone, or
    what servers want models to know is another. `directory` is where servers are started. `named`
    puts names in the place of secrets in what stands at a path of the settings."""

    warn: Callable[[str], None]
    changed: Callable[[], None]
    directory: str = ""
    named: Named | None = None


class Servers:
    """Connects in the background, all at the same time; one that fails is told of and takes nothing
    from the others. To be used in one event loop."""

    def __init__(
        self,
        configured: ConfiguredServers,
        open_: Open,
        registry: ToolRegistry,
        pins: Pins,
        outlets: Outlets,
        pace: Pace | None = None,
    ) -> None:
        self.pins = pins
        self.disabled: Mapping[str, str] = configured.disabled
        self.problems: Mapping[str, str] = configured.problems
        self._registry = registry
        self._outlets = outlets
        self._registered: dict[Key, McpTool] = {}
        self._asked: dict[Key, ListedTool] = {}
        self._ambiguous: frozenset[str] = frozenset()
        self._shown: dict[str, tuple[ListedTool, ...]] = {}
        self._names = Names((*configured.servers, *configured.disabled), self._is_taken)
        self._warned: set[str] = set()
        self._closed = False
        self._started = False
        self._begun = False
        self._open = open_
        self._pace = pace
        self.servers = {
            name: self._made(name, config) for name, config in configured.servers.items()
        }

    def start(self) -> None:
        """Begins to connect to all of them; once, whoever calls it."""
        if self._started:
            return
        self._started = True
        for problem in self.problems.values():
            self._warn(problem)
        for server in self.servers.values():
            server.start()

    async def settled(self) -> None:
        """Waits until each has connected or failed, so long as that takes no longer than its
        `timeout`, or ten seconds, and never longer than thirty."""
        waiting = [self._settled(server) for server in self.servers.values()]
        await asyncio.gather(*waiting)

    def begin(self) -> None:
        """A model is about to be told of the tools: from now on no name goes to another tool."""
        self._begun = True
        self._names.tell({key: tool.name for key, tool in self._registered.items()})

    async def restart(self, name: str | None = None) -> None:
        """Connects anew to one of them, or to all, and waits as the first prompt does."""
        chosen = [each for each in self.servers.values() if name in (None, each.name)]
        await asyncio.gather(*(server.close() for server in chosen))
        for server in chosen:
            server.settled.clear()
            server.start()
        await asyncio.gather(*map(self._settled, chosen))

    async def reconfigure(self, configured: ConfiguredServers) -> None:
        """From now on there are these: what is no more is closed and its tools are gone, what is
        new is connected to."""
        self.disabled, self.problems = configured.disabled, configured.problems
        old = dict(self.servers)
        self.servers.clear()  # others hold it
        for name, config in configured.servers.items():
            self.servers[name] = old.pop(name, None) or self._made(name, config)
        self._sync()
        await asyncio.gather(*(server.close() for server in old.values()))
        new = [server for server in self.servers.values() if not server.settled.is_set()]
        for server in new if self._started else ():
            server.start()
        await asyncio.gather(*map(self._settled, new if self._started else ()))

    async def close(self) -> None:
        """Ends all connections, and the children with all that came from them."""
        self._closed = True
        await asyncio.gather(*(server.close() for server in self.servers.values()))

    def tool(self, name: str) -> McpTool | None:
        """The tool of a server that a name means."""
        entry = self._registry.find(name, excluded=True)
        return entry.tool if entry is not None and isinstance(entry.tool, McpTool) else None

    def shown(self, name: str, *, every: bool) -> str:
        """A question is put about the tool that a name means, which an answer may approve for
        more than one call, or (`every`) with all of its server. Gives what `approved` is to be
        told then: a server may say something else in the meantime. "" for a tool of no server."""
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

    def approved(self, server: str, shown: str, *, every: bool) -> bool:
        """A person has approved a tool of a server for more than one call, or all of it, as it was
        in the question. False when nobody knows any more what that was: nothing is approved."""
        known, tools = self.servers.get(server), self._shown.get(shown)
        if known is None or tools is None:
            return False
        self.pins.approve(self._pinned_as(known), tools, self._source(known), every=every)
        return True

    def sure_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Of the names of a tool, the one it is declared under first, those that could be said of
        no other tool: with the others nobody can have allowed this one."""
        return (names[0], *(name for name in names[1:] if name not in self._ambiguous))

    def objection(self, name: str, *, approved: bool = False) -> str:
        """The reason why approvals do not hold for the tool that a name means; "" for no reason.
        `approved`: by an answer of a person, who saw what it was."""
        tool = self.tool(name)
        if tool is None or tool.server.config.trust:
            return ""
        source = self._source(tool.server)
        pinned = self._pins_of(tool.server, tool.listed, source)
        return self.pins.objection(pinned, tool.listed, source, approved=approved)

    def reports(self) -> tuple[ServerReport, ...]:
        """All servers of the settings, those that cannot be used or are not wanted at the end."""
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
            left_out=offer.left_out,
            notes=(*offer.problems, *server.notes),
            instructions=offer.instructions,
        )

    def _source(self, server: Server) -> Source:
        source = source_of(server.config, self._outlets.directory)
        return msgspec.structs.replace(source, words=server.harmless(source.words))

    def _changes(self, server: Server, tool: ListedTool) -> str:
        """What a question says is new of a tool, as which it will be approved."""
        self._asked[(server.name, tool.name)] = tool
        source = self._source(server)
        return self.pins.changes(self._pins_of(server, tool, source), tool, source)

    def _shown_as(self, server: Server) -> tuple[str, ...]:
        return shown_server(server.name, server.config, self._outlets.named)

    def _pinned_as(self, server: Server) -> str:
        """Under which name its pins are: many workspaces may call theirs the same."""
        if not server.config.of_workspace:
            return server.name
        return f"{server.name} in {printable_path(self._outlets.directory)}"

    def _pins_of(self, server: Server, tool: ListedTool, source: Source) -> str:
        """The name of the pins that a tool is held against: those of its server, or where it has
        none, those of whichever server was approved under its name."""
        own = self._pinned_as(server)
        unknown = self.pins.objection(own, tool, source, approved=True) == UNKNOWN_THEN
        return server.name if unknown else own

    def _made(self, name: str, config: McpServer) -> Server:
        pace = _pace(config, self._pace)
        server = Server(name, config, self._open, self._server_changed, pace)
        server.harmless = harmless_of(name, config, self._outlets.named)
        return server

    async def _settled(self, server: Server) -> None:
        timeout = server.config.timeout
        seconds = FIRST_PROMPT_S if timeout is None else min(timeout / 1000, LONGEST_WAIT_S)
        try:
            async with asyncio.timeout(LONGEST_WAIT_S):
                await server.loaded.wait()
            async with asyncio.timeout(seconds):
                await server.settled.wait()
        except TimeoutError:
            if server.pace.connect <= seconds:  # it is given up just now, and that will be told
                self._warn(f"MCP server '{server.name}': {late(server.pace.connect)}.")
                return
            self._warn(
                f"MCP server '{server.name}' is not connected after {seconds:g} s; the prompt goes "
                "without its tools."
            )

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
                self._sync()
            case ServerState.CONNECTING | ServerState.DISABLED:
                return

    def _tell_offer(self, server: Server) -> None:
        for line in offer_lines(server.offer):
            self._warn(f"MCP server '{server.name}': {line}")

    def _sync(self) -> None:
        """Makes the registry hold what the servers have now."""
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
            for line in some(lines, "of its tools that are left out or called otherwise"):
                self._warn(f"MCP server '{server}': {line}")
        self._offer_resources()
        if self._begun:
            self.begin()
        self._outlets.changed()

    def _offer_resources(self) -> None:
        """The tools that read resources are there while there are any."""
        tools = (ListMcpResources(self.servers), ReadMcpResource(self.servers))
        wanted = any(server.offer.resources for server in self.servers.values())
        for tool in tools:
            there = self._registry.find(tool.name, excluded=True) is not None
            if wanted and not there:
                self._registry.register(tool)
            elif there and not wanted:
                self._registry.unregister(tool.name)

    def _register(self, key: Key, name: str, server: Server, listed: ListedTool) -> Iterator[str]:
        """Puts a tool into the registry; gives what a person should know of that."""
        tool = McpTool(name, server, listed, self._changes, self._shown_as)
        hashed = name == hashed_name(valid_name(f"{key[0]}__{key[1]}"), key)
        accepted = accepted_names(server.name, listed.name, alone=not hashed)
        warning = self._registry.register(
            tool, origin=Origin.MCP, server=server.name, accepted=accepted
        )
        if warning is not None:
            yield warning
        if name in self._registry.left_out:
            return
        self._registered[key] = tool
        if hashed:
            yield (
                f"the tool '{escaped(listed.name)}' is called {name}, for its other names belong "
                "to other tools."
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


def _pace(config: McpServer, pace: Pace | None) -> Pace:
    pace = pace or Pace()
    if config.timeout is None:
        return pace
    return msgspec.structs.replace(pace, connect=config.timeout / 1000)
