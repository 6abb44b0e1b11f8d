"""Signs in with a Google account: through a browser on this machine, or with a pasted code."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

import msgspec

from alhena.config.errors import ConfigError
from alhena.errors import AlhenaError
from alhena.models.auth.authorization import (
    HOST,
    Callback,
    authorization_url,
    has_browser,
    listening,
    new_attempt,
    pasted_code,
)
from alhena.models.auth.exchange import OAuthClient, TokenEndpoint
from alhena.models.auth.store import LoginStore, OAuthCredentials, alone
from alhena.models.errors import CredentialsError

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
        return await self._named(credentials)

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

    async def _named(self, credentials: OAuthCredentials) -> str | None:
        """The account's address, saved beside the credentials."""
        address = None
        try:
            address = await self._endpoint.address_of(credentials)
        except AlhenaError as error:
            # The login is valid without the address.
            self._person.tell(f"Who signed in could not be found out: {error}")
        self._store.remember(address)
        return address
