"""Requests to a server that show who asks."""

from collections.abc import AsyncGenerator

import httpx2

from alhena.mcp.oauth.http import origin, require_safe
from alhena.mcp.oauth.renewal import Renewal
from alhena.mcp.scopes import wanted_scopes


class StoredAccess(httpx2.Auth):
    """Shows the token of a server to the server it was given for, and to nobody else. Nobody is
    sent to a browser: without a token the server says what it wants, and the answer stands."""

    def __init__(self, renewal: Renewal, address: str) -> None:
        self._renewal = renewal
        self._address = address
        self._origin = origin(address)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """One request, made again once with a renewed token where the first was refused."""
        here = origin(str(request.url)) == self._origin
        token = await self._renewal.token() if here else None
        if token is None:
            yield request
            return
        require_safe(str(request.url), self._address)
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        scopes = wanted_scopes(response.status_code, response.headers.get("www-authenticate", ""))
        if scopes:
            await self._renewal.want(scopes)
        if response.status_code != 401:
            return
        fresh = await self._renewal.token(refused=token)
        if fresh is None:
            return
        request.headers["Authorization"] = f"Bearer {fresh}"
        yield request
