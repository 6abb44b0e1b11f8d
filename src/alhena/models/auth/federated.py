"""Tokens for identities of other providers (workload identity federation), by google-auth.

google-auth knows the protocols; its requests go over the transports of this package, so that
proxies and certificates hold for them as well. It waits in a thread, and loads when the first token
is wanted. Where a provider says who this is by the environment, the process's own counts.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from alhena.errors import ServerFaultError
from alhena.http.client import open_transport
from alhena.http.endpoint import parse_endpoint
from alhena.models.auth.adc import LOGIN, SCOPE
from alhena.models.auth.grant import TIMEOUTS, fetch
from alhena.models.auth.tokens import AccessToken, RenewedTokens, checked_token
from alhena.models.errors import CredentialsError
from alhena.models.status import Asked
from alhena.wire.plain import as_object

_AWS = "urn:ietf:params:aws:token-type:aws4_request"
_FRAMING = frozenset({"host", "content-length", "transfer-encoding", "connection"})


class Answer(msgspec.Struct, frozen=True):
    """A response as google-auth reads it."""

    status: int
    headers: dict[str, str]
    data: bytes


class Bridge:
    """Sends what google-auth asks for in its thread over the event loop `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, environ: Mapping[str, str]) -> None:
        self._loop = loop
        self._environ = environ
        self._asked: Future[Answer] | None = None
        self._stopped = False
        self.secrets: set[str] = set()
        """What was sent and must not show in any message: form fields, tokens in headers."""

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        **_others: object,
    ) -> Answer:
        """The whole answer. Raises NetworkError, ConfigError for an address that is none, and
        CancelledError once `stop` was called."""
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
        """Ends what is under way, so that no thread waits for an answer that nobody wants."""
        self._stopped = True
        if self._asked is not None:
            self._asked.cancel()

    async def _send(self, url: str, method: str, headers: dict[str, str], body: bytes) -> Answer:
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
        return Answer(response.status, {"content-type": response.header("content-type")}, received)


def federated_tokens(
    info: Mapping[str, Any],
    environ: Mapping[str, str],
    source: str,
    *,
    now: Callable[[], float] = time.time,
) -> RenewedTokens:
    """Tokens for the credentials of a file of one of google-auth's further types."""

    async def renew() -> AccessToken:
        bridge = Bridge(asyncio.get_running_loop(), environ)
        try:
            return await asyncio.to_thread(_refreshed, dict(info), bridge, source)
        finally:
            bridge.stop()

    return RenewedTokens(renew, now=now)


def _refreshed(info: dict[str, Any], bridge: Bridge, source: str) -> AccessToken:
    google_error: type[Exception] = import_module("google.auth.exceptions").GoogleAuthError
    try:
        credentials = _credentials(info)
        credentials.refresh(bridge)
    except (google_error, ValueError, TypeError, LookupError, AttributeError) as error:
        # google-auth takes the fields of the file as they are, whatever their types. Not chained:
        # what it quotes is the server's, and may hold anything.
        said = str(error.args[0]) if error.args else type(error).__name__
        said = Asked("", source, filter(_is_long, bridge.secrets)).clean(said, 200)
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
    """google-auth's credentials, which it makes of the file. Raises what it raises."""
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
