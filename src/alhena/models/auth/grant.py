"""The token endpoint of an OAuth server: a form goes out, an access token comes back."""

import time
from collections.abc import Callable, Mapping
from urllib.parse import quote_plus, urlencode

import msgspec

from alhena.config.errors import ConfigError
from alhena.errors import ModelError, ServerFaultError
from alhena.http.client import BodyReader, Response, Timeouts, Transport, open_transport
from alhena.http.endpoint import Endpoint, is_loopback, parse_endpoint
from alhena.http.exchange import Headers
from alhena.models.auth.tokens import AccessToken
from alhena.models.errors import CredentialsError
from alhena.version import __version__
from alhena.wire.text import excerpt, is_token

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
