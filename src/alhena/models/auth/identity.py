"""Identity tokens of a service account that another identity may act as: who asks, for services
that stand behind Identity-Aware Proxy or Cloud Run."""

import time
from collections.abc import Callable, Mapping
from urllib.parse import quote

import msgspec

from alhena.errors import ServerFaultError
from alhena.models.auth.grant import token_endpoint
from alhena.models.auth.iam import IamService
from alhena.models.auth.tokens import AccessToken, RenewedTokens, TokenSource, checked_token

SERVICE = "https://iamcredentials.googleapis.com"
LIFETIME_S = 3600.0
_REMEDY = "Check that your credentials may create identity tokens for the service account."


class _Granted(msgspec.Struct, frozen=True):
    token: str


def identity_tokens(
    actor: TokenSource,
    account: str,
    audience: str,
    environ: Mapping[str, str],
    *,
    service: str = SERVICE,
    now: Callable[[], float] = time.time,
) -> RenewedTokens:
    """Tokens that say to `audience` that `account` asks, as `actor` may have them. Raises
    ConfigError for an address of the service that is none."""
    endpoint = token_endpoint(service, "address of the IAM service")
    path = f"{endpoint.prefix}/v1/projects/-/serviceAccounts/{quote(account, safe='@')}"
    body = msgspec.json.encode({"audience": audience, "includeEmail": True})

    iam = IamService(endpoint=endpoint, environ=environ, what="identity token", remedy=_REMEDY)

    async def renew() -> AccessToken:
        asked_at = now()
        answer = await iam.ask(f"{path}:generateIdToken", body, actor)
        return AccessToken(_token(answer, endpoint.place), asked_at + LIFETIME_S)

    return RenewedTokens(renew, now=now)


def _token(answer: bytes, place: str) -> str:
    try:
        granted = msgspec.json.decode(answer, type=_Granted)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # Not chained: the cause may quote a token.
        raise ServerFaultError(
            f"{place} answered a request for an identity token with something else."
        ) from None
    return checked_token(granted.token, place)
