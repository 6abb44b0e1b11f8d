"""`alhena mcp`: the MCP servers of the settings, and this program as one."""

from importlib import import_module

from alhena.errors import UsageError
from alhena.frontends.shared.arguments import subcommand_help
from alhena.frontends.shared.streams import write_stdout

_USAGE = """\
usage: alhena mcp add [OPTIONS] NAME COMMAND_OR_URL [ARGS…]
       alhena mcp import [FILE] [NAME… | --all] [--dry-run] [-s user|project]
       alhena mcp remove NAME [-s user|project]
       alhena mcp list [--json] [--skip-trust]
       alhena mcp auth [NAME [--logout]]
       alhena mcp enable|disable NAME
       alhena mcp serve [OPTIONS]

add: adds a server to the settings. Unknown options, and everything after --, go to the command.

  -s, --scope user|project        which settings (project: .gemini/settings.json of this folder)
  -t, --transport stdio|sse|http  transport (default: http for a URL, else stdio)
  -e, --env NAME=VALUE            a variable of its process; repeatable
  -H, --header "NAME: VALUE"      a header of requests to it; repeatable
  --timeout MS                    time limit of a request
  --trust                         its tools need no approval
  --description TEXT              description of the server
  --include-tools A,B             use only these tools
  --exclude-tools A,B             do not use these tools

import: shows the servers that FILE defines, or else the files of other tools (.mcp.json,
.agents/mcp_config.json, .vscode/mcp.json, ~/.gemini/config/mcp_config.json, ~/.codex/config.toml,
~/.claude.json), and adds the named ones or --all: those of this folder's files to the project
settings, others to yours. --dry-run adds none.

remove: removes a server. list: connects to all servers and shows their state. auth: signs in to a
server in your browser, or out; without NAME it lists the sign-ins. enable, disable: whether a
server is started. serve: serves the tools of this workspace to other agents (alhena mcp serve
--help).
"""
_WHERE = {
    "serve": ("serve", "run"),
    "list": ("servers", "list_all"),
    "auth": ("servers", "auth"),
    "add": ("settings", "add"),
    "import": ("imports", "import_servers"),
    "remove": ("settings", "remove"),
    "enable": ("settings", "enable"),
    "disable": ("settings", "disable"),
}


FLAGS = _USAGE
"""Flags of a run in it may stand before the command."""


def run(argv: list[str]) -> int:
    """Carries out `alhena mcp ARGV`; returns the exit code."""
    name, rest = (argv[0], argv[1:]) if argv else ("", [])
    asks = "-h" in rest or "--help" in rest
    if name in ("-h", "--help") or (name in _WHERE and name != "serve" and asks):
        write_stdout(subcommand_help(_USAGE, name))
        return 0
    if name not in _WHERE:
        said = f"there is no command {name!r}." if name else "a command is missing."
        raise UsageError(said, remedy="See alhena mcp --help.")
    module, function = _WHERE[name]
    return getattr(import_module(f"alhena.frontends.cli.mcp.{module}"), function)(rest)
