"""Access tokens: requested from a token endpoint, cached, renewed once for all waiting requests,
and added to requests.

Each request asks the source first. After a 401 it asks with `fresh`, but only if the source still
returns the rejected token: another request may have renewed it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from urllib.parse import quote_plus, urlencode
from weakref import WeakKeyDictionary

import msgspec

from alhena.errors import ConfigError, ModelError, NetworkError, ServerFaultError, StreamCutError
from alhena.http import Timeouts
from alhena.http.addresses import Endpoint, is_header_value, is_loopback, parse_endpoint
from alhena.http.client import BodyReader, Response, Transport, open_transport
from alhena.http.exchange import Headers
from alhena.models.errors import CredentialsError
from alhena.version import __version__
from alhena.wire.json_values import excerpt, is_token

EARLY = 225.0
"""Seconds before expiry at which a token is renewed. Metadata servers return the same token until
four minutes before its end, so an earlier attempt would be useless."""


class AccessToken(msgspec.Struct, frozen=True):
    """A bearer token; `expires_at` in seconds since the epoch, None if unknown. The repr does not
    show the value."""

    value: str
    expires_at: float | None = None

    def __repr__(self) -> str:
        return f"AccessToken(expires_at={self.expires_at!r})"

    def holds_for(self, seconds: float, now: float) -> bool:
        """True when the token is still valid `seconds` after `now`."""
        return self.expires_at is None or now + seconds < self.expires_at


class TokenSource(Protocol):
    """A source of bearer tokens for requests."""

    async def token(self, *, fresh: bool = False) -> str:
        """Returns a token; `fresh`: one that differs from the previous one, if possible. Raises
        CredentialsError, NetworkError, ServerFaultError."""
        ...


async def other_token(source: TokenSource, refused: str) -> str | None:
    """A token other than the rejected one, None when there is none. Uses one renewed meanwhile by
    another request."""
    for fresh in (False, True):
        token = await source.token(fresh=fresh)
        if token != refused:
            return token
    return None


class FixedToken:
    """A given token that cannot be renewed."""

    def __init__(self, value: str) -> None:
        self._value = value

    async def token(self, *, fresh: bool = False) -> str:
        """Returns the token in any case."""
        del fresh
        return self._value


class RenewedTokens:
    """Caches a token and renews it shortly before expiry, or when a fresh one is requested.

    `renew` runs once for all waiting requests; when it fails, the next waiting one tries again. A
    valid token stays in use while the renewing service is unreachable.
    """

    def __init__(
        self,
        renew: Callable[[], Awaitable[AccessToken]],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._renew = renew
        self._current: AccessToken | None = None
        self._now = now
        self._renewals = 0
        self._gate = LoopLock()

    async def token(self, *, fresh: bool = False) -> str:
        """A valid token, renewed if needed. Raises the errors of `renew`."""
        seen = self._renewals
        if not fresh and (kept := self._cached_token(EARLY)) is not None:
            return kept
        async with self._gate.here():
            if seen != self._renewals and (kept := self._cached_token(0)) is not None:
                return kept  # renewed while this request waited
            if not fresh and (kept := self._cached_token(EARLY)) is not None:
                return kept
            return await self._renew_token(fresh=fresh)

    async def _renew_token(self, *, fresh: bool) -> str:
        try:
            token = await self._renew()
        except (NetworkError, ServerFaultError, StreamCutError):
            kept = self._cached_token(0)
            if fresh or kept is None:
                raise
            return kept
        self._current = token
        self._renewals += 1
        return token.value

    def _cached_token(self, seconds: float) -> str | None:
        """The cached token if it is valid for that long."""
        token = self._current
        if token is None or not token.holds_for(seconds, self._now()):
            return None
        return token.value


def checked_token(text: str, source: str) -> str:
    """`text` as a bearer token, stripped.

    Raises CredentialsError, which names `source` and does not quote the token, when it does not fit
    in a header.
    """
    value = text.strip()
    if not is_token(value):
        raise CredentialsError(
            f"{source} contains no access token: it is empty, or has blanks, line breaks or "
            "characters that no token has.",
            remedy="Get a new token and set it again.",
        )
    return value


class LoopLock:
    """A separate lock for each event loop: a lock cannot be shared between loops."""

    def __init__(self) -> None:
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._locks = WeakKeyDictionary()

    def here(self) -> asyncio.Lock:
        """The lock of the running event loop."""
        return self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


MAX_BODY_BYTES = 256 * 1024
TIMEOUTS = Timeouts(connect=10.0, idle=30.0)
_LONGEST = 1e9
IDENTITY_S = 3600.0
"""Seconds that Google's identity tokens are valid."""


class TokenGrant(msgspec.Struct, frozen=True, kw_only=True):
    """An answer of a token endpoint; `expires_in` in seconds, ignored if it is decades. The repr
    shows no token."""

    access_token: str = ""
    expires_in: float | None = None
    refresh_token: str | None = None
    id_token: str | None = None
    scope: str | None = None
    token_type: str | None = None

    def __post_init__(self) -> None:
        if self.expires_in is not None and not self.expires_in <= _LONGEST:
            msgspec.structs.force_setattr(self, "expires_in", None)

    def __repr__(self) -> str:
        return f"TokenGrant(expires_in={self.expires_in!r}, scope={self.scope!r})"

    def access(self, now: float) -> AccessToken:
        """The access token of a grant requested at `now`, in seconds since the epoch."""
        expires_at = None if self.expires_in is None else now + self.expires_in
        return AccessToken(self.access_token, expires_at)


class GrantRefusedError(CredentialsError):
    """The server refuses a token. `code` is the OAuth error code: "invalid_grant" means that the
    refresh token, the code or the assertion is no longer valid."""

    def __init__(self, message: str, *, code: str, remedy: str, status: int) -> None:
        super().__init__(message, remedy=remedy, status=status)
        self.code = code


class _Refusal(msgspec.Struct, frozen=True):
    """Error response (RFC 6749, 5.2)."""

    error: str = ""
    error_description: str = ""


class TimedGrant(msgspec.Struct, frozen=True):
    """A grant and the time of its request, in seconds since the epoch."""

    grant: TokenGrant
    at: float


def token_endpoint(url: str, source: str) -> Endpoint:
    """Parses the URL of a token endpoint. Raises ConfigError, which names `source`, for an invalid
    URL, and for one that would send secrets unencrypted to another machine."""
    endpoint = parse_endpoint(url, source)
    if not endpoint.secure and not is_loopback(endpoint.host):
        raise ConfigError(
            f"the {source} is {endpoint.place}, where secrets would go unencrypted.",
            remedy="Use an address that begins with https://.",
        )
    return endpoint


async def ask_grant(
    endpoint: Endpoint,
    form: Mapping[str, str],
    *,
    environ: Mapping[str, str],
    remedy: str,
    now: Callable[[], float] = time.time,
    identity: bool = False,
) -> TimedGrant:
    """Posts `form` to the token endpoint, whose whole path is the endpoint's prefix. With
    `identity` the token of the grant is the identity token.

    `environ` supplies proxies and certificates; `remedy` is the advice after a refusal. Raises
    GrantRefusedError, ServerFaultError, NetworkError; no message quotes a value of the form.
    """
    at = now()
    status, body = await _post(endpoint, form, environ)
    if 200 <= status < 300:
        return TimedGrant(read_grant(body, endpoint, identity=identity), at)
    raise _failure(status, body, endpoint, form, remedy)


async def _post(
    endpoint: Endpoint, form: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[int, bytes]:
    headers = [
        ("host", endpoint.authority),
        ("user-agent", f"alhena/{__version__}"),
        ("content-type", "application/x-www-form-urlencoded"),
        ("accept", "application/json"),
    ]
    body = urlencode(form).encode("ascii")
    transport = open_transport(endpoint, environ, TIMEOUTS)
    response, received = await fetch(transport, "POST", endpoint.prefix or "/", headers, body)
    return response.status, received


async def fetch(
    transport: Transport, method: str, path: str, headers: Headers, body: bytes = b""
) -> tuple[Response, bytes]:
    """Returns one response with its body and closes `transport`. Truncates a body that is too long.
    Raises NetworkError, StreamCutError."""
    try:
        response = await transport.send(method, path, headers, body)
        try:
            reader, received = BodyReader(response), b""
            while len(received) <= MAX_BODY_BYTES and (piece := await reader.read()):
                received += piece
        finally:
            await response.aclose()
    finally:
        await transport.aclose()
    return response, received


def read_grant(body: bytes, endpoint: Endpoint, *, identity: bool = False) -> TokenGrant:
    """Parses the grant in the answer of `endpoint`. Raises ServerFaultError for an invalid one."""
    try:
        grant = msgspec.json.decode(body, type=TokenGrant, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        grant = TokenGrant()  # not chained: the cause may quote a token
    if identity:
        grant = TokenGrant(access_token=grant.id_token or "", expires_in=IDENTITY_S)
    if not is_token(grant.access_token):
        raise ServerFaultError(
            f"{endpoint.place} answered a request for a token with something else.",
            remedy=f"Check {endpoint.source}.",
        )
    return grant


def _failure(
    status: int, body: bytes, endpoint: Endpoint, form: Mapping[str, str], remedy: str
) -> ModelError:
    try:
        refusal = msgspec.json.decode(body, type=_Refusal)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        refusal = _Refusal()
    said = ": ".join(text for text in (refusal.error, refusal.error_description) if text)
    for value in form.values():
        if len(value) >= 8:
            said = said.replace(value, "[redacted]").replace(quote_plus(value), "[redacted]")
    said = f"HTTP {status}" + (f": {excerpt(said, 300)}" if said else "")
    if status == 429 or status >= 500:
        # Not a QuotaError: those concern models, and lead to another model.
        return ServerFaultError(
            f"{endpoint.place} gives no token for now ({said}).", remedy="Run again.", status=status
        )
    return GrantRefusedError(
        f"{endpoint.place} refused to give a token ({said}).",
        code=refusal.error,
        remedy=remedy,
        status=status,
    )


_SCHEME = "Bearer "


def quota_project(environ: Mapping[str, str], default: object = None) -> str:
    """The quota project: GOOGLE_CLOUD_QUOTA_PROJECT, else `default` if valid, else "". Raises
    ConfigError for a value that does not fit in a header."""
    given = environ.get("GOOGLE_CLOUD_QUOTA_PROJECT", "").strip()
    if not is_header_value(given):
        raise ConfigError(
            "GOOGLE_CLOUD_QUOTA_PROJECT is no project.", remedy="Set it to a project's id."
        )
    if given or not isinstance(default, str) or not is_header_value(default):
        return given
    return default


class BearerAccess:
    """Adds the token of a source, and the quota project if it differs from the token's own
    (`x-goog-user-project`). `remedy` is the advice after a refusal."""

    def __init__(self, tokens: TokenSource, *, remedy: str, quota_project: str = "") -> None:
        self._tokens = tokens
        self._remedy = remedy
        self._quota_project = quota_project

    @property
    def remedy(self) -> str:
        """The advice when the token is rejected."""
        return self._remedy

    async def headers(self) -> dict[str, str]:
        """The headers of the next request. Raises the errors of the source."""
        return self._auth_headers(await self._tokens.token())

    async def renew_headers(self, refused: Mapping[str, str]) -> dict[str, str] | None:
        """Headers with a token other than the rejected one, None when there is none."""
        old = refused.get("authorization", "").removeprefix(_SCHEME)
        token = await other_token(self._tokens, old)
        return None if token is None else self._auth_headers(token)

    def _auth_headers(self, token: str) -> dict[str, str]:
        shown = {"authorization": f"{_SCHEME}{token}"}
        if self._quota_project:
            shown["x-goog-user-project"] = self._quota_project
        return shown


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens, their origin in words, the advice after a refusal, and the quota project if it
    differs from their own."""

    tokens: TokenSource
    source: str
    remedy: str = ""
    quota_project: str = ""

    def __repr__(self) -> str:
        return f"Credentials(source={self.source!r}, quota_project={self.quota_project!r})"

    def access(self) -> BearerAccess:
        """The authentication of requests."""
        return BearerAccess(self.tokens, remedy=self.remedy, quota_project=self.quota_project)
