"""`alhena mcp list` and `alhena mcp auth`: connects to the configured servers, signs in and out."""

import asyncio
import os
import time
from datetime import UTC, datetime

from alhena.agent.toolset.mcp import surroundings
from alhena.config.effective_settings import Place
from alhena.config.home import config_home
from alhena.config.mcp_servers import (
    ConfiguredServers,
    McpServer,
    Named,
    configured_servers,
)
from alhena.display_text import one_line
from alhena.errors import InputError, UsageError
from alhena.frontends.shared.arguments import parse_arguments
from alhena.frontends.shared.current_settings import place_here, tell
from alhena.frontends.shared.listings import Listing, print_listing, server_rows
from alhena.frontends.shared.streams import write_stdout
from alhena.mcp.oauth.tokens import TokenFile, same_place, token_file
from alhena.mcp.opening import opener
from alhena.mcp.pins import Pins
from alhena.mcp.servers import ServerOutlets, ServerReport, Servers
from alhena.system.private_files import PrivateFiles
from alhena.system.processes import ProcessGroups
from alhena.tools.registry import ToolRegistry


def list_all(argv: list[str]) -> int:
    """Carries out `alhena mcp list ARGV`; the exit code is 0 however the servers are."""
    options = parse_arguments("alhena mcp list", argv, "--json --skip-trust")
    place = place_here(skip_trust=options.skip_trust, told=False)
    tell(place.told)
    configured = configured_servers(place.settings, place.environ, held=place.held_servers)
    warnings: list[str] = []
    variables = place.secret_variables()
    reports = asyncio.run(_probe_servers(place, configured, warnings, variables.name_secrets))
    tell(dict.fromkeys(warnings))
    listing = Listing(noun="MCP server", rows=server_rows(reports, place))
    return print_listing(listing, as_json=options.json)


async def _probe_servers(
    place: Place, configured: ConfiguredServers, warnings: list[str], named: Named
) -> tuple[ServerReport, ...]:
    """Connects to each server and reports its state once it is connected, has failed or has timed
    out. Problems with the files of tokens and approvals are added to `warnings`."""
    groups = ProcessGroups()
    around = surroundings(
        place.environ,
        place.settings,
        (place.cwd,),
        groups,
        warnings.append,
        trusted=place.trust.trusted,
    )
    servers = Servers(
        configured,
        opener(around),
        ToolRegistry(),
        Pins(PrivateFiles(config_home(place.environ)), warnings.append),
        # The reports say it all.
        ServerOutlets(warn=lambda _text: None, changed=lambda: None, named=named),
    )
    try:
        servers.start()
        await servers.wait_until_settled()
        return servers.reports()
    finally:
        await servers.close()
        await groups.close()


def auth(argv: list[str]) -> int:
    """Carries out `alhena mcp auth ARGV`; returns the exit code."""
    options = parse_arguments("alhena mcp auth", argv, "[NAME] --logout --skip-trust")
    tokens = token_file(os.environ)
    if options.logout:
        if options.name is None:
            raise UsageError("--logout needs the name of a server.")
        return _logout(options.name, tokens)
    place = place_here(skip_trust=options.skip_trust)
    if options.name is None:
        return _status(place, tokens)
    return asyncio.run(_sign_in(options.name, place))


async def _sign_in(name: str, place: Place) -> int:
    from alhena.distribution import require_mcp

    require_mcp()
    from alhena.agent.toolset.mcp_sign_in import signed_in
    from alhena.frontends.cli.auth import TerminalPerson

    server = server_to_sign_in_to(name, place)
    await signed_in(name, server, TerminalPerson(), place.environ)
    write_stdout(f"Signed in to MCP server '{one_line(name)}'.\n")
    return 0


def server_to_sign_in_to(name: str, place: Place) -> McpServer:
    """A server of the settings. Raises InputError when there is none, or none that can be used."""
    configured = configured_servers(place.settings, place.environ, held=place.held_servers)
    server = configured.servers.get(name)
    if server is not None:
        return server
    why = configured.problems.get(name) or configured.disabled.get(name)
    if why is not None:
        raise InputError(f"the MCP server {name!r} cannot be signed in to: {why}")
    raise InputError(
        f"there is no MCP server {name!r} in the settings.", remedy="See alhena mcp list."
    )


def _logout(name: str, tokens: TokenFile) -> int:
    there = asyncio.run(tokens.forget(name))
    said = f"Signed out of MCP server {name!r}." if there else "You are not signed in to it."
    write_stdout(f"{one_line(said)}\n")
    return 0


def _status(place: Place, tokens: TokenFile) -> int:
    servers = configured_servers(place.settings, place.environ, held=place.held_servers).servers
    remote = {name: server for name, server in servers.items() if server.address is not None}
    for name, server in remote.items():
        write_stdout(f"{one_line(name, 60)}: {_sign_in_state(name, server, tokens)}\n")
    if not remote:
        write_stdout("No configured MCP server supports signing in.\n")
    return 0


def _sign_in_state(name: str, server: McpServer, tokens: TokenFile) -> str:
    token = tokens.find_by_name(name)
    if token is None:
        return "not signed in"
    if not same_place(token.server_url, server.address or ""):
        return "signed in at another address, not at this one"
    if token.wanted:
        return f"signed in, but the server now also wants: {one_line(token.wanted, 200)}"
    if token.expires_at is None or token.holds_for(0, time.time()):
        return "signed in"
    if token.refresh_token:
        return "signed in; the token is renewed automatically"
    ended = datetime.fromtimestamp(token.expires_at, UTC).isoformat(timespec="minutes")
    return f"the sign-in has ended ({ended})"
