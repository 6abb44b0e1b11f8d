"""Google's credentials, as MCP servers are shown them."""

from collections.abc import AsyncGenerator, Mapping
from urllib.parse import urlsplit

import httpx2

from alhena.config.mcp_servers import GOOGLE, IMPERSONATION, McpServer
from alhena.errors import AlhenaError
from alhena.mcp.connection import McpConnectError
from alhena.models.auth.adc import default_credentials
from alhena.models.auth.federated import identity_tokens
from alhena.models.auth.tokens import TokenSource

HOSTS = (".googleapis.com", ".luci.app")
"""Where tokens of a Google account go. They open all that the account may do."""


class TokenAccess(httpx2.Auth):
    """Shows tokens of a source to one server, `extra` headers with them. Raises McpConnectError
    when there is no token to be had."""

    def __init__(self, tokens: TokenSource, address: str, extra: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._place = _place(address)
        self._extra = extra

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """One request, made again once with a renewed token where the first was refused."""
        if _place(str(request.url)) != self._place:
            yield request
            return
        request.headers.update(self._extra)
        first = await self._token(fresh=False)
        request.headers["Authorization"] = f"Bearer {first}"
        response = yield request
        if response.status_code != 401:
            return
        again = await self._token(fresh=True)
        if again != first:
            request.headers["Authorization"] = f"Bearer {again}"
            yield request

    async def _token(self, *, fresh: bool) -> str:
        try:
            return await self._tokens.token(fresh=fresh)
        except AlhenaError as error:
            raise McpConnectError(error.message, remedy=error.remedy) from error


def google_access(name: str, server: McpServer, environ: Mapping[str, str]) -> TokenAccess:
    """The credentials of this machine, or an identity that they may act as, for a server that wants
    them. Raises McpConnectError where they must not go, and when there are none."""
    address = server.address or ""
    where = f"mcpServers.{name}"
    try:
        if server.auth_provider_type == GOOGLE:
            _require_google(address, where)
            found = default_credentials(environ)
            project = found.quota_project
            return TokenAccess(
                found.tokens, address, {"x-goog-user-project": project} if project else {}
            )
        account, audience = server.target_service_account, server.target_audience
        if not account or not audience:
            raise McpConnectError(
                f"{IMPERSONATION} does not say who asks, and whom",
                remedy=f"Set {where}.targetServiceAccount and {where}.targetAudience.",
            )
        _require_encrypted(address)
        actor = default_credentials(environ).tokens
        return TokenAccess(identity_tokens(actor, account, audience, environ), address, {})
    except McpConnectError:
        raise
    except AlhenaError as error:
        raise McpConnectError(error.message, remedy=error.remedy) from error


def _require_google(address: str, where: str) -> None:
    _require_encrypted(address)
    host = (urlsplit(address).hostname or "").lower()
    if not any(f".{host}".endswith(each) for each in HOSTS):
        raise McpConnectError(
            f"Google credentials are not sent to {host}, which is no host of Google's APIs",
            remedy=f"Remove {where}.authProviderType, or use {IMPERSONATION}.",
        )


def _require_encrypted(address: str) -> None:
    if urlsplit(address).scheme.lower() != "https":
        raise McpConnectError("credentials are sent over https only")


def _place(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme.lower(), (parts.hostname or "").lower(), parts.port
