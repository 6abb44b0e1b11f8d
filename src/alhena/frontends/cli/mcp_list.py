"""`alhena mcp list`: the servers of the settings, and whether they can be connected to."""

import asyncio
from typing import Any

import msgspec

from alhena.agent.mcp_surroundings import surroundings
from alhena.config.home import config_home
from alhena.config.mcp_servers import ConfiguredServers, configured_servers
from alhena.config.place import Place
from alhena.display_text import one_line
from alhena.frontends.cli.arguments import Parser
from alhena.frontends.here import place_here, tell
from alhena.frontends.mcp_words import MARKS, state_words
from alhena.frontends.secret_variables import SecretVariables
from alhena.frontends.streams import write_json, write_stdout
from alhena.mcp.opening import opener
from alhena.mcp.pins import Pins
from alhena.mcp.servers import Outlets, ServerReport, Servers
from alhena.mcp.shown import server_more, server_words
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
    reports = asyncio.run(_looked_at(place, configured, warnings))
    tell(dict.fromkeys(warnings))
    words, more = _words(place, configured), _more(place, configured)
    if options.json:
        write_json(
            [
                _as_json(report, words.get(report.name, ""), more.get(report.name, []))
                for report in reports
            ]
        )
        return 0
    for report in reports:
        what = words.get(report.name, "")
        shown = f"{report.name}: {what} ({report.transport})" if what else report.name
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
    from alhena.config.server_entries import server_problems

    found = server_problems(place.layers)
    problems = {name: found.get(name, why) for name, why in configured.problems.items()}
    return msgspec.structs.replace(configured, problems=problems)


async def _looked_at(
    place: Place, configured: ConfiguredServers, warnings: list[str]
) -> tuple[ServerReport, ...]:
    """How the servers are once each has connected, has failed, or has had its time. `warnings` gets
    what is wrong with the files of tokens and approvals."""
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
        Outlets(warn=lambda _text: None, changed=lambda: None),  # the reports say it all
    )
    try:
        servers.start()
        await servers.settled()
        return servers.reports()
    finally:
        await servers.close()
        await groups.close()


def _words(place: Place, configured: ConfiguredServers) -> dict[str, str]:
    """What each server is, with nothing secret."""
    variables = SecretVariables(place)
    words: dict[str, str] = {}
    for name, server in configured.servers.items():
        said = variables.named(("mcpServers", name), server_words(server))
        words[name] = variables.named(("mcp", "serverCommand"), said)
    return words


def _more(place: Place, configured: ConfiguredServers) -> dict[str, list[str]]:
    """What else each server is, likewise."""
    variables = SecretVariables(place)
    return {
        name: variables.named(("mcpServers", name), list(server_more(server)))
        for name, server in configured.servers.items()
    }


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
