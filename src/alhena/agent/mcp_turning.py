"""Turning MCP servers on and off, for this and all later sessions."""

from collections.abc import Mapping

from alhena.config.mcp_servers import enablement_path, with_server
from alhena.hooks.user_files import change_file


def turn(environ: Mapping[str, str], name: str, *, enabled: bool) -> None:
    """Writes down whether a server is to be started. Raises ConfigError."""
    path = enablement_path(environ)
    change_file(
        path,
        lambda data: with_server(path, data, name, enabled=enabled),
        f"the MCP server {name!r} is as it was",
    )
