"""Codes and refresh tokens for access tokens, and whose they are."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from alhena.models.auth.bearer import BearerAccess
from alhena.models.auth.client import OAuthAddresses, OAuthClient
from alhena.models.auth.grant import TIMEOUTS, GrantRefusedError, Timed, ask_grant
from alhena.models.auth.store import CLIENT_KEY, OAuthCredentials
from alhena.models.auth.tokens import FixedToken
from alhena.models.errors import CredentialsError
from alhena.models.service import HttpService
from alhena.wire.errors import DecodeError

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
    """The refresh token is of no use here: it has expired, was revoked or is another client's."""

    kind = "login_expired"


class _Person(msgspec.Struct, frozen=True):
    """The part of userinfo that is of use here."""

    email: str = ""


class TokenEndpoint:
    """Asks for tokens in a client's name. `environ` is read for proxies and certificates; `now`
    gives seconds since the epoch."""

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
        """The tokens for the code that a login ended with. Raises ModelError."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        try:
            return _credentials(await self._ask(client, form), {CLIENT_KEY: client.id})
        except GrantRefusedError as error:
            if error.code == "invalid_grant":  # it is about the code, not about the client
                error.remedy = _CODE_REMEDY
            raise

    async def refresh(self, client: OAuthClient, old: OAuthCredentials) -> OAuthCredentials:
        """`old` with a new access token. Raises ExpiredLoginError when the refresh token is of no
        use to this client, another ModelError when it may still be."""
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
        """The mail address of the account; None when the service does not tell. Raises
        ModelError."""
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

    async def _ask(self, client: OAuthClient, form: dict[str, str]) -> Timed:
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


def _credentials(timed: Timed, other: dict[str, Any]) -> OAuthCredentials:
    grant = timed.grant
    return OAuthCredentials(
        access_token=grant.access_token,
        refresh_token=grant.refresh_token or "",
        # Google's tokens hold for an hour; an answer need not say so.
        expires_at=timed.at + (grant.expires_in or _DEFAULT_LIFE),
        scope=grant.scope or "",
        id_token=grant.id_token or "",
        other=other,
    )


def _person(payload: bytes) -> _Person:
    try:
        return msgspec.json.decode(payload, type=_Person)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DecodeError("the account's address cannot be read.") from error
