"""`alhena mcp`: MCP servers."""

from alhena.frontends.cli.arguments import Parser


def run(argv: list[str]) -> int:
    """Carries out `alhena mcp ARGV`; returns the exit code."""
    if argv[:1] == ["serve"]:
        from alhena.frontends.cli import mcp_serve

        return mcp_serve.run(argv[1:])
    parser = Parser(prog="alhena mcp", description="MCP servers.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    commands.add_parser("serve", help="the tools of this workspace as an MCP server")
    parser.parse_args(argv)
    return 0
