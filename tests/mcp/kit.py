"""Servers as real processes, and the client's side of them."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from alhena.config.layers import expand_variables
from alhena.config.mcp_servers import configured_servers
from alhena.config.settings import EnvironmentRedaction, settings_of
from alhena.mcp.opening import Auth, ServerEnvironment, opener
from alhena.mcp.pins import Pins
from alhena.mcp.server import Server, ServerPace
from alhena.mcp.servers import ServerOutlets, Servers
from alhena.system.private_files import PrivateFiles
from alhena.system.processes import ProcessGroups
from alhena.tools.builtin.ask_user import Ask
from alhena.tools.contract import (
    ExecutionContext,
    Tool,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)
from alhena.tools.registry import ToolRegistry
from tests.support.patience import PATIENCE_S

SERVED = Path(__file__).parent / "served"
WAITED_FOR = int(1000 * PATIENCE_S)
"""Milliseconds. A first prompt waits longer for servers that have a time of their own."""
QUICK = ServerPace(connect=PATIENCE_S, relist=0.05)


@contextmanager
def served(how: str, port: int) -> Iterator[str]:
    """The kitchen behind a URL of the loopback, which it gives."""
    command = [sys.executable, str(SERVED / "kitchen.py"), how, str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if b"Uvicorn running" in line:
                break
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def tool(name: str, **properties: Any) -> dict[str, Any]:
    """A tool as servers list it."""
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema}


def odd(directory: Path, script: dict[str, Any], name: str = "odd") -> dict[str, Any]:
    """The settings of a server that does what a script says."""
    file = directory / f"{name}.script.json"
    file.write_text(json.dumps(script), encoding="utf-8")
    args = [str(SERVED / "odd.py"), str(file)]
    return {"command": sys.executable, "args": args, "timeout": WAITED_FOR}


def kitchen() -> dict[str, Any]:
    """The settings of the server that is written with the official SDK."""
    args = [str(SERVED / "kitchen.py"), "stdio"]
    return {"command": sys.executable, "args": args, "timeout": WAITED_FOR}


class Rig:
    """Servers with a registry, and what was said of them."""

    def __init__(
        self, servers: Servers, registry: ToolRegistry, groups: ProcessGroups, said: list[str]
    ) -> None:
        self.servers = servers
        self.registry = registry
        self.groups = groups
        self.warnings = said
        self.changes: list[None] = []

    def server(self, name: str = "odd") -> Server:
        return self.servers.servers[name]

    async def until(self, true: Callable[[], bool]) -> None:
        """Returns when `true` says so; the test's own time limit is the end of patience."""
        while not true():
            await asyncio.sleep(0.01)


def made(found: Tool, arguments: dict[str, Any]) -> ToolInvocation:
    """A call that was built."""
    invocation = found.build(arguments)
    assert not isinstance(invocation, ToolFailure), invocation
    return invocation


async def called(rig: Rig, name: str, arguments: dict[str, Any] | None = None) -> ToolResult:
    """Result of a tool of the registry."""
    found = rig.registry.get(name)
    assert found is not None, rig.registry.names
    return await made(found, arguments or {}).execute(ExecutionContext(Path("/")))


def surroundings(directory: Path, groups: ProcessGroups) -> ServerEnvironment:
    return ServerEnvironment(
        environ=os.environ,
        redaction=EnvironmentRedaction(),
        cwd=str(directory),
        roots=(str(directory),),
        groups=groups,
    )


@asynccontextmanager
async def rigged(
    entries: dict[str, Any],
    directory: Path,
    *,
    registry: ToolRegistry | None = None,
    pace: ServerPace = QUICK,
    auth: Auth | None = None,
    ask: Ask | None = None,
    environ: dict[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[Rig]:
    """Servers of these settings (with variables, as in a file), connected as far as that goes, and
    closed behind the block."""
    around = dict(os.environ) if environ is None else environ
    document = expand_variables({"mcpServers": entries, **settings}, around)
    made = settings_of(document, "test")
    groups = ProcessGroups()
    tools = ToolRegistry() if registry is None else registry
    said: list[str] = []
    changes: list[None] = []

    servers = Servers(
        configured_servers(made, around),
        opener(
            msgspec.structs.replace(
                surroundings(directory, groups), environ=around, auth=auth, ask=ask
            )
        ),
        tools,
        Pins(PrivateFiles(directory / "pins"), said.append),
        ServerOutlets(warn=said.append, changed=lambda: changes.append(None)),
        pace,
    )
    rig = Rig(servers, tools, groups, said)
    rig.changes = changes
    servers.start()
    try:
        await servers.wait_until_settled()
        yield rig
    finally:
        await servers.close()
        await groups.close()
