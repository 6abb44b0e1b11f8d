"""The credentials of MCP servers: tokens of a sign-in, or Google's; a person signing in."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from urllib.parse import parse_qs, urlsplit

import httpx2

from alhena.config.mcp_servers import GOOGLE, IMPERSONATION, McpServer
from alhena.errors import AlhenaError, ConfigError
from alhena.mcp.connection import McpConnectError
from alhena.mcp.oauth.sign_in import AuthorizationResponse, sign_in
from alhena.mcp.oauth.tokens import StoredToken, token_file
from alhena.models.auth.adc import default_credentials
from alhena.models.auth.authorization import (
    Attempt,
    Callback,
    StrayAnswerError,
    answered_code,
    listening,
)
from alhena.models.auth.federated import identity_tokens
from alhena.models.auth.login import (
    PASTE_ATTEMPTS,
    LoginWays,
    Person,
    answer_from_browser,
    ways_from,
)
from alhena.models.auth.tokens import TokenSource
from alhena.models.errors import CredentialsError

HOSTS = (".googleapis.com", ".luci.app")
"""Hosts that may get tokens of a Google account, which grant access to all the account may do."""


class TokenAccess(httpx2.Auth):
    """Shows tokens of a source to one server, `extra` headers with them. Raises McpConnectError
    when there is no token to be had."""

    def __init__(self, tokens: TokenSource, address: str, extra: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._place = _place(address)
        self._extra = extra

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """One request, made again once with a renewed token where the first was refused."""
        if _place(str(request.url)) != self._place:
            yield request
            return
        request.headers.update(self._extra)
        first = await self._token(fresh=False)
        request.headers["Authorization"] = f"Bearer {first}"
        response = yield request
        if response.status_code != 401:
            return
        again = await self._token(fresh=True)
        if again != first:
            request.headers["Authorization"] = f"Bearer {again}"
            yield request

    async def _token(self, *, fresh: bool) -> str:
        try:
            return await self._tokens.token(fresh=fresh)
        except AlhenaError as error:
            raise McpConnectError(error.message, remedy=error.remedy) from error


def google_access(name: str, server: McpServer, environ: Mapping[str, str]) -> TokenAccess:
    """The credentials of this machine, or an identity that they may act as, for a server that wants
    them. Raises McpConnectError where they must not go, and when there are none."""
    address = server.address or ""
    where = f"mcpServers.{name}"
    try:
        if server.auth_provider_type == GOOGLE:
            _require_google(address, where)
            found = default_credentials(environ)
            project = found.quota_project
            return TokenAccess(
                found.tokens, address, {"x-goog-user-project": project} if project else {}
            )
        account, audience = server.target_service_account, server.target_audience
        if not account or not audience:
            raise McpConnectError(
                f"{IMPERSONATION} does not say who asks and for which service",
                remedy=f"Set {where}.targetServiceAccount and {where}.targetAudience.",
            )
        _require_encrypted(address)
        actor = default_credentials(environ).tokens
        return TokenAccess(identity_tokens(actor, account, audience, environ), address, {})
    except McpConnectError:
        raise
    except AlhenaError as error:
        raise McpConnectError(error.message, remedy=error.remedy) from error


def _require_google(address: str, where: str) -> None:
    _require_encrypted(address)
    host = (urlsplit(address).hostname or "").lower()
    if not any(f".{host}".endswith(each) for each in HOSTS):
        raise McpConnectError(
            f"Google credentials are not sent to {host}, which is no host of Google's APIs",
            remedy=f"Remove {where}.authProviderType, or use {IMPERSONATION}.",
        )


def _require_encrypted(address: str) -> None:
    if urlsplit(address).scheme.lower() != "https":
        raise McpConnectError("credentials are sent over https only")


def _place(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme.lower(), (parts.hostname or "").lower(), parts.port


PATH = "/oauth/callback"
_LOCAL = ("localhost", "127.0.0.1", "::1")


async def signed_in(
    name: str, server: McpServer, person: Person, environ: Mapping[str, str]
) -> StoredToken:
    """Signs a person in to a server, and keeps what comes of it.

    Raises SignInError, CredentialsError when the person refuses or does not answer within five
    minutes, ConfigError when their browser cannot come back here; what was saved before stays.
    """
    ways = ways_from(environ)
    try:
        async with asyncio.timeout(ways.limit), AsyncExitStack() as stack:
            browser = await _Browser.open(stack, server, person, ways)
            try:
                token = await sign_in(name, server, browser, token_file(environ))
            except BaseException:
                browser.callback.conclude(done=False)
                raise
            browser.callback.conclude(done=True)
            return token
    except TimeoutError as error:
        raise CredentialsError(
            f"not signed in to MCP server '{name}' within {ways.limit / 60:g} minutes.",
            remedy=f"Start again: alhena mcp auth {name}.",
        ) from error


class _Browser:
    """The browser of the person, and the port of this machine that it comes back to."""

    def __init__(self, person: Person, *, can_open: bool) -> None:
        self._person = person
        self._can_open = can_open
        self._state = secrets.token_urlsafe(32)  # until somebody asks: no answer is the right one
        self._uri = ""
        self.callback: Callback

    @classmethod
    async def open(
        cls, stack: AsyncExitStack, server: McpServer, person: Person, ways: LoginWays
    ) -> "_Browser":
        """Waits for the browser from now on, until the end of `stack`."""
        browser = cls(person, can_open=ways.browser)
        given = None if server.oauth is None else server.oauth.redirect_uri
        path, port = _landing(given, ways.port)
        callback = await stack.enter_async_context(
            listening(ways.host, port, named="localhost", path=path, read=browser.read)
        )
        browser.come_back_to(callback, given)
        return browser

    def come_back_to(self, callback: Callback, uri: str | None) -> None:
        """Sets the port, and the redirect URI that the settings name, if any."""
        self.callback = callback
        self._uri = uri or callback.attempt.redirect_uri

    @property
    def redirect_uri(self) -> str:
        """The redirect URI of the sign-in."""
        return self._uri

    async def ask(self, url: str, state: str) -> AuthorizationResponse:
        """Shows the page, and waits for its answer."""
        self._state = state
        if self._can_open:
            query = await answer_from_browser(self._person, url, self.callback)
        else:
            query = await self._opened_anywhere(url)
        fields = parse_qs(query)
        issuer = fields.get("iss", [None])[0]
        return AuthorizationResponse(code=fields["code"][0], state=state, issuer=issuer)

    async def _opened_anywhere(self, url: str) -> str:
        """A browser on another machine ends at an address that leads nowhere there, but says it
        all: the person may paste it."""
        self._person.tell("Sign in on this page, in a browser on this machine or on any other:")
        self._person.tell(url)
        back = asyncio.ensure_future(self.callback.code())
        pasting = asyncio.ensure_future(self._ask_for_address())
        try:
            done, _ = await asyncio.wait({back, pasting}, return_when=asyncio.FIRST_COMPLETED)
            query = pasting.result() if pasting in done else None
            return await back if query is None else query
        finally:
            back.cancel()
            pasting.cancel()

    async def _ask_for_address(self) -> str | None:
        """The query of the address that the person pastes; None when there is none to be had."""
        question = "If it is another machine, paste the address that the browser ends at: "
        for _ in range(PASTE_ATTEMPTS):
            text = await self._person.ask(question)
            if text is None:
                return None
            try:
                return self.read(text.strip().partition("?")[2].partition("#")[0])
            except StrayAnswerError as error:
                self._person.tell(f"That is not it: {error.message}")
        return None

    def read(self, query: str) -> str:
        """The query, if it answers what was asked. No message quotes a code or a state."""
        attempt = Attempt(redirect_uri=self._uri, state=self._state, verifier="")
        try:
            answered_code(query, attempt)
        except StrayAnswerError:
            raise
        except CredentialsError as error:
            raise CredentialsError(error.message) from error  # its remedy is for another sign-in
        return query


def _landing(redirect_uri: str | None, port: int) -> tuple[str, int]:
    """The path and the port that the browser comes back to. `port` is that of
    OAUTH_CALLBACK_PORT, 0 for none. Raises ConfigError."""
    if not redirect_uri:
        return PATH, port
    try:
        parts = urlsplit(redirect_uri)
        named = parts.port
    except ValueError:
        parts, named = urlsplit(""), None
    ours = port != 0 or parts.hostname in _LOCAL
    if parts.scheme not in ("http", "https") or not parts.hostname or not ours:
        raise ConfigError(
            "the redirectUri of the server is no URL that leads to this machine.",
            remedy="Correct mcpServers.NAME.oauth.redirectUri, or set OAUTH_CALLBACK_PORT to the "
            "port of this machine that it comes out at.",
            page="mcp",
        )
    return parts.path or "/", port or named or 80
