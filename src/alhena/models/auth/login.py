"""Signs in with a Google account, through a browser on this machine or with a pasted code; gives
and renews the access token of the signed-in user."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from alhena.config.settings import OAuthSettings
from alhena.errors import AlhenaError, ConfigError
from alhena.models.auth.authorization import (
    HOST,
    Callback,
    authorization_url,
    has_browser,
    listening,
    new_attempt,
    pasted_code,
)
from alhena.models.auth.exchange import (
    OAuthClient,
    TokenEndpoint,
    find_addresses,
    find_client,
    require_client,
)
from alhena.models.auth.store import (
    CLIENT_KEY,
    CREDENTIALS_FILE,
    LoginFiles,
    LoginStore,
    OAuthCredentials,
    Sleep,
    alone,
)
from alhena.models.auth.tokens import (
    EARLY,
    AccessToken,
    Credentials,
    FixedToken,
    RenewedTokens,
    checked_token,
)
from alhena.models.errors import PERSONAL_ENDED, CredentialsError

TIME_LIMIT = 300.0
"""Seconds a person has to consent."""

PASTE_ATTEMPTS = 2


class NoAnswerError(CredentialsError):
    """No person is available to paste a code."""


class Person(Protocol):
    """The person who signs in, as a user interface."""

    def tell(self, text: str) -> None:
        """Shows a line."""
        ...

    async def ask(self, question: str) -> str | None:
        """Asks for a line of input; None when there is none."""
        ...

    async def open(self, url: str) -> bool:
        """Opens a page in the browser; False if none could be started."""
        ...


class LoginWays(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a login. `host` and `port` receive the redirect (0: any free port); `limit` is in
    seconds."""

    browser: bool = True
    host: str = HOST
    port: int = 0
    limit: float = TIME_LIMIT


def ways_from(environ: Mapping[str, str], *, browser: bool = True) -> LoginWays:
    """The options allowed by this machine and NO_BROWSER, OAUTH_CALLBACK_PORT and
    OAUTH_CALLBACK_HOST; none with a browser if `browser` is false. Raises ConfigError for an
    invalid port."""
    text = environ.get("OAUTH_CALLBACK_PORT", "").strip()
    if text and not (text.isascii() and text.isdigit() and 0 < int(text) <= 65535):
        raise ConfigError(
            f"OAUTH_CALLBACK_PORT is no port: {text[:20]!r}.",
            remedy="Set it to a number from 1 to 65535, or unset it.",
        )
    host = environ.get("OAUTH_CALLBACK_HOST", "").strip() or HOST
    return LoginWays(browser=browser and has_browser(environ), host=host, port=int(text or 0))


async def answer_from_browser(person: Person, url: str, callback: Callback) -> str:
    """Opens a page in the browser and waits for `Callback.code`; raises its errors."""

    async def show() -> None:
        if not await person.open(url):
            person.tell("No browser could be started: open that page on this machine.")

    person.tell("Sign in on the page that opens in your browser. If none does, open:")
    person.tell(url)
    opening = asyncio.create_task(show())
    try:
        return await callback.code()
    finally:
        opening.cancel()


class Login:
    """Signs a person in and saves the credentials."""

    def __init__(
        self, client: OAuthClient, endpoint: TokenEndpoint, store: LoginStore, person: Person
    ) -> None:
        self._client = client
        self._endpoint = endpoint
        self._store = store
        self._person = person

    async def run(self, ways: LoginWays) -> str | None:
        """Signs in; returns the account's address, None if the service does not tell.

        Raises CredentialsError when the person refuses, does not respond in time or pastes a wrong
        code, ConfigError when the browser cannot reach the callback, another AlhenaError when the
        token endpoint or the disk fails; saved credentials are then kept.
        """
        try:
            async with asyncio.timeout(ways.limit):
                credentials = await (self._by_browser(ways) if ways.browser else self._by_code())
        except TimeoutError as error:
            raise CredentialsError(
                f"no sign-in within {ways.limit / 60:g} minutes.",
                remedy="Start again: alhena auth login.",
            ) from error
        if not credentials.refresh_token:
            self._person.tell(
                "Google gave no refresh token: this login ends with its access token, in an hour."
            )
        return await self._save_address(credentials)

    async def _by_browser(self, ways: LoginWays) -> OAuthCredentials:
        async with listening(ways.host, ways.port) as callback:
            attempt = callback.attempt
            url = authorization_url(self._endpoint.addresses.authorization, self._client, attempt)
            code = await answer_from_browser(self._person, url, callback)
            credentials = await self._endpoint.redeem(
                self._client, code, redirect_uri=attempt.redirect_uri, verifier=attempt.verifier
            )
            await self._keep(credentials)
            callback.conclude(done=True)
            return credentials

    async def _by_code(self) -> OAuthCredentials:
        for _ in range(PASTE_ATTEMPTS - 1):
            try:
                return await self._one_code()
            except NoAnswerError:
                raise
            except CredentialsError as error:
                self._person.tell(f"That did not work: {error} Once more.")
        return await self._one_code()

    async def _one_code(self) -> OAuthCredentials:
        attempt = new_attempt(self._client.paste_page)
        url = authorization_url(self._endpoint.addresses.authorization, self._client, attempt)
        self._person.tell("Open this page in any browser, and sign in:")
        self._person.tell(url)
        text = await self._person.ask("Paste the code it ends with, or its address: ")
        if text is None:
            raise NoAnswerError("no code was given.", remedy="Run alhena auth login at a terminal.")
        credentials = await self._endpoint.redeem(
            self._client,
            pasted_code(text, attempt),
            redirect_uri=attempt.redirect_uri,
            verifier=attempt.verifier,
        )
        await self._keep(credentials)
        return credentials

    async def _keep(self, credentials: OAuthCredentials) -> None:
        async with alone(self._store):
            self._store.save(credentials)

    async def _save_address(self, credentials: OAuthCredentials) -> str | None:
        """The account's address, saved beside the credentials."""
        address = None
        try:
            address = await self._endpoint.address_of(credentials)
        except AlhenaError as error:
            # The login is valid without the address.
            self._person.tell(f"Who signed in could not be found out: {error}")
        self._store.remember(address)
        return address


class UserLogin:
    """Renews the tokens of a saved login; `renew` is for `RenewedTokens`.

    A valid access token is taken from the file, even without an OAuth client; otherwise it is
    refreshed under a lock, and the file written. A failed refresh leaves the file unchanged. `warn`
    is called when a new token could not be saved.
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
        self._warn = warn
        self._now = now
        self._sleep = sleep
        self._given = ""

    async def renew(self) -> AccessToken:
        """Returns a new token that is valid for a while; without a client to refresh it, the
        current one while it is valid. Raises CredentialsError when not signed in or the
        login is invalid, another AlhenaError when the renewal failed.
        """
        if (token := self._unused_token(self._load())) is None:
            async with alone(self._store, self._sleep):
                found = self._load()  # another process may have been first
                token = self._unused_token(found) or await self._refresh_login(found)
        self._given = token.value
        return token

    def _load(self) -> OAuthCredentials:
        found = self._store.load()
        if found is None:
            raise CredentialsError(
                "not signed in with a Google account.", remedy="Run: alhena auth login."
            )
        return found

    def _unused_token(self, found: OAuthCredentials) -> AccessToken | None:
        """The token of the file if it is new and valid for a while; without a client to refresh it,
        until it expires."""
        token = AccessToken(found.access_token, found.expires_at)
        early = EARLY if self._client is not None else 0.0
        given = self._client is not None and token.value == self._given
        return token if token.value and not given and token.holds_for(early, self._now()) else None

    async def _refresh_login(self, old: OAuthCredentials) -> AccessToken:
        if not old.refresh_token:
            raise CredentialsError(
                "the login has expired, and contains no refresh token.",
                remedy="Sign in again: alhena auth login.",
            )
        client = require_client(self._client)
        owner = old.other.get(CLIENT_KEY, client.id)
        if owner != client.id:
            raise CredentialsError(
                "the login has expired, and was made with another OAuth client than is set now.",
                remedy="Sign in again: alhena auth login.",
            )
        new = await self._endpoint.refresh(client, old)
        try:
            self._store.save(new)
        except AlhenaError as error:  # the file still has the refresh token
            if self._warn is not None:
                self._warn(f"the renewed login could not be kept: {error}")
        return AccessToken(new.access_token, new.expires_at)


_GIVEN = "GOOGLE_CLOUD_ACCESS_TOKEN"
_FILE = "GOOGLE_APPLICATION_CREDENTIALS"


def signed_in(
    environ: Mapping[str, str],
    files: LoginFiles | None,
    settings: OAuthSettings,
    *,
    warn: Callable[[str], None] | None = None,
) -> Credentials:
    """The user's tokens. Sends nothing before the first is requested.

    In this order: GOOGLE_CLOUD_ACCESS_TOKEN, if GOOGLE_GENAI_USE_GCA is set; the login of `alhena
    auth login` (or of the reference) in `files`, if given; the file in
    GOOGLE_APPLICATION_CREDENTIALS. `warn` is called when a renewed login could not be saved. Raises
    CredentialsError when none exists, ConfigError for an invalid client or address.
    """
    given = environ.get("GOOGLE_CLOUD_ACCESS_TOKEN", "").strip()
    if given and environ.get("GOOGLE_GENAI_USE_GCA", "").strip().lower() in {"true", "1"}:
        return Credentials(
            tokens=FixedToken(checked_token(given, _GIVEN)),
            source=_GIVEN,
            remedy=f"Set {_GIVEN} to a token that holds, or unset it and run alhena auth login.",
        )
    store = LoginStore(files) if files is not None else None
    if store is not None and store.load() is not None:
        endpoint = TokenEndpoint(find_addresses(environ), environ=environ)
        login = UserLogin(store, endpoint, find_client(environ, settings), warn=warn)
        return Credentials(
            tokens=RenewedTokens(login.renew),
            source=CREDENTIALS_FILE,
            remedy=f"Sign in again: alhena auth login. {PERSONAL_ENDED}",
        )
    if environ.get("GOOGLE_APPLICATION_CREDENTIALS", "").strip():
        from alhena.models.auth.adc import default_credentials

        remedy = f"Check {_FILE}, or run alhena auth login."
        return msgspec.structs.replace(default_credentials(environ), remedy=remedy)
    raise CredentialsError(
        "not signed in with a Google account.",
        remedy=f"Run: alhena auth login. Or set {_GIVEN}. {PERSONAL_ENDED}",
    )
