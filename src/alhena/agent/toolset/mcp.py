"""The MCP servers of a session: connected in the background, their tools and credentials, what a
person does with them."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from alhena.agent.subagents import AgentDefinition
from alhena.agent.toolset.mcp_review import is_answer
from alhena.agent.toolset.options import SessionSpec
from alhena.config.environment import own_environment
from alhena.config.home import config_home
from alhena.config.mcp_servers import (
    OF_GOOGLE,
    ConfiguredServers,
    Enablement,
    McpServer,
    configured_servers,
    enablement,
    enablement_path,
    server_key,
    with_server,
)
from alhena.config.settings import Settings
from alhena.errors import InputError, InterruptedRunError
from alhena.mcp.listing import claimed_names
from alhena.mcp.oauth.tokens import token_file
from alhena.mcp.opening import Auth, ServerEnvironment, opener
from alhena.mcp.pins import Pins
from alhena.mcp.server import ServerState
from alhena.mcp.servers import ServerOutlets, ServerReport, Servers
from alhena.mcp.tool import McpTool, frame_instructions
from alhena.policy.model import (
    PolicyRule,
)
from alhena.policy.settings_rules import unknown_server_tools
from alhena.system.private_files import PrivateFiles, change_file
from alhena.system.processes import ProcessGroups
from alhena.tools.registry import (
    READ_RESOURCE,
    SEARCH_PAIR,
    ToolRegistry,
    ToolSources,
    copy_entry,
    select_tools,
)

if TYPE_CHECKING:
    import httpx2

    from alhena.config.mcp_servers import McpOAuth
    from alhena.mcp.oauth.renewal import Renewal
    from alhena.models.auth.login import Person
    from alhena.tools.builtin.ask_user import Ask


def stored_access(environ: Mapping[str, str], warn: Callable[[str], None]) -> Auth:
    """Authentication with stored tokens; never opens a browser. `warn` gets messages about tokens
    that cannot be read or saved."""
    tokens = token_file(environ)
    renewals: dict[tuple[str, str, McpOAuth | None], Renewal] = {}

    def access(name: str, server: McpServer) -> "httpx2.Auth | None":
        address = server.address
        if address is None:
            return None
        if server.auth_provider_type in OF_GOOGLE:
            from alhena.agent.toolset.mcp_sign_in import google_access

            return google_access(name, server, environ)
        told = any(key.lower() == "authorization" for key in server.headers)
        if told and not (server.oauth is not None and server.oauth.enabled):
            return None  # the settings say who asks
        from alhena.mcp.oauth.renewal import Renewal, StoredAccess

        # A refused renewal is not tried again with the next connection.
        made = Renewal(name, server, tokens, warn)
        return StoredAccess(renewals.setdefault((name, address, server.oauth), made), address)

    return access


def surroundings(
    environ: Mapping[str, str],
    settings: Settings,
    roots: Sequence[Path],
    groups: ProcessGroups,
    warn: Callable[[str], None],
    *,
    trusted: bool,
) -> ServerEnvironment:
    """The surroundings of servers in a workspace, whose first root is its directory. In one that is
    not trusted none is started that the workspace could have put there: their directory is the
    user's own. Servers are shown who asks by what a sign-in has left; `warn` hears of that.
    They inherit nothing of a project's .env file."""
    cwd = str(roots[0]) if trusted else os.path.dirname(config_home(environ))
    own = own_environment(environ)
    return ServerEnvironment(
        environ=own,
        redaction=settings.security.environment_variable_redaction,
        cwd=cwd,
        roots=tuple(map(str, roots)),
        groups=groups,
        auth=stored_access(own, warn),
    )


def turn(environ: Mapping[str, str], name: str, *, enabled: bool) -> None:
    """Writes down whether a server is to be started. Raises ConfigError."""
    path = enablement_path(environ)
    change_file(
        path,
        lambda data: with_server(path, data, name, enabled=enabled),
        f"the MCP server {name!r} is as it was",
    )


Configured = Callable[[Enablement], ConfiguredServers]
"""The servers of the settings when these are turned off."""


class ServerControl:
    """The servers of a session: turns them on and off, reconnects, signs the person in. `held`
    are those that are held back, each with why. `changed` is called after what a person did."""

    def __init__(
        self,
        servers: Servers,
        configured: Configured,
        environ: Mapping[str, str],
        held: Mapping[str, str] | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._servers = servers
        self._changed = changed
        self._held = held or {}
        self._configured = configured
        self._environ = environ
        self._turned: dict[str, bool] = {}
        self._doing: set[asyncio.Task[None]] = set()
        self._startup: asyncio.Task[None] | None = None

    @property
    def servers(self) -> Servers:
        """The servers."""
        return self._servers

    @property
    def reports(self) -> tuple[ServerReport, ...]:
        """State of each server."""
        return self._servers.reports()

    def tool(self, name: str) -> McpTool | None:
        """The tool of a server that is declared under a name."""
        return self._servers.tool(name)

    async def refresh(self) -> None:
        """Reconnects to all and lists their tools."""
        await self._patiently(self._servers.restart())

    async def wait_for_servers(self) -> None:
        """Waits for connections under way, as long as the first prompt does."""
        await self._patiently(self._servers.wait_until_settled())

    @property
    def connecting(self) -> tuple[str, ...]:
        """The servers that have neither connected nor failed yet."""
        servers = self._servers.servers
        return tuple(name for name, each in servers.items() if not each.settled.is_set())

    async def each_settled(self) -> AsyncGenerator[None]:
        """Yields each time that one of the servers has connected or failed, until all have."""
        waiting = [
            asyncio.ensure_future(each.settled.wait()) for each in self._servers.servers.values()
        ]
        try:
            for settled in asyncio.as_completed(waiting):
                await settled
                yield
        finally:
            for each in waiting:
                each.cancel()

    async def wait_at_startup(self, longest: float) -> None:
        """Waits for connections before the first prompt, `longest` seconds at most, or until
        `stop_startup_wait`."""
        self._startup = asyncio.ensure_future(self._servers.wait_until_settled(longest))
        try:
            await asyncio.wait({self._startup})
        finally:
            self._startup.cancel()
        if not self._startup.cancelled():
            self._startup.result()

    def stop_startup_wait(self) -> bool:
        """Lets the first prompt go without the servers that are connecting; False when it does not
        wait."""
        return self._startup is not None and self._startup.cancel()

    def give_up(self) -> bool:
        """Stops what is waited for here; whether there was anything."""
        given_up = [task.cancel() for task in self._doing]
        return any(given_up)

    async def turn(self, name: str, *, enabled: bool, lasting: bool) -> None:
        """Turns a server on or off: for this session, or for all later ones, too. Raises InputError
        for one that is not there or is held back, ConfigError when it cannot be written down."""
        self._require(name, usable=enabled)
        if lasting:
            turn(self._environ, name, enabled=enabled)
            self._turned.pop(server_key(name), None)
        else:
            self._turned[server_key(name)] = enabled
        found = enablement(self._environ)
        on = {key for key, is_on in self._turned.items() if is_on}
        off = (found.off | self._turned.keys()) - on
        wanted = self._configured(replace(found, off=off))
        await self._patiently(self._servers.reconfigure(wanted))

    async def sign_in(self, name: str, person: "Person") -> None:
        """Has the person sign in to a server, and connects to it. Raises AlhenaError."""
        from alhena.distribution import require_mcp

        require_mcp()
        from alhena.agent.toolset.mcp_sign_in import signed_in

        self._require(name, usable=True)
        server = self._servers.servers.get(name)
        if server is None:
            raise InputError(
                f"the MCP server {name!r} is not in use.", remedy=f"Turn it on: /mcp enable {name}."
            )

        async def work() -> None:
            await signed_in(name, server.config, person, self._environ)
            await self._servers.restart(name)

        await self._patiently(work())

    async def _patiently(self, work: Coroutine[Any, Any, None]) -> None:
        """Waits for work that may take minutes. Raises InterruptedRunError when it is given up."""
        task = asyncio.ensure_future(work)
        self._doing.add(task)
        task.add_done_callback(self._doing.discard)
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
        if task.cancelled():
            raise InterruptedRunError("you stopped it before it had ended.")
        task.result()
        self._changed()

    def _require(self, name: str, *, usable: bool) -> None:
        names = [report.name for report in self.reports]
        if name not in names:
            raise InputError(
                f"there is no MCP server {name!r}.",
                remedy=f"There are: {', '.join(names)}." if names else "",
            )
        if usable and name in self._held:
            raise InputError(f"the MCP server {name!r} is held back: {self._held[name]}.")


class ServerPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place of the servers in a session: where their tools go, the `rules` of its policy, and
    who hears of what keeps one from being there. `ask` puts their questions to a person. Servers of
    a folder that is not `trusted` are started in the user's own directory, and none that a
    workspace could have put there."""

    spec: SessionSpec
    groups: ProcessGroups | None
    roots: Sequence[Path]
    registry: ToolRegistry
    sources: ToolSources
    rules: Callable[[], Iterable[PolicyRule]]
    saved: Path
    warnings: list[str]
    trusted: bool
    ask: "Ask | None"


def open_servers(place: ServerPlace) -> "ServerControl":
    """The servers of a session. Whoever opens it starts them; at the latest the first prompt does,
    which waits for them if it is to."""
    spec, warn = place.spec, place.warnings.append
    environ, settings = spec.place.environ, spec.place.settings
    kept = place.groups or ProcessGroups()

    def follow_changes() -> None:
        written = (rule for rule in place.rules() if not is_answer(rule, place.saved))
        for text in unknown_server_tools(written, _tool_names(servers)):
            if text not in place.warnings:
                warn(text)
        kept = servers.begun and bool(place.registry.search.note)
        place.sources.notify_change(declares=not kept)

    around = surroundings(environ, settings, place.roots, kept, warn, trusted=place.trusted)
    around = replace(around, in_process=spec.tools.in_process_servers, ask=place.ask)
    if spec.place.acceptance is not None:
        around = replace(around, why_held=spec.place.acceptance.server)
    configured = partial(configured_servers, settings, environ, held=spec.place.held_servers)
    servers = Servers(
        configured(None),
        opener(around),
        place.registry,
        Pins(PrivateFiles(config_home(environ)), warn),
        ServerOutlets(
            warn=warn,
            changed=follow_changes,
            directory=around.cwd,
            named=spec.place.name_secrets,
            finds_later=settings.mcp.tool_search != "off",
            is_too_large=partial(_is_too_large, settings, spec.model.name),
        ),
    )

    async def source() -> None:
        servers.start()
        if spec.tools.wait_for_servers:
            await control.wait_at_startup(settings.mcp.startup_wait)
        servers.begin()

    async def close() -> None:
        await servers.close()
        if place.groups is None:
            await kept.close()

    held, changed = spec.place.held_servers, place.sources.notify_change
    control = ServerControl(servers, configured, environ, held, changed)
    place.sources.add(source)
    place.sources.when_closed(close)
    return control


MAX_DECLARED = 40
"""Maximum number of tools of servers that are all declared, unless the settings say so."""


def _is_too_large(settings: Settings, model: str | None, declarations: Sequence[int]) -> bool:
    """True when tools of servers, whose declarations have these sizes in characters, are found by
    search: more than 40 are, or those of more than a twentieth of the context window."""
    if settings.mcp.tool_search != "auto":
        return settings.mcp.tool_search == "on"
    if len(declarations) > MAX_DECLARED:
        return True
    from alhena.models.catalogue import model_info

    name = model or settings.model.name or ""
    window = settings.model.context_window or model_info(name).input_limit
    return sum(declarations) // CHARACTERS_A_TOKEN > window // 20


CHARACTERS_A_TOKEN = 4


def _tool_names(servers: Servers) -> dict[str, frozenset[str] | None]:
    """All names of the tools of each server, of those that are left out, too; None where a server
    has not listed them yet."""
    found: dict[str, frozenset[str] | None] = {}
    for name, server in servers.servers.items():
        offer = server.offer
        listed = {*(each.name for each in offer.tools), *offer.left_out}
        tools = listed | {*server.config.exclude_tools}
        names = frozenset(each for tool in tools for each in (tool, *claimed_names((name, tool))))
        found[name] = names if server.state is ServerState.CONNECTED else None
    return found


def instructions(servers: Servers) -> str:
    """Instructions of the servers, for the system instruction."""
    return frame_instructions(
        (report.name, report.instructions) for report in servers.reports() if report.instructions
    )


_OF_SERVERS = {READ_RESOURCE, "list_mcp_resources", *SEARCH_PAIR}
"""The built-in tools that belong to the servers of one session."""


class AgentServers:
    """Opens the servers of agents in a session. `ask` puts their questions to a person."""

    def __init__(
        self, spec: SessionSpec, groups: ProcessGroups, ask: "Ask | None", *, trusted: bool
    ) -> None:
        self._spec = spec
        self._groups = groups
        self._ask = ask
        self._trusted = trusted

    @asynccontextmanager
    async def open(
        self,
        agent: AgentDefinition,
        tools: ToolRegistry,
        roots: Sequence[Path],
        warn: Callable[[str], None],
    ) -> AsyncGenerator[tuple[ToolRegistry, Servers, AgentDefinition]]:
        """Starts the servers of an agent; gives a registry with their tools, which take the
        names of others among `tools`, the servers, and the agent with the right to them."""
        spec = self._spec
        environ = spec.place.environ
        around = surroundings(
            environ,
            spec.place.settings,
            roots,
            self._groups,
            warn,
            trusted=self._trusted,
        )
        around = replace(around, why_held=agent.why_held, ask=self._ask)
        entries = dict(agent.mcp_servers)
        of_agent = replace(
            spec.place.settings,
            mcp_servers=entries,
            mcp=replace(spec.place.settings.mcp, server_command=None),
        )
        registry = ToolRegistry()
        session = select_tools(tools, agent.tools)
        others = [found for name in session.names if (found := session.find(name)) is not None]
        for each in others:
            if each.server is None and each.tool.name not in _OF_SERVERS:
                copy_entry(registry, each)
        servers = Servers(
            configured_servers(of_agent, environ),
            opener(around),
            registry,
            Pins(PrivateFiles(config_home(environ)), warn),
            ServerOutlets(
                warn=warn,
                changed=lambda: None,
                directory=around.cwd,
                is_too_large=partial(_is_too_large, spec.place.settings, agent.model),
            ),
        )
        try:
            servers.start()
            await servers.wait_until_settled()
            servers.begin()
            own = tuple(
                name
                for name in registry.names
                if (entry := registry.find(name)) is not None and entry.server is None
            )
            for each in others:
                if each.server not in servers.servers and registry.find(each.wire_name) is None:
                    copy_entry(registry, each)
            rights = (*agent.tools, *own, *(f"{name}__*" for name in servers.servers))
            yield registry, servers, replace(agent, tools=rights)
        finally:
            await servers.close()
