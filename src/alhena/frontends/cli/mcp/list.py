"""`alhena mcp list`: the servers of the settings, and whether they can be connected to."""

import asyncio
from typing import Any

import msgspec

from alhena.agent.toolset.mcp import surroundings
from alhena.config.effective_settings import Place
from alhena.config.environment import SecretVariables
from alhena.config.home import config_home
from alhena.config.mcp_servers import ConfiguredServers, configured_servers
from alhena.display_text import one_line
from alhena.frontends.arguments import Parser
from alhena.frontends.current_settings import place_here, tell
from alhena.frontends.descriptions import MARKS, state_words
from alhena.frontends.streams import write_json, write_stdout
from alhena.mcp.opening import opener
from alhena.mcp.pins import Pins
from alhena.mcp.redaction import Named, shown_server
from alhena.mcp.servers import Outlets, ServerReport, Servers
from alhena.system.private_files import PrivateFiles
from alhena.system.processes import ProcessGroups
from alhena.tools.registry import ToolRegistry

MAX_MORE = 1_000
"""Characters of a line about a server's directory, variables and headers."""


def run(argv: list[str]) -> int:
    """Carries out `alhena mcp list ARGV`; the exit code is 0 however the servers are."""
    parser = Parser(prog="alhena mcp list", add_help=False, allow_abbrev=False)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--skip-trust", action="store_true")
    parser.add_argument("-d", "--debug", action="store_true")
    options = parser.parse_args(argv)
    place = place_here(skip_trust=options.skip_trust, told=False)
    tell(place.told)
    configured = configured_servers(place.settings, place.environ, held=place.held_servers)
    configured = _placed(configured, place)
    warnings: list[str] = []
    variables = SecretVariables(place)
    reports = asyncio.run(_looked_at(place, configured, warnings, variables.named))
    tell(dict.fromkeys(warnings))
    shown_as = {
        name: shown_server(name, server, variables.named)
        for name, server in configured.servers.items()
    }
    words = {name: what for name, (what, *_) in shown_as.items()}
    more = {name: rest for name, (_, *rest) in shown_as.items()}
    if options.json:
        write_json(
            [
                _as_json(report, words.get(report.name, ""), more.get(report.name, []))
                for report in reports
            ]
        )
        return 0
    entries = place.settings.mcp_servers
    for report in reports:
        what = words.get(report.name, "")
        extension = entries.get(report.name, {}).get("extension")
        name = f"{report.name} (from {extension})" if extension else report.name
        shown = f"{name}: {what} ({report.transport})" if what else name
        write_stdout(f"{MARKS[report.state]} {one_line(shown, 200)} - {state_words(report)}\n")
        if rest := ", ".join(more.get(report.name, [])):
            write_stdout(f"    {one_line(rest, MAX_MORE)}\n")
    if not reports:
        write_stdout("No MCP servers are configured. To add one: alhena mcp add --help\n")
    return 0


def _placed(configured: ConfiguredServers, place: Place) -> ConfiguredServers:
    """The same with file and line of each entry that cannot be used."""
    if not configured.problems:
        return configured
    from alhena.config.mcp_servers import server_problems

    found = server_problems(place.layers)
    problems = {name: found.get(name, why) for name, why in configured.problems.items()}
    return msgspec.structs.replace(configured, problems=problems)


async def _looked_at(
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
        Outlets(warn=lambda _text: None, changed=lambda: None, named=named),
    )
    try:
        servers.start()
        await servers.settled()
        return servers.reports()
    finally:
        await servers.close()
        await groups.close()


def _as_json(report: ServerReport, words: str, more: list[str]) -> dict[str, Any]:
    return {
        "name": report.name,
        "state": report.state,
        "why": report.why,
        "transport": report.transport,
        "server": words,
        "with": more,
        "tools": sorted(report.tools),
        "prompts": [prompt.name for prompt in report.prompts],
        "resources": [resource.uri for resource in report.resources],
        "leftOut": report.left_out,
        "notes": list(report.notes),
    }
