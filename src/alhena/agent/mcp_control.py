"""What a person does with the MCP servers of a running session."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.agent.mcp_turning import turn
from alhena.config.mcp_servers import ConfiguredServers, Enablement, enablement, server_key
from alhena.errors import InputError, InterruptedRunError
from alhena.mcp.servers import ServerReport, Servers
from alhena.mcp.tool import McpTool

if TYPE_CHECKING:
    from alhena.models.auth.login import Person

Configured = Callable[[Enablement], ConfiguredServers]
"""The servers of the settings when these are turned off."""


class ServerControl:
    """Turns servers on and off, connects to them anew, and has the person sign in to them. `held`
    are those that are held back, each with why."""

    def __init__(
        self,
        servers: Servers,
        configured: Configured,
        environ: Mapping[str, str],
        held: Mapping[str, str] | None = None,
    ) -> None:
        self._servers = servers
        self._held = held or {}
        self._configured = configured
        self._environ = environ
        self._on: frozenset[str] = frozenset()
        self._off: frozenset[str] = frozenset()
        self._doing: set[asyncio.Task[None]] = set()

    @property
    def reports(self) -> tuple[ServerReport, ...]:
        """How the servers are."""
        return self._servers.reports()

    def tool(self, name: str) -> McpTool | None:
        """The tool of a server that is declared under a name."""
        return self._servers.tool(name)

    async def refresh(self) -> None:
        """Connects to all anew, and reads what they have."""
        await self._patiently(self._servers.restart())

    def give_up(self) -> bool:
        """Stops what is waited for here; whether there was anything."""
        given_up = [task.cancel() for task in self._doing]
        return any(given_up)

    async def turn(self, name: str, *, enabled: bool, lasting: bool) -> None:
        """Turns a server on or off: for this session, or for all later ones, too. Raises InputError
        for one that is not there or is held back, ConfigError when it cannot be written down."""
        self._require(name)
        if enabled and name in self._held:
            raise InputError(f"the MCP server {name!r} is held back: {self._held[name]}.")
        key = frozenset((server_key(name),))
        if lasting:
            turn(self._environ, name, enabled=enabled)
            self._on, self._off = self._on - key, self._off - key
        elif enabled:
            self._on, self._off = self._on | key, self._off - key
        else:
            self._on, self._off = self._on - key, self._off | key
        found = enablement(self._environ)
        off = (found.off | self._off) - self._on
        wanted = self._configured(msgspec.structs.replace(found, off=off))
        await self._patiently(self._servers.reconfigure(wanted))

    async def sign_in(self, name: str, person: "Person") -> None:
        """Has the person sign in to a server, and connects to it. Raises AlhenaError."""
        from alhena.agent.mcp_sign_in import signed_in

        self._require(name)
        if name in self._held:
            raise InputError(f"the MCP server {name!r} is held back: {self._held[name]}.")
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
            raise InterruptedRunError("it was given up.")
        task.result()

    def _require(self, name: str) -> None:
        names = [report.name for report in self.reports]
        if name not in names:
            raise InputError(
                f"there is no MCP server {name!r}.",
                remedy=f"There are: {', '.join(names)}." if names else "",
            )
