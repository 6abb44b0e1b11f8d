"""Tokens of a service account that another identity may act as."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from alhena.errors import ServerFaultError
from alhena.models.auth.grant import token_endpoint
from alhena.models.auth.iam import IamService
from alhena.models.auth.tokens import AccessToken, RenewedTokens, TokenSource, checked_token
from alhena.models.errors import CredentialsError
from alhena.wire.plain import as_array

LIFETIME = "3600s"
_REMEDY = "Check that the identity of that file may create tokens for the service account."


class _Granted(msgspec.Struct, frozen=True, rename="camel"):
    access_token: str
    expire_time: str


def impersonated_tokens(
    info: Mapping[str, Any],
    actor: TokenSource,
    scope: str,
    source: str,
    environ: Mapping[str, str],
) -> RenewedTokens:
    """Tokens of the account at `service_account_impersonation_url`, asked for by `actor`. Raises
    CredentialsError or ConfigError when the file does not say which account."""
    url = info.get("service_account_impersonation_url")
    if not isinstance(url, str) or not url:
        raise CredentialsError(
            f"the credentials of {source} have no service_account_impersonation_url.",
            remedy="Get them again: gcloud auth application-default login.",
        )
    endpoint = token_endpoint(url, f"service_account_impersonation_url of {source}")
    delegates = [one for one in as_array(info.get("delegates")) or () if isinstance(one, str)]
    body = msgspec.json.encode({"delegates": delegates, "scope": [scope], "lifetime": LIFETIME})

    what = "token for the service account"
    iam = IamService(endpoint=endpoint, environ=environ, what=what, remedy=_REMEDY)

    async def renew() -> AccessToken:
        answer = await iam.ask(endpoint.prefix, body, actor)
        return _token(answer, endpoint.place)

    return RenewedTokens(renew)


def _token(answer: bytes, place: str) -> AccessToken:
    try:
        granted = msgspec.json.decode(answer, type=_Granted)
        expires_at = datetime.fromisoformat(granted.expire_time).timestamp()
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError):
        # Not chained: the cause may quote a token.
        raise ServerFaultError(
            f"{place} answered a request for a token with something else."
        ) from None
    return AccessToken(checked_token(granted.access_token, place), expires_at)
