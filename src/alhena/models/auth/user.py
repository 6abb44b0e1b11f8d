"""The access token of the user who has signed in, renewed once for all processes that share it."""

import asyncio
import time
from collections.abc import Callable

from alhena.errors import AlhenaError, ModelError
from alhena.models.auth.client import OAuthClient, require_client
from alhena.models.auth.exchange import ExpiredLoginError, TokenEndpoint
from alhena.models.auth.store import CLIENT_KEY, LoginStore, OAuthCredentials, Sleep, alone
from alhena.models.auth.tokens import EARLY, AccessToken
from alhena.models.errors import CredentialsError


class UserLogin:
    """Renews what a login left behind; `renew` is for `RenewedTokens`.

    An access token that holds is taken from the file, whoever put it there, even without an OAuth
    client; otherwise it is refreshed under a lock, and the file written. A refresh that fails
    leaves the file as it is, unless the service says that a login of this client has ended.
    `warn` is told when a new token could not be kept.
    """

    def __init__(
        self,
        store: LoginStore,
        endpoint: TokenEndpoint,
        client: OAuthClient | None,
        *,
        warn: Callable[[str], None] | None = None,
        now: Callable[[], float] = time.time,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._store = store
        self._endpoint = endpoint
        self._client = client
        self._warn = warn or _say_nothing
        self._now = now
        self._sleep = sleep
        self._given: set[str] = set()
        self._unsaved: OAuthCredentials | None = None

    async def renew(self) -> AccessToken:
        """A token that was not given out before and holds for a while; the one at hand as long as
        it holds when there is no client to refresh it with. Raises CredentialsError when nobody
        has signed in or the login is of no use, another AlhenaError when it could not be renewed.
        """
        found = self._load()
        if (token := self._unused(found)) is not None:
            return token
        if self._client is None and (token := self._holding(found)) is not None:
            return token
        async with alone(self._store, self._sleep):
            found = self._load()
            if (token := self._unused(found)) is not None:
                return token  # another process was faster
            return self._given_out(await self._refreshed(found))

    def _load(self) -> OAuthCredentials:
        found = self._unsaved or self._store.load()
        if found is None:
            raise CredentialsError(
                "nobody has signed in with a Google account.", remedy="Run: alhena auth login."
            )
        return found

    def _unused(self, found: OAuthCredentials) -> AccessToken | None:
        """The token of the file if it is a new one, with some time left."""
        token = AccessToken(found.access_token, found.expires_at)
        new = found.access_token not in self._given
        if not found.access_token or not new or not token.holds_for(EARLY, self._now()):
            return None
        return self._given_out(found)

    def _holding(self, found: OAuthCredentials) -> AccessToken | None:
        token = AccessToken(found.access_token, found.expires_at)
        return token if found.access_token and token.holds_for(0, self._now()) else None

    def _given_out(self, found: OAuthCredentials) -> AccessToken:
        self._given.add(found.access_token)
        return AccessToken(found.access_token, found.expires_at)

    async def _refreshed(self, old: OAuthCredentials) -> OAuthCredentials:
        if not old.refresh_token:
            raise CredentialsError(
                "the login has expired, and holds no refresh token.",
                remedy="Sign in again: alhena auth login.",
            )
        client = require_client(self._client)
        owner = old.other.get(CLIENT_KEY, client.id)
        if owner != client.id:
            raise CredentialsError(
                "the login has expired, and was made with another OAuth client than is set now.",
                remedy="Sign in again: alhena auth login.",
            )
        try:
            new = await self._endpoint.refresh(client, old)
        except ExpiredLoginError:
            self._forget(old)
            raise
        except ModelError:
            if old.access_token in self._given or self._holding(old) is None:
                raise
            return old  # short of time, and better than none
        try:
            self._store.save(new)
            self._unsaved = None
        except AlhenaError as error:
            self._unsaved = new  # for this process; the file still holds the refresh token
            self._warn(f"the renewed login could not be kept: {error}")
        return new

    def _forget(self, old: OAuthCredentials) -> None:
        """Takes away what is of no use, unless somebody has signed in anew meanwhile. A login that
        another program made stays: it may be of use to that program's client."""
        self._unsaved = None
        if CLIENT_KEY not in old.other:
            return
        try:
            there = self._store.load()
            if there is not None and there.refresh_token == old.refresh_token:
                self._store.forget()
        except AlhenaError as error:
            self._warn(f"the login that has ended could not be taken away: {error}")


def _say_nothing(_message: str) -> None:
    """For callers who do not want to be told."""
