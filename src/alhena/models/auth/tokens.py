"""Access tokens: asked for at a token endpoint, held, renewed once for all who wait, shown with
requests.

A source is asked before each request. After a 401 the request asks again with `fresh`, but only
when the source still gives the token that was refused: another request may have renewed it since.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from urllib.parse import quote_plus, urlencode

import msgspec

from alhena.config.errors import ConfigError
from alhena.errors import ModelError, NetworkError, ServerFaultError, StreamCutError
from alhena.http.client import BodyReader, Response, Timeouts, Transport, open_transport
from alhena.http.endpoint import Endpoint, is_header_value, is_loopback, parse_endpoint
from alhena.http.exchange import Headers
from alhena.models.errors import CredentialsError
from alhena.version import __version__
from alhena.wire.plain import excerpt, is_token

EARLY = 225.0
"""Seconds before its expiry from which a token is renewed. Metadata servers hand out the same token
until four minutes before its end, so an earlier try would get nothing new."""


class AccessToken(msgspec.Struct, frozen=True):
    """A bearer token; `expires_at` in seconds since the epoch, None when nobody said. The value
    does not show in the repr."""

    value: str
    expires_at: float | None = None

    def __repr__(self) -> str:
        return f"AccessToken(expires_at={self.expires_at!r})"

    def holds_for(self, seconds: float, now: float) -> bool:
        """True when the token is still good so many seconds after `now`."""
        return self.expires_at is None or now + seconds < self.expires_at


class TokenSource(Protocol):
    """Where a request gets its bearer token."""

    async def token(self, *, fresh: bool = False) -> str:
        """The token to send now; `fresh`: one that differs from what was given out before, if there
        can be one. Raises CredentialsError, NetworkError, ServerFaultError."""
        ...


async def other_token(source: TokenSource, refused: str) -> str | None:
    """A token that was not refused yet, None when there is none. One that was renewed for somebody
    else meanwhile is taken as it is."""
    for fresh in (False, True):
        token = await source.token(fresh=fresh)
        if token != refused:
            return token
    return None


class FixedToken:
    """A token that was given and cannot be renewed."""

    def __init__(self, value: str) -> None:
        self._value = value

    async def token(self, *, fresh: bool = False) -> str:
        """The token, whatever is asked for."""
        del fresh
        return self._value


class RenewedTokens:
    """Keeps a token and has it renewed shortly before it expires, or when a fresh one is wanted.

    However many requests ask, `renew` runs once for all of them; when it fails, the next one that
    waits tries again. A token that still holds goes on being used when the service that renews it
    is out of reach.
    """

    def __init__(
        self,
        renew: Callable[[], Awaitable[AccessToken]],
        *,
        current: AccessToken | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._renew = renew
        self._current = current
        self._now = now
        self._renewals = 0
        self._gate = LoopLock()

    async def token(self, *, fresh: bool = False) -> str:
        """The token that holds, a renewed one where need be. Raises what `renew` raises."""
        seen = self._renewals
        if not fresh and (kept := self._kept(EARLY)) is not None:
            return kept
        async with self._gate.here():
            if seen != self._renewals and (kept := self._kept(0)) is not None:
                return kept  # renewed while this one waited
            if not fresh and (kept := self._kept(EARLY)) is not None:
                return kept
            return await self._renewed(fresh=fresh)

    async def _renewed(self, *, fresh: bool) -> str:
        try:
            token = await self._renew()
        except (NetworkError, ServerFaultError, StreamCutError):
            kept = self._kept(0)
            if fresh or kept is None:
                raise
            return kept
        self._current = token
        self._renewals += 1
        return token.value

    def _kept(self, seconds: float) -> str | None:
        """The token at hand if it holds for that long."""
        token = self._current
        if token is None or not token.holds_for(seconds, self._now()):
            return None
        return token.value


def checked_token(text: str, source: str) -> str:
    """`text` as a bearer token, without the blanks around it.

    Raises CredentialsError, which names `source` and does not quote the token, when no header can
    carry it.
    """
    value = text.strip()
    if not is_token(value):
        raise CredentialsError(
            f"{source} holds no access token: it is empty, or has blanks, line breaks or "
            "characters that no token has.",
            remedy="Get a new token and set it again.",
        )
    return value


class LoopLock:
    """Gives each event loop a lock of its own, for one of another loop cannot be waited for."""

    def __init__(self) -> None:
        self._last: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def here(self) -> asyncio.Lock:
        """The lock of the running event loop."""
        loop = asyncio.get_running_loop()
        if self._last is None or self._last[0] is not loop:
            self._last = (loop, asyncio.Lock())
        return self._last[1]


MAX_BODY_BYTES = 256 * 1024
TIMEOUTS = Timeouts(connect=10.0, idle=30.0)
_LONGEST = 1e9


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What a token endpoint gives out; `expires_in` in seconds, a time of decades being as good as
    none. No token shows in the repr."""

    access_token: str
    expires_in: float | None = None
    refresh_token: str | None = None
    id_token: str | None = None
    scope: str | None = None
    token_type: str | None = None

    def __post_init__(self) -> None:
        if self.expires_in is not None and not self.expires_in <= _LONGEST:
            msgspec.structs.force_setattr(self, "expires_in", None)

    def __repr__(self) -> str:
        return f"Grant(expires_in={self.expires_in!r}, scope={self.scope!r})"

    def access(self, now: float) -> AccessToken:
        """The access token of a grant that was asked for at `now`, in seconds since the epoch."""
        expires_at = None if self.expires_in is None else now + self.expires_in
        return AccessToken(self.access_token, expires_at)


class GrantRefusedError(CredentialsError):
    """The server gives no token. `code` is OAuth's word for the reason: "invalid_grant" means that
    the refresh token, the code or the assertion holds no more."""

    def __init__(self, message: str, *, code: str, remedy: str, status: int) -> None:
        super().__init__(message, remedy=remedy, status=status)
        self.code = code


class _Refusal(msgspec.Struct, frozen=True):
    """RFC 6749, 5.2."""

    error: str = ""
    error_description: str = ""


class Timed(msgspec.Struct, frozen=True):
    """A grant and when it was asked for, in seconds since the epoch."""

    grant: Grant
    at: float


def token_endpoint(url: str, source: str) -> Endpoint:
    """The endpoint of a URL that secrets are sent to. Raises ConfigError, which names `source`,
    for what is no URL, and where they would go unencrypted to another machine."""
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
) -> Timed:
    """Posts `form` to the token endpoint, whose whole path is the endpoint's prefix.

    `environ` is read for proxies and certificates; `remedy` is what to do when the server refuses.
    Raises GrantRefusedError, ServerFaultError, NetworkError; no message quotes a value of the form.
    """
    at = now()
    status, body = await _post(endpoint, form, environ)
    if 200 <= status < 300:
        return Timed(read_grant(body, endpoint), at)
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
    """One response and its body, with `transport` closed behind it. A body that is too long for
    what is asked for here is cut off. Raises NetworkError, StreamCutError."""
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


def read_grant(body: bytes, endpoint: Endpoint) -> Grant:
    """The grant in the answer of `endpoint`. Raises ServerFaultError when it holds none."""
    try:
        grant = msgspec.json.decode(body, type=Grant, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # Not chained: the cause may quote a token.
        raise ServerFaultError(
            f"{endpoint.place} answered a request for a token with something else.",
            remedy=f"Check {endpoint.source}.",
        ) from None
    if not is_token(grant.access_token):
        raise ServerFaultError(f"{endpoint.place} gave an access token that cannot be sent.")
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
        # No QuotaError: that is about models, of which another may be taken.
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
    """The project that is charged: GOOGLE_CLOUD_QUOTA_PROJECT, else `default` if it is one, else
    "". Raises ConfigError when no header can carry the variable."""
    given = environ.get("GOOGLE_CLOUD_QUOTA_PROJECT", "").strip()
    if not is_header_value(given):
        raise ConfigError(
            "GOOGLE_CLOUD_QUOTA_PROJECT is no project.", remedy="Set it to a project's id."
        )
    if given or not isinstance(default, str) or not is_header_value(default):
        return given
    return default


class BearerAccess:
    """The token of a source, and the project that is charged when that is another than the token's
    own (`x-goog-user-project`). `remedy` is what messages advise when the service refuses it."""

    def __init__(self, tokens: TokenSource, *, remedy: str, quota_project: str = "") -> None:
        self._tokens = tokens
        self._remedy = remedy
        self._quota_project = quota_project

    @property
    def remedy(self) -> str:
        """What to do when the token is refused."""
        return self._remedy

    async def headers(self) -> dict[str, str]:
        """The headers of the next request. Raises what the source raises."""
        return self._shown(await self._tokens.token())

    async def renewed(self, refused: Mapping[str, str]) -> dict[str, str] | None:
        """The headers with a token that was not refused yet, None when there is none."""
        old = refused.get("authorization", "").removeprefix(_SCHEME)
        token = await other_token(self._tokens, old)
        return None if token is None else self._shown(token)

    def _shown(self, token: str) -> dict[str, str]:
        shown = {"authorization": f"{_SCHEME}{token}"}
        if self._quota_project:
            shown["x-goog-user-project"] = self._quota_project
        return shown
