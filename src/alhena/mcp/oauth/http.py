"""Requests to authorization servers: short, bounded, and to no place that secrets must not go to.

What a server says of where to sign in is not trusted: it could name a host of the local network.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx2

from alhena.mcp.oauth.errors import SignInError
from alhena.system.web.address import address_problem, host_problem, literal_address

MAX_BODY = 256 * 1024
"""Bytes of an answer."""

TIME_LIMIT_S = 30.0
"""Seconds for a request and its whole answer."""

MAX_REDIRECTS = 5
_DEFAULT_PORTS = {"http": 80, "https": 443}


class OAuthHttp:
    """Sends requests of a sign-in to the MCP server at `server_url`, and to where it leads.

    A URL has to be https, or on this machine if the server is. One that only the server has named
    has to be on the public internet, unless the server is not; `given` are those of the settings.
    """

    def __init__(
        self, client: httpx2.AsyncClient, server_url: str, given: Collection[str] = ()
    ) -> None:
        self._client = client
        self._server_url = server_url
        self._given = {origin(url) for url in (server_url, *given) if url}
        self._near: bool | None = None

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """The answer with its body. Redirects are followed for GET, and within an origin.

        Raises SignInError when there is none, when it is too large or takes too long, and for a
        URL that may not be asked.
        """
        place = shown(str(request.url))
        request.headers.setdefault("Accept", "application/json")
        request.headers["Accept-Encoding"] = "identity"
        try:
            async with asyncio.timeout(TIME_LIMIT_S):
                await self.require(str(request.url))
                return await self._answered(request)
        except TimeoutError as error:
            raise SignInError(f"{place} did not answer within {TIME_LIMIT_S:g} s") from error
        except httpx2.HTTPError as error:
            raise SignInError(f"{place} cannot be reached ({type(error).__name__})") from error

    async def require(self, url: str) -> None:
        """Raises SignInError for a URL that may not be asked, nor shown in a browser."""
        require_safe(url, self._server_url)
        if origin(url) in self._given or await self._server_is_near():
            return
        problem = await _problem(url)
        if problem is not None:
            raise SignInError(
                f"the server names {shown(url)} for signing in: {problem}",
                remedy="If that is meant, name it in mcpServers.NAME.oauth "
                "(authorizationUrl, tokenUrl, issuer).",
            )

    async def _server_is_near(self) -> bool:
        if self._near is None:
            self._near = await _problem(self._server_url) is not None
        return self._near

    async def _answered(self, request: httpx2.Request) -> httpx2.Response:
        for _ in range(MAX_REDIRECTS):
            response = await self._client.send(request, stream=True, follow_redirects=False)
            try:
                body = b""
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > MAX_BODY:
                        raise SignInError(
                            f"the answer of {shown(str(request.url))} has more than "
                            f"{MAX_BODY:,} bytes"
                        )
            finally:
                await response.aclose()
            following = response.next_request
            leaves = following is None or origin(str(following.url)) != origin(str(request.url))
            if following is None or leaves or request.method != "GET":
                return _whole(response, body, request)
            request = following
        raise SignInError(f"{shown(str(request.url))} redirects without an end")


@asynccontextmanager
async def opened(server_url: str, given: Collection[str] = ()) -> AsyncGenerator[OAuthHttp]:
    """Requests for a block. Proxies and certificates are those of the environment."""
    async with httpx2.AsyncClient(timeout=TIME_LIMIT_S) as client:
        yield OAuthHttp(client, server_url, given)


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL. Raises SignInError for what is none."""
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme.lower(), 0)
    except ValueError as error:
        raise SignInError("a URL of the sign-in cannot be read") from error
    return parts.scheme.lower(), (parts.hostname or "").lower(), port


def shown(url: str) -> str:
    """The place of a URL for messages: no path, no query, where secrets may stand."""
    scheme, host, port = origin(url)
    named = f"[{host}]" if ":" in host else host
    place = f"{scheme}://{named}"
    return place if port == _DEFAULT_PORTS.get(scheme) else f"{place}:{port}"


def require_safe(url: str, server_url: str) -> None:
    """Raises SignInError for a URL that secrets would be sent to in the clear."""
    scheme, host, _ = origin(url)
    local = _is_loopback(host) and _is_loopback(origin(server_url)[1])
    if scheme == "https" or (scheme == "http" and local):
        return
    raise SignInError(
        f"{shown(url)} is no https address, so that secrets would go unencrypted",
        remedy="Use an address that begins with https://.",
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = literal_address(host)
    return address is not None and address.is_loopback


async def _problem(url: str) -> str | None:
    """Why a URL is not on the public internet; None when it is, or nobody can say."""
    _, host, port = origin(url)
    said = host_problem(host)
    if said is not None or literal_address(host) is not None:
        return said
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port)
    except (OSError, UnicodeError):
        return None  # behind a proxy names may mean nothing here; the request will say
    addresses = (str(each[4][0]) for each in found)
    return next(filter(None, map(address_problem, addresses)), None)


def _whole(response: httpx2.Response, body: bytes, request: httpx2.Request) -> httpx2.Response:
    """The answer as if its body had been read by the client."""
    kept = ("content-type", "www-authenticate", "location")
    headers = [(name, value) for name, value in response.headers.multi_items() if name in kept]
    return httpx2.Response(response.status_code, headers=headers, content=body, request=request)
