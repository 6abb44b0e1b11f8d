"""Tokens for the credentials of a user or of a service account, from Google's token endpoint."""

import asyncio
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from alhena.models.auth.adc import LOGIN, SCOPE
from alhena.models.auth.grant import ask_grant, token_endpoint
from alhena.models.auth.tokens import AccessToken, RenewedTokens
from alhena.models.errors import CredentialsError

_ENDPOINT = "https://oauth2.googleapis.com/token"
_ASSERTION = "urn:ietf:params:oauth:grant-type:jwt-bearer"
LIFETIME = 3600
"""Seconds for which a service account's assertion asks."""


def user_tokens(
    info: Mapping[str, Any],
    environ: Mapping[str, str],
    source: str,
    *,
    now: Callable[[], float] = time.time,
) -> RenewedTokens:
    """Tokens of a user who signed in by gcloud ("authorized_user"). Raises CredentialsError for
    fields that are missing, ConfigError for an address that cannot be used."""
    form = {
        "grant_type": "refresh_token",
        "client_id": _field(info, "client_id", source),
        "client_secret": _field(info, "client_secret", source),
        "refresh_token": _field(info, "refresh_token", source),
    }
    endpoint = token_endpoint(_address(info), f"token_uri of {source}")

    async def renew() -> AccessToken:
        asked = await ask_grant(
            endpoint, form, environ=environ, remedy=f"Sign in again: {LOGIN}.", now=now
        )
        return asked.grant.access(asked.at)

    return RenewedTokens(renew, now=now)


def account_tokens(
    info: Mapping[str, Any],
    environ: Mapping[str, str],
    source: str,
    *,
    now: Callable[[], float] = time.time,
) -> RenewedTokens:
    """Tokens of a service account, by its key. Raises as `user_tokens` does."""
    email, key = _field(info, "client_email", source), _field(info, "private_key", source)
    key_id = info.get("private_key_id")
    address = _address(info)
    endpoint = token_endpoint(address, f"token_uri of {source}")

    async def renew() -> AccessToken:
        issued = int(now())
        claims = {
            "iss": email,
            "scope": SCOPE,
            "aud": address,
            "iat": issued,
            "exp": issued + LIFETIME,
        }
        # In a thread: what signs takes a tenth of a second to load.
        assertion = await asyncio.to_thread(_signed, claims, key, key_id, source)
        asked = await ask_grant(
            endpoint,
            {"grant_type": _ASSERTION, "assertion": assertion},
            environ=environ,
            remedy="Check that the service account and its key are still there.",
            now=now,
        )
        return asked.grant.access(asked.at)

    return RenewedTokens(renew, now=now)


def _signed(claims: Mapping[str, Any], key: str, key_id: object, source: str) -> str:
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
