"""Who asks, for each MCP server: the tokens of a sign-in, or Google's credentials."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from alhena.config.home import config_home
from alhena.config.mcp_servers import OF_GOOGLE, McpServer
from alhena.mcp.oauth.tokens import TokenFile
from alhena.mcp.opening import Auth
from alhena.system.private_files import PrivateFiles

if TYPE_CHECKING:
    import httpx2


def stored_access(environ: Mapping[str, str], warn: Callable[[str], None]) -> Auth:
    """What shows servers who asks. Nobody is sent to a browser. `warn` hears why tokens cannot be
    read or kept."""
    tokens = token_file(environ)

    def access(name: str, server: McpServer) -> "httpx2.Auth | None":
        address = server.address
        if address is None:
            return None
        if server.auth_provider_type in OF_GOOGLE:
            from alhena.agent.mcp_google import google_access

            return google_access(name, server, environ)
        told = any(key.lower() == "authorization" for key in server.headers)
        if told and not (server.oauth is not None and server.oauth.enabled):
            return None  # the settings say who asks
        from alhena.mcp.oauth.renewal import Renewal, StoredAccess

        return StoredAccess(Renewal(name, server, tokens, warn), address)

    return access


def token_file(environ: Mapping[str, str]) -> TokenFile:
    """The tokens of MCP servers, among the user's files."""
    return TokenFile(PrivateFiles(config_home(environ)))
