"""HTTP requests to authorization servers: time and size limits, no private addresses, and the token
requests with their errors.

The location of an authorization server comes from an untrusted server: it could name a host of the
local network, or a name whose address changes after the check. So a name is resolved once, and the
request goes to one of the checked addresses.

McpConnectError
└── SignInError           exit 41   sign-in failed
    └── RefusedError                permanently refused by an authorization server
TokenFileError            exit 41   the token file is unusable
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
import msgspec

from alhena.config.environment import without_secrets
from alhena.display_text import one_line
from alhena.http.certificates import tls_context
from alhena.mcp.oauth.tokens import NO_RESOURCE, RefusedGrantError, SignInError, StoredToken
from alhena.system.web.fetch import send_to_first, system_resolver
from alhena.system.web.url import address_problem, host_problem, literal_address
from alhena.wire.json_values import is_token

MAX_BODY = 256 * 1024
"""Maximum bytes of an answer."""

TIME_LIMIT_S = 30.0
"""Timeout of a request with its whole answer."""

MAX_REDIRECTS = 5
_DEFAULT_PORTS = {"http": 80, "https": 443}

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves the addresses of a host. Raises OSError when there are none."""


class OAuthHttp:
    """Sends sign-in requests for the MCP server at `server_url`.

    A URL has to be https, or local if the server is. A URL that only the server named must be on
    the public internet, unless the server is not; `given` are the URLs from the settings. `direct`
    is the client without proxies.
    """

    def __init__(
        self,
        client: httpx2.AsyncClient,
        server_url: str,
        given: Collection[str] = (),
        *,
        direct: httpx2.AsyncClient | None = None,
        resolve: Resolve = system_resolver,
    ) -> None:
        self._client = client
        self._direct = direct or client
        self._resolve = resolve
        self._server_url = server_url
        self._given = {origin(url) for url in (server_url, *given) if url}
        self._is_near = host_problem(origin(server_url)[1]) is not None

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Returns the answer with its body. Follows redirects of GET requests within an origin.

        Raises SignInError when the request fails, the answer is too large or late, or the URL is
        not allowed.
        """
        place = describe_origin(str(request.url))
        request.headers.setdefault("Accept", "application/json")
        request.headers["Accept-Encoding"] = "identity"
        try:
            async with asyncio.timeout(TIME_LIMIT_S):
                return await self._follow_redirects(request)
        except TimeoutError as error:
            raise SignInError(f"{place} did not answer within {TIME_LIMIT_S:g} s") from error
        except httpx2.HTTPError as error:
            raise SignInError(f"{place} cannot be reached ({type(error).__name__})") from error

    async def require(self, url: str) -> None:
        """Raises SignInError for a URL that must not be requested or shown in a browser."""
        await self._allowed_addresses(url)

    def record_address(self, address: str) -> None:
        """Records the server's address: it alone now decides if the server is on the public
        internet."""
        self._is_near = address_problem(address) is not None

    async def _allowed_addresses(self, url: str) -> Sequence[str]:
        """The allowed addresses of a URL; none if it may be requested by name. Raises
        SignInError."""
        require_safe(url, self._server_url)
        if origin(url) in self._given or self._is_near:
            return ()
        _, host, _ = origin(url)
        addresses: Sequence[str] = ()
        problem = host_problem(host)
        if problem is None and literal_address(host) is None:
            addresses = await self._addresses(url)
            problem = next(filter(None, map(address_problem, addresses)), None)
        if problem is not None:
            raise SignInError(
                f"the server names {describe_origin(url)} for signing in: {problem}",
                remedy="If that is meant, name it in mcpServers.NAME.oauth "
                "(authorizationUrl, tokenUrl, issuer).",
            )
        return () if is_proxied(url) else addresses

    async def _addresses(self, url: str) -> Sequence[str]:
        """Resolves the host of a URL. Raises SignInError."""
        _, host, port = origin(url)
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError):
            found = ()
        if not found and not is_proxied(url):  # a proxy resolves names
            raise SignInError(f"{describe_origin(url)} cannot be reached (its name is not known)")
        return found

    async def _follow_redirects(self, request: httpx2.Request) -> httpx2.Response:
        for _ in range(MAX_REDIRECTS):
            url = str(request.url)
            addresses = await self._allowed_addresses(url)
            if addresses:
                places = [(address, request.url.port) for address in addresses]
                response = await send_to_first(self._direct, request, places)
            else:
                response = await self._client.send(request, stream=True, follow_redirects=False)
            try:
                body = b""
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > MAX_BODY:
                        raise SignInError(
                            f"the answer of {describe_origin(url)} has more than {MAX_BODY:,} bytes"
                        )
            finally:
                await response.aclose()
            following = _following(request, response)
            if following is None:
                return _whole(response, body, request)
            request = following
        raise SignInError(f"{describe_origin(str(request.url))} redirects without an end")


def is_proxied(url: str) -> bool:
    """True when requests to a URL use a proxy, which resolves names."""
    scheme, host, _ = origin(url)
    proxies = getproxies()
    return bool(proxies.get(scheme) or proxies.get("all")) and not proxy_bypass(host)


def _following(request: httpx2.Request, response: httpx2.Response) -> httpx2.Request | None:
    """The request that follows a redirect within the origin; None otherwise."""
    if not response.has_redirect_location or request.method != "GET":
        return None
    try:
        url = request.url.join(response.headers["location"])
    except httpx2.InvalidURL as error:
        raise SignInError(
            f"{describe_origin(str(request.url))} redirects to what is no URL"
        ) from error
    if origin(str(url)) != origin(str(request.url)):
        return None
    return httpx2.Request("GET", url, headers=request.headers)


@asynccontextmanager
async def open_http(server_url: str, given: Collection[str] = ()) -> AsyncGenerator[OAuthHttp]:
    """Opens clients for a block, with proxies and certificates from the environment."""
    tls = tls_context(os.environ)
    transport = httpx2.AsyncHTTPTransport(verify=tls)
    async with (
        httpx2.AsyncClient(timeout=TIME_LIMIT_S, verify=tls) as client,
        httpx2.AsyncClient(timeout=TIME_LIMIT_S, transport=transport) as direct,
    ):
        yield OAuthHttp(client, server_url, given, direct=direct)


def same_issuer(one: str, other: str) -> bool:
    """True for issuers that differ by a final slash at most: servers write them either way."""
    return one.removesuffix("/") == other.removesuffix("/")


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL. Raises SignInError for an invalid URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme.lower(), 0)
    except ValueError as error:
        raise SignInError("a URL of the sign-in cannot be read") from error
    return parts.scheme.lower(), (parts.hostname or "").lower(), port


def describe_origin(url: str) -> str:
    """A URL for messages, without path and query, which may contain secrets."""
    scheme, host, port = origin(url)
    named = f"[{host}]" if ":" in host else host
    place = f"{scheme}://{named}"
    return place if port == _DEFAULT_PORTS.get(scheme) else f"{place}:{port}"


def require_safe(url: str, server_url: str) -> None:
    """Raises SignInError for a URL that would receive secrets unencrypted."""
    scheme, host, _ = origin(url)
    local = _is_loopback(host) and _is_loopback(origin(server_url)[1])
    if scheme == "https" or (scheme == "http" and local):
        return
    raise SignInError(
        f"{describe_origin(url)} is no https address, so that secrets would go unencrypted",
        remedy="Use an address that begins with https://.",
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = literal_address(host)
    return address is not None and address.is_loopback


def _whole(response: httpx2.Response, body: bytes, request: httpx2.Request) -> httpx2.Response:
    """The response with its complete body."""
    kept = ("content-type", "www-authenticate", "location")
    headers = [(name, value) for name, value in response.headers.multi_items() if name in kept]
    return httpx2.Response(response.status_code, headers=headers, content=body, request=request)


BASIC = "client_secret_basic"
MAX_SAID = 300
MAX_LIFE_S = 100 * 366 * 24 * 3600.0
"""Maximum plausible lifetime of a token; larger values are ignored."""
_TEMPORARY = frozenset({"temporarily_unavailable", "server_error", "slow_down"})


class McpTokenGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Token response (RFC 6749, 5.1); `expires_in` in seconds. The repr shows no token."""

    access_token: str
    token_type: str | None = None
    expires_in: float | None = None
    refresh_token: str | None = None
    scope: str | None = None

    def __repr__(self) -> str:
        return f"Grant(expires_in={self.expires_in!r})"


class _ErrorResponse(msgspec.Struct, frozen=True):
    """Error response (RFC 6749, 5.2)."""

    error: str = ""
    error_description: str = ""


def form_request(url: str, form: dict[str, str], authorization: str | None) -> httpx2.Request:
    """A POST request to a token endpoint."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if authorization is not None:
        headers["Authorization"] = authorization
    return httpx2.Request("POST", url, content=urlencode(form).encode("ascii"), headers=headers)


def refresh_request(token: StoredToken) -> httpx2.Request:
    """The refresh request of a token (RFC 6749, 6)."""
    form = {
        "grant_type": "refresh_token",
        "refresh_token": token.refresh_token,
        "client_id": token.client_id,
    }
    if token.resource != NO_RESOURCE:
        form["resource"] = token.resource or token.server_url.partition("#")[0]
    if token.scope:
        form["scope"] = token.scope
    if token.audience:
        form["audience"] = token.audience
    authorization = None
    if token.client_secret and token.auth_method == BASIC:
        from base64 import b64encode

        pair = f"{quote(token.client_id, safe='')}:{quote(token.client_secret, safe='')}"
        authorization = f"Basic {b64encode(pair.encode('ascii')).decode('ascii')}"
    elif token.client_secret:
        form["client_secret"] = token.client_secret
    return form_request(token.token_url, form, authorization)


def read_grant(status: int, body: bytes, url: str, secrets: tuple[str, ...]) -> McpTokenGrant:
    """Reads a token response. Raises RefusedError for a permanent refusal, another SignInError for
    a temporary or invalid answer. No message quotes any of `secrets`."""
    place = describe_origin(url)
    if status not in (200, 201):
        raise _refusal(status, body, place, secrets)
    try:
        # Not chained: the cause may quote a token.
        grant = msgspec.json.decode(body, type=McpTokenGrant, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        grant = None
    known = grant is not None and (grant.token_type or "bearer").lower() == "bearer"
    if grant is None or not known or not is_token(grant.access_token):
        raise SignInError(f"{place} gave something else than a token that can be sent")
    return msgspec.structs.replace(grant, expires_in=_life(grant.expires_in))


def _life(seconds: float | None) -> float | None:
    """The lifetime in seconds if plausible, else None."""
    if seconds is None or not seconds <= MAX_LIFE_S:  # also rejects NaN
        return None
    return max(seconds, 0.0)


def refusal_words(body: bytes, secrets: tuple[str, ...]) -> tuple[str, str]:
    """The error code of a refusal, "" for none, and its description with `secrets` redacted."""
    try:
        refusal = msgspec.json.decode(body, type=_ErrorResponse)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        refusal = _ErrorResponse()
    said = ": ".join(filter(None, (refusal.error, refusal.error_description)))
    for secret in secrets:
        if len(secret) >= 4:
            said = said.replace(secret, "[redacted]")
    return refusal.error, one_line(without_secrets(said), MAX_SAID)


def _refusal(status: int, body: bytes, place: str, secrets: tuple[str, ...]) -> SignInError:
    code, said = refusal_words(body, secrets)
    words = f"HTTP {status}" + (f", {said}" if said else "")
    if code and code not in _TEMPORARY and 400 <= status < 500 and status != 429:
        return RefusedGrantError(f"{place} gives no token ({words})", code=code)
    return SignInError(f"{place} gives no token for now ({words})")
