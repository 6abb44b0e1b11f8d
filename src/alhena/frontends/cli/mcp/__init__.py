"""`alhena mcp`: the MCP servers of the settings, and this program as one."""

from importlib import import_module

from alhena.errors import UsageError
from alhena.frontends.streams import write_stdout

USAGE = """\
usage: alhena mcp add [OPTIONS] NAME COMMAND_OR_URL [ARGS…]
       alhena mcp remove NAME [-s user|project]
       alhena mcp list [--json] [--skip-trust]
       alhena mcp auth [NAME [--logout]]
       alhena mcp enable|disable NAME
       alhena mcp serve [OPTIONS]

add: adds a server to the settings. Unknown options, and everything after --, go to the command.

  -s, --scope user|project        whose settings (project: .gemini/settings.json of this folder)
  -t, --transport stdio|sse|http  how it is reached (http for a URL, else stdio)
  -e, --env NAME=VALUE            a variable of its process; may be said several times
  -H, --header "NAME: VALUE"      a header of requests to it; may be said several times
  --timeout MS                    how long its answers may take
  --trust                         its tools need no approval
  --description TEXT              what it is for
  --include-tools A,B             the only tools that are wanted
  --exclude-tools A,B             tools that are not

remove: takes it out again. list: connects to all of them and says how that went. auth: signs in to
one, in your browser, or out; alone it says who is signed in where. enable, disable: whether it is
started. serve: the tools of this workspace for other agents (alhena mcp serve --help).
"""
_WHERE = {
    "serve": ("serve", "run"),
    "list": ("list", "run"),
    "auth": ("auth", "run"),
    "add": ("settings", "add"),
    "remove": ("settings", "remove"),
    "enable": ("settings", "enable"),
    "disable": ("settings", "disable"),
}


def run(argv: list[str]) -> int:
    """Carries out `alhena mcp ARGV`; returns the exit code."""
    name, rest = (argv[0], argv[1:]) if argv else ("", [])
    asks = "-h" in rest or "--help" in rest
    if name in ("-h", "--help") or (name in _WHERE and name != "serve" and asks):
        write_stdout(USAGE)
        return 0
    if name not in _WHERE:
        said = f"there is no command {name!r}." if name else "a command is missing."
        raise UsageError(said, remedy="See alhena mcp --help.")
    module, function = _WHERE[name]
    return getattr(import_module(f"alhena.frontends.cli.mcp.{module}"), function)(rest)
