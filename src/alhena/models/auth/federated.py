"""Tokens for identities of other providers, and for service accounts they may impersonate.

google-auth implements the protocols; its requests use this package's transports, so that proxies
and certificates apply. It runs in a thread and is loaded for the first token. Providers that
identify the caller by environment variables read the process's own.
"""

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from alhena.errors import ServerFaultError
from alhena.http.addresses import Endpoint, parse_endpoint
from alhena.http.client import open_transport
from alhena.models.auth import LOGIN, SCOPE
from alhena.models.auth.tokens import (
    TIMEOUTS,
    AccessToken,
    BearerAccess,
    RenewedTokens,
    TokenSource,
    checked_token,
    fetch,
    token_endpoint,
)
from alhena.models.errors import CredentialsError, ModelNotFoundError, QuotaError, RequestDetails
from alhena.models.service import HttpService
from alhena.wire.json_values import as_array, as_object, is_token

_AWS = "urn:ietf:params:aws:token-type:aws4_request"
_FRAMING = frozenset({"host", "content-length", "transfer-encoding", "connection"})


class TransportResponse(msgspec.Struct, frozen=True):
    """A response in google-auth's form."""

    status: int
    headers: dict[str, str]
    data: bytes


class Bridge:
    """Sends google-auth's requests from its thread through the event loop `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, environ: Mapping[str, str]) -> None:
        self._loop = loop
        self._environ = environ
        self._asked: Future[TransportResponse] | None = None
        self._stopped = False
        self.secrets: set[str] = set()
        """Sent secrets to redact from messages: form fields, tokens in headers."""

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        **_others: object,
    ) -> TransportResponse:
        """Returns the whole answer. Raises NetworkError, ConfigError for an invalid address, and
        CancelledError after `stop`."""
        data = body.encode("utf-8") if isinstance(body, str) else body or b""
        given = dict(headers or {})
        self.secrets |= {value.split()[-1] for value in given.values() if value.strip()}
        self.secrets |= {value for _, value in parse_qsl(data.decode("utf-8", "replace"))}
        asked = asyncio.run_coroutine_threadsafe(self._send(url, method, given, data), self._loop)
        self._asked = asked
        if self._stopped:
            asked.cancel()
        return asked.result()

    def stop(self) -> None:
        """Cancels running requests, so that no thread waits for an unwanted answer."""
        self._stopped = True
        if self._asked is not None:
            self._asked.cancel()

    async def _send(
        self, url: str, method: str, headers: dict[str, str], body: bytes
    ) -> TransportResponse:
        parts = urlsplit(url)
        endpoint = parse_endpoint(
            f"{parts.scheme}://{parts.netloc}{parts.path}", "the credentials file"
        )
        end = "/" if parts.path.endswith("/") or not endpoint.prefix else ""
        target = endpoint.prefix + end + (f"?{parts.query}" if parts.query else "")
        sent = [("host", endpoint.authority)]
        sent += [
            (key.lower(), value) for key, value in headers.items() if key.lower() not in _FRAMING
        ]
        transport = open_transport(endpoint, self._environ, TIMEOUTS)
        response, received = await fetch(transport, method, target, sent, body)
        return TransportResponse(
            response.status, {"content-type": response.header("content-type")}, received
        )


def federated_tokens(
    info: Mapping[str, Any],
    environ: Mapping[str, str],
    source: str,
) -> RenewedTokens:
    """Tokens for a credentials file of one of google-auth's other types."""

    async def renew() -> AccessToken:
        bridge = Bridge(asyncio.get_running_loop(), environ)
        try:
            return await asyncio.to_thread(_refresh_credentials, dict(info), bridge, source)
        finally:
            bridge.stop()

    return RenewedTokens(renew)


def _refresh_credentials(info: dict[str, Any], bridge: Bridge, source: str) -> AccessToken:
    google_error: type[Exception] = import_module("google.auth.exceptions").GoogleAuthError
    try:
        credentials = _credentials(info)
        credentials.refresh(bridge)
    except (google_error, ValueError, TypeError, LookupError, AttributeError) as error:
        # google-auth does not check field types of the file. Not chained: the
        # message quotes the server and may contain anything.
        said = str(error.args[0]) if error.args else type(error).__name__
        said = RequestDetails("", source, filter(_is_long, bridge.secrets)).clean(said, 200)
        if getattr(error, "retryable", False):
            raise ServerFaultError(f"no token for {source}: {said}", remedy="Run again.") from None
        raise CredentialsError(
            f"no token for {source}: {said}",
            remedy=f"Check that file, or run `{LOGIN}`.",
        ) from None
    expiry: datetime | None = credentials.expiry
    return AccessToken(
        checked_token(credentials.token or "", source),
        None if expiry is None else expiry.replace(tzinfo=UTC).timestamp(),
    )


def _is_long(text: str) -> bool:
    return len(text) >= 8


def _credentials(info: dict[str, Any]) -> Any:
    """Builds google-auth's credentials from the file. Raises its errors."""
    kind = info.get("type")
    if kind == "external_account_authorized_user":
        module = import_module("google.auth.external_account_authorized_user")
        return module.Credentials.from_info({**info, "scopes": [SCOPE]})
    place = as_object(info.get("credential_source")) or {}
    if info.get("subject_token_type") == _AWS:
        name = "google.auth.aws"
    elif "executable" in place:
        name = "google.auth.pluggable"
    else:
        name = "google.auth.identity_pool"
    return import_module(name).Credentials.from_info(info, scopes=[SCOPE])


SERVICE = "https://iamcredentials.googleapis.com"
LIFETIME_S = 3600.0


class _Issued(msgspec.Struct, frozen=True, rename="camel"):
    """The answers of the IAM service: an identity token, or an access token and its end."""

    token: str = ""
    access_token: str = ""
    expire_time: str = ""


async def _request_token(
    endpoint: Endpoint, path: str, body: object, actor: TokenSource, environ: Mapping[str, str]
) -> AccessToken:
    """Asks the IAM service for a token as `actor`. Raises ModelError; no message quotes a token."""
    place, asked_at = endpoint.place, time.time()

    def read(answer: bytes) -> AccessToken:
        try:
            issued = msgspec.json.decode(answer, type=_Issued)
            end = issued.expire_time
            until = datetime.fromisoformat(end).timestamp() if end else asked_at + LIFETIME_S
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError):
            issued, until = _Issued(), 0.0  # not chained: the cause may quote a token
        value = issued.token or issued.access_token
        if not is_token(value):
            raise ServerFaultError(f"{place} answered a request for a token with something else.")
        return AccessToken(value, until)

    remedy = "Check that your credentials may create tokens for the service account."
    access = BearerAccess(actor, remedy=remedy)
    service = HttpService(endpoint, access, environ=environ, timeouts=TIMEOUTS)
    try:
        return await service.ask(path, "", msgspec.json.encode(body), read)
    except (QuotaError, ModelNotFoundError) as error:  # whose messages concern models
        kind = ServerFaultError if isinstance(error, QuotaError) else CredentialsError
        message = f"{place} gives no token for the service account (HTTP {error.status})."
        raise kind(message, remedy=remedy, status=error.status) from error
    finally:
        await service.aclose()


def identity_tokens(
    actor: TokenSource,
    account: str,
    audience: str,
    environ: Mapping[str, str],
    *,
    service: str = SERVICE,
) -> RenewedTokens:
    """Tokens that identify `account` to `audience`, requested by `actor`. Raises ConfigError for an
    invalid address of the service."""
    endpoint = token_endpoint(service, "address of the IAM service")
    path = f"/v1/projects/-/serviceAccounts/{quote(account, safe='@')}:generateIdToken"
    body = {"audience": audience, "includeEmail": True}
    return RenewedTokens(lambda: _request_token(endpoint, path, body, actor, environ))


def impersonated_tokens(
    info: Mapping[str, Any], actor: TokenSource, source: str, environ: Mapping[str, str]
) -> RenewedTokens:
    """Tokens of the account in `service_account_impersonation_url`, requested by `actor`. Raises
    CredentialsError or ConfigError when the file does not name the account."""
    url = info.get("service_account_impersonation_url")
    if not isinstance(url, str) or not url:
        raise CredentialsError(
            f"the credentials of {source} have no service_account_impersonation_url.",
            remedy=f"Get them again: {LOGIN}.",
        )
    endpoint = token_endpoint(url, f"service_account_impersonation_url of {source}")
    delegates = [one for one in as_array(info.get("delegates")) or () if isinstance(one, str)]
    body = {"delegates": delegates, "scope": [SCOPE], "lifetime": f"{LIFETIME_S:g}s"}
    return RenewedTokens(lambda: _request_token(endpoint, "", body, actor, environ))
