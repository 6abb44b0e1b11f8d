"""Application Default Credentials: files of Google's tools, user and service accounts, the metadata
server.

Searched in this order: the file named by GOOGLE_APPLICATION_CREDENTIALS, the one that `gcloud auth
application-default login` writes, and on Google's machines the metadata server.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from alhena.config.documents import NotReadableError, read_limited
from alhena.errors import NetworkError, ServerFaultError
from alhena.http import Timeouts
from alhena.http.addresses import Endpoint, parse_endpoint
from alhena.http.client import Response
from alhena.models.auth import LOGIN, SCOPE
from alhena.models.auth.tokens import (
    IDENTITY_S,
    AccessToken,
    Credentials,
    RenewedTokens,
    TokenSource,
    ask_grant,
    checked_token,
    fetch,
    quota_project,
    read_grant,
    token_endpoint,
)
from alhena.models.errors import CredentialsError
from alhena.version import __version__
from alhena.wire.json_values import as_object

_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_GCLOUD_FILE = "application_default_credentials.json"
_PRODUCT_NAME = Path("/sys/class/dmi/id/product_name")
_SERVERLESS = ("K_SERVICE", "CLOUD_RUN_JOB")


def default_credentials(
    environ: Mapping[str, str],
    *,
    metadata: bool = False,
    product: Callable[[], str] | None = None,
    audience: str = "",
) -> Credentials:
    """Finds the credentials of this machine. Sends nothing before the first token is requested.
    With an `audience`, a URL, the tokens are identity tokens for it.

    With `metadata` the metadata server is used when there is no file, otherwise only if `product`
    (the machine's product name) or the environment identifies a Google machine. Raises
    CredentialsError, which lists the places searched and never quotes a file.
    """
    named = environ.get(_VARIABLE, "").strip()
    if named:
        return _from_file(Path(named), environ, f"{_VARIABLE} ({named})", audience)
    path = gcloud_file(environ)
    if path is not None and path.exists():
        return _from_file(path, environ, str(path), audience)
    if metadata or _on_google(environ, product or _product_name):
        return Credentials(
            tokens=metadata_tokens(environ, audience=audience),
            source="the metadata server",
            remedy=_REMEDY,
            quota_project=quota_project(environ),
        )
    places = f"{_VARIABLE} is not set" + (f", there is no {path}" if path is not None else "")
    raise CredentialsError(
        f"no Google credentials: {places}, and this is none of Google's machines.",
        remedy=f"Run `{LOGIN}`, or let {_VARIABLE} name a service account's key file.",
    )


def gcloud_file(environ: Mapping[str, str]) -> Path | None:
    """Path of gcloud's application credentials; None without a home directory."""
    if given := environ.get("CLOUDSDK_CONFIG"):
        return Path(given) / _GCLOUD_FILE
    home = environ.get("HOME")
    return Path(home) / ".config" / "gcloud" / _GCLOUD_FILE if home else None


def _from_file(path: Path, environ: Mapping[str, str], source: str, audience: str) -> Credentials:
    info = _read(path, source)
    kind = info.get("type")
    if audience and kind not in {"authorized_user", "service_account"}:
        raise CredentialsError(
            f"the credentials of {source} give no identity tokens: their type is {str(kind)[:60]}.",
            remedy=f"Use a service account's key file, or `{LOGIN}`.",
        )
    if kind == "impersonated_service_account":
        from alhena.models.auth.federated import impersonated_tokens

        actor = _tokens(as_object(info.get("source_credentials")) or {}, environ, source)
        tokens: TokenSource = impersonated_tokens(info, actor, source, environ)
    else:
        tokens = _tokens(info, environ, source, audience)
    project = quota_project(environ, info.get("quota_project_id"))
    remedy = f"Check the credentials of {source}."
    return Credentials(tokens=tokens, source=source, remedy=remedy, quota_project=project)


def _tokens(
    info: Mapping[str, Any], environ: Mapping[str, str], source: str, audience: str = ""
) -> TokenSource:
    """The tokens of credentials that need no other credentials."""
    kind = info.get("type")
    if kind == "authorized_user":
        return user_tokens(info, environ, source, audience=audience)
    if kind == "service_account":
        return account_tokens(info, environ, source, audience=audience)
    if kind in {"external_account", "external_account_authorized_user"}:
        from alhena.models.auth.federated import federated_tokens

        return federated_tokens(info, environ, source)
    raise CredentialsError(
        f"the credentials of {source} are of a type that is not known: {str(kind)[:60]!r}.",
        remedy=f"Run `{LOGIN}`, or use a service account's key file.",
    )


def _read(path: Path, source: str) -> dict[str, Any]:
    remedy = f"Let it name a readable credentials file, or run `{LOGIN}`."
    try:
        data = read_limited(path)
    except (OSError, ValueError) as error:
        reason = str(error) if isinstance(error, NotReadableError) else _reason(error)
        raise CredentialsError(
            f"cannot read the credentials of {source}: {reason}.", remedy=remedy
        ) from error
    try:
        info = as_object(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        info = None  # not chained: the cause may quote a secret
    if info is None:
        raise CredentialsError(f"the credentials of {source} are no JSON object.", remedy=remedy)
    return info


def _reason(error: OSError | ValueError) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    return (strerror or "no usable path").lower()


def _on_google(environ: Mapping[str, str], product: Callable[[], str]) -> bool:
    if environ.get("GCE_METADATA_HOST") or any(environ.get(name) for name in _SERVERLESS):
        return True
    return product().startswith("Google")


def _product_name() -> str:
    try:
        return _PRODUCT_NAME.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


_ENDPOINT = "https://oauth2.googleapis.com/token"
_ASSERTION = "urn:ietf:params:oauth:grant-type:jwt-bearer"
LIFETIME = 3600
"""Lifetime in seconds requested by a service account's assertion."""


def user_tokens(
    info: Mapping[str, Any],
    environ: Mapping[str, str],
    source: str,
    *,
    audience: str = "",
    now: Callable[[], float] = time.time,
) -> RenewedTokens:
    """Tokens of a user who signed in through gcloud ("authorized_user"). Raises CredentialsError
    for missing fields, ConfigError for an invalid address."""
    form = {
        "grant_type": "refresh_token",
        "client_id": _field(info, "client_id", source),
        "client_secret": _field(info, "client_secret", source),
        "refresh_token": _field(info, "refresh_token", source),
    } | ({"target_audience": audience} if audience else {})
    endpoint = token_endpoint(_address(info), f"token_uri of {source}")

    async def renew() -> AccessToken:
        asked = await ask_grant(
            endpoint,
            form,
            environ=environ,
            remedy=f"Sign in again: {LOGIN}.",
            now=now,
            identity=bool(audience),
        )
        return asked.grant.access(asked.at)

    return RenewedTokens(renew, now=now)


def account_tokens(
    info: Mapping[str, Any],
    environ: Mapping[str, str],
    source: str,
    *,
    audience: str = "",
    now: Callable[[], float] = time.time,
) -> RenewedTokens:
    """Tokens of a service account from its key. Raises the same errors as `user_tokens`."""
    email, key = _field(info, "client_email", source), _field(info, "private_key", source)
    key_id = info.get("private_key_id")
    address = _address(info)
    endpoint = token_endpoint(address, f"token_uri of {source}")

    async def renew() -> AccessToken:
        issued = int(now())
        claims = {
            "iss": email,
            **({"target_audience": audience} if audience else {"scope": SCOPE}),
            "aud": address,
            "iat": issued,
            "exp": issued + LIFETIME,
        }
        # In a thread: loading the signing library takes a tenth of a second.
        assertion = await asyncio.to_thread(_sign_claims, claims, key, key_id, source)
        asked = await ask_grant(
            endpoint,
            {"grant_type": _ASSERTION, "assertion": assertion},
            environ=environ,
            remedy="Check that the service account and its key are still there.",
            now=now,
            identity=bool(audience),
        )
        return asked.grant.access(asked.at)

    return RenewedTokens(renew, now=now)


def _sign_claims(claims: Mapping[str, Any], key: str, key_id: object, source: str) -> str:
    crypt, jwt = import_module("google.auth.crypt"), import_module("google.auth.jwt")
    try:
        signer = crypt.RSASigner.from_string(key, key_id if isinstance(key_id, str) else None)
    except ValueError:
        # Not chained: the cause may quote the key.
        raise CredentialsError(
            f"the private_key of {source} is no RSA key.",
            remedy="Download the service account's key file again.",
        ) from None
    encoded: bytes = jwt.encode(signer, claims)
    return encoded.decode("ascii")


def _address(info: Mapping[str, Any]) -> str:
    given = info.get("token_uri")
    return given if isinstance(given, str) and given else _ENDPOINT


def _field(info: Mapping[str, Any], name: str, source: str) -> str:
    value = info.get(name)
    if not isinstance(value, str) or not value:
        raise CredentialsError(
            f"the credentials of {source} have no {name}.",
            remedy=f"Get them again, by `{LOGIN}` or as a service account's key file.",
        )
    return value


ADDRESS = "169.254.169.254"
"""A numeric address: a name could be spoofed by local DNS."""

LIMITS = Timeouts(connect=1.0, idle=5.0)
_PATH = "/computeMetadata/v1/instance/service-accounts/default"
_REMEDY = "Attach a service account with the scope cloud-platform to this machine."


def metadata_tokens(
    environ: Mapping[str, str],
    *,
    audience: str = "",
    now: Callable[[], float] = time.time,
    limits: Timeouts = LIMITS,
) -> RenewedTokens:
    """Tokens of the account attached to this machine; GCE_METADATA_HOST overrides the address.

    The server is contacted directly, never through a proxy. Raises ConfigError for an invalid
    address.
    """
    host = environ.get("GCE_METADATA_HOST", "").strip() or ADDRESS
    endpoint = parse_endpoint(f"http://{host}", "GCE_METADATA_HOST")
    headers = [
        ("host", endpoint.authority),
        ("user-agent", f"alhena/{__version__}"),
        ("metadata-flavor", "Google"),
        ("accept", "application/json"),
    ]

    answered = False
    wanted = f"/identity?audience={quote(audience, safe='')}&format=full" if audience else "/token"

    async def renew() -> AccessToken:
        nonlocal answered
        from alhena.http.client import Transport

        at = now()
        transport = Transport(endpoint, limits, {})
        try:
            response, body = await fetch(
                transport, "GET", endpoint.prefix + _PATH + wanted, headers
            )
        except NetworkError as error:
            if answered:
                raise
            raise CredentialsError(
                f"the metadata server gives no token: {error.message}",
                remedy=f"Run this on a machine of Google's. {_REMEDY}",
            ) from error
        _require_token(response, endpoint)
        if audience:
            identity = checked_token(body.decode("ascii", "replace"), endpoint.place)
            token = AccessToken(identity, at + IDENTITY_S)
        else:
            token = read_grant(body, endpoint).access(at)
        answered = True
        return token

    return RenewedTokens(renew, now=now)


def _require_token(response: Response, endpoint: Endpoint) -> None:
    """Raises CredentialsError or ServerFaultError when the metadata server gave no token."""
    if response.header("metadata-flavor").lower() != "google":
        raise CredentialsError(
            f"{endpoint.place} is no metadata server.", remedy="Check GCE_METADATA_HOST."
        )
    if response.status >= 500:
        raise ServerFaultError(
            f"the metadata server failed (HTTP {response.status}).", status=response.status
        )
    if response.status != 200:
        raise CredentialsError(
            f"the metadata server gives no token (HTTP {response.status}).",
            remedy=_REMEDY,
            status=response.status,
        )
