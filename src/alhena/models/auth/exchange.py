"""Exchanges codes and refresh tokens for access tokens, with the OAuth client for user sign-in."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from alhena.config.settings import OAuthSettings
from alhena.errors import ConfigError
from alhena.http.addresses import Endpoint
from alhena.models.auth.store import CLIENT_KEY, OAuthCredentials
from alhena.models.auth.tokens import (
    TIMEOUTS,
    BearerAccess,
    FixedToken,
    GrantRefusedError,
    TimedGrant,
    ask_grant,
    token_endpoint,
)
from alhena.models.errors import CredentialsError
from alhena.models.service import HttpService
from alhena.wire.errors import DecodeError
from alhena.wire.json_values import is_token

PASTE_PAGE = "https://codeassist.google.com/authcode"
"""Shows the code to be pasted when no browser can reach this machine."""

SCOPES = (
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/userinfo.email",
    "https://www.googleapis.com/auth/userinfo.profile",
)

_AUTHORIZATION = "https://accounts.google.com/o/oauth2/v2/auth"
_EXCHANGE = "https://oauth2.googleapis.com/token"
_USERINFO = "https://www.googleapis.com/oauth2/v2/userinfo"


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True):
    """An OAuth client registered as an installed application. `paste_page` is its redirect address
    for pasted codes. The repr does not show the secret."""

    id: str
    secret: str
    paste_page: str = PASTE_PAGE

    def __repr__(self) -> str:
        return f"OAuthClient(id={self.id!r}, paste_page={self.paste_page!r})"


class OAuthAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints for consent, token exchange, and the user's identity."""

    authorization: str
    exchange: Endpoint
    userinfo: Endpoint


def find_client(environ: Mapping[str, str], settings: OAuthSettings) -> OAuthClient | None:
    """The client from ALHENA_OAUTH_CLIENT_ID and ALHENA_OAUTH_CLIENT_SECRET, else from the
    settings; None without one. The secret is optional.

    Raises ConfigError when an id or secret contains blanks or non-ASCII characters.
    """
    identity = environ.get("ALHENA_OAUTH_CLIENT_ID", "").strip()
    secret = environ.get("ALHENA_OAUTH_CLIENT_SECRET", "").strip()
    source = "ALHENA_OAUTH_CLIENT_ID"
    if not identity:
        source = "security.auth.oauth.clientId"
        identity = (settings.client_id or "").strip()
        secret = secret or (settings.client_secret or "").strip()
    if not identity:
        return None
    for value in (identity, secret):
        if value and not is_token(value):
            raise ConfigError(
                f"{source} or its secret contains blanks or characters that none has.",
                remedy="Copy it again.",
            )
    page = environ.get("ALHENA_OAUTH_REDIRECT_URI", "").strip() or settings.redirect_uri
    return OAuthClient(id=identity, secret=secret, paste_page=page or PASTE_PAGE)


def require_client(client: OAuthClient | None) -> OAuthClient:
    """Returns the client. Raises CredentialsError with instructions when there is none."""
    if client is not None:
        return client
    raise CredentialsError(
        "signing in needs an OAuth client, and none is set: alhena comes without one.",
        remedy=(
            "Set ALHENA_OAUTH_CLIENT_ID and ALHENA_OAUTH_CLIENT_SECRET, or "
            "security.auth.oauth.clientId and clientSecret in settings.json, to a client of the "
            "type Desktop app (https://console.cloud.google.com/apis/credentials)."
        ),
    )


def find_addresses(environ: Mapping[str, str]) -> OAuthAddresses:
    """Google's endpoints, or those in ALHENA_OAUTH_AUTHORIZATION_URL, ALHENA_OAUTH_TOKEN_URL and
    ALHENA_OAUTH_USERINFO_URL. Raises ConfigError, also for one that would send credentials
    unencrypted to another machine."""
    pages = environ.get("ALHENA_OAUTH_AUTHORIZATION_URL", "").strip() or _AUTHORIZATION
    exchange = environ.get("ALHENA_OAUTH_TOKEN_URL", "").strip() or _EXCHANGE
    userinfo = environ.get("ALHENA_OAUTH_USERINFO_URL", "").strip() or _USERINFO
    token_endpoint(pages, "ALHENA_OAUTH_AUTHORIZATION_URL")
    return OAuthAddresses(
        authorization=pages,
        exchange=token_endpoint(exchange, "ALHENA_OAUTH_TOKEN_URL"),
        userinfo=token_endpoint(userinfo, "ALHENA_OAUTH_USERINFO_URL"),
    )


_DEFAULT_LIFE = 3600.0
_LONGEST_ADDRESS = 320
_CLIENT_REMEDY = (
    "Check the OAuth client (ALHENA_OAUTH_CLIENT_ID and ALHENA_OAUTH_CLIENT_SECRET) and sign in "
    "with it: alhena auth login."
)

_CODE_REMEDY = (
    "The code is not whole, is too old or was used already. Sign in again: alhena auth login."
)


class ExpiredLoginError(CredentialsError):
    """The refresh token is invalid: expired, revoked, or issued to another client."""

    kind = "login_expired"


class _UserInfo(msgspec.Struct, frozen=True):
    """The used fields of the userinfo answer."""

    email: str = ""


class TokenEndpoint:
    """Requests tokens for a client. `environ` supplies proxies and certificates; `now` gives
    seconds since the epoch."""

    def __init__(
        self,
        addresses: OAuthAddresses,
        *,
        environ: Mapping[str, str],
        now: Callable[[], float] = time.time,
    ) -> None:
        self.addresses = addresses
        self._environ = environ
        self._now = now

    async def redeem(
        self, client: OAuthClient, code: str, *, redirect_uri: str, verifier: str
    ) -> OAuthCredentials:
        """Exchanges the code of a login for tokens. Raises ModelError."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        try:
            return _credentials(await self._ask(client, form), {CLIENT_KEY: client.id})
        except GrantRefusedError as error:
            if error.code == "invalid_grant":  # refers to the code, not the client
                error.remedy = _CODE_REMEDY
            raise

    async def refresh(self, client: OAuthClient, old: OAuthCredentials) -> OAuthCredentials:
        """Returns `old` with a new access token. Raises ExpiredLoginError when the refresh token is
        invalid for this client, another ModelError when it may still be valid."""
        form = {"grant_type": "refresh_token", "refresh_token": old.refresh_token}
        try:
            new = _credentials(await self._ask(client, form), old.other | {CLIENT_KEY: client.id})
        except GrantRefusedError as error:
            if error.code != "invalid_grant":
                raise
            raise ExpiredLoginError(
                f"the login has expired, was revoked or is another client's: {error.message}.",
                remedy="Sign in again: alhena auth login.",
                status=error.status,
            ) from error
        return msgspec.structs.replace(
            new,
            refresh_token=new.refresh_token or old.refresh_token,
            scope=new.scope or old.scope,
            id_token=new.id_token or old.id_token,
        )

    async def address_of(self, credentials: OAuthCredentials) -> str | None:
        """The account's email address; None if the service does not tell. Raises ModelError."""
        service = HttpService(
            self.addresses.userinfo,
            BearerAccess(FixedToken(credentials.access_token), remedy=_CLIENT_REMEDY),
            environ=self._environ,
            timeouts=TIMEOUTS,
        )
        try:
            person = await service.ask("", "", None, _person)
        finally:
            await service.aclose()
        address = person.email
        return address if 0 < len(address) <= _LONGEST_ADDRESS and address.isprintable() else None

    async def _ask(self, client: OAuthClient, form: dict[str, str]) -> TimedGrant:
        form = form | {"client_id": client.id}
        if client.secret:
            form["client_secret"] = client.secret
        return await ask_grant(
            self.addresses.exchange,
            form,
            environ=self._environ,
            remedy=_CLIENT_REMEDY,
            now=self._now,
        )


def _credentials(timed: TimedGrant, other: dict[str, Any]) -> OAuthCredentials:
    grant = timed.grant
    return OAuthCredentials(
        access_token=grant.access_token,
        refresh_token=grant.refresh_token or "",
        # Google's tokens are valid for an hour, the default if unspecified.
        expires_at=timed.at + (grant.expires_in or _DEFAULT_LIFE),
        scope=grant.scope or "",
        id_token=grant.id_token or "",
        other=other,
    )


def _person(payload: bytes) -> _UserInfo:
    try:
        return msgspec.json.decode(payload, type=_UserInfo)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DecodeError("the account's address cannot be read.") from error
