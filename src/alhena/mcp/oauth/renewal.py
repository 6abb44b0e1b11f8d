"""The access token of a server: added to requests, renewed once across processes.

A failed renewal never deletes the token, whatever the reason.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import httpx2
import msgspec

from alhena.config.mcp_servers import McpOAuth, McpServer
from alhena.mcp.connection import valid_scopes, wanted_scopes
from alhena.mcp.oauth.requests import open_http, origin, read_grant, refresh_request, require_safe
from alhena.mcp.oauth.tokens import (
    NO_RESOURCE,
    RefusedGrantError,
    SignInError,
    StoredToken,
    TokenFile,
    TokenFileError,
)
from alhena.system.errors import FileError

T = TypeVar("T")

EARLY_S = 300.0
"""Seconds before expiry at which a token is renewed."""

LAST_WORD_S = 5.0
"""Seconds that a cancelled caller waits for a running renewal."""

Send = Callable[[StoredToken], Awaitable[httpx2.Response]]
"""Requests a new token; returns the answer with its body. Raises SignInError."""


async def _send_refresh(token: StoredToken) -> httpx2.Response:
    async with open_http(token.server_url, (token.token_url,)) as http:
        return await http.send(refresh_request(token))


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` to its end. A cancelled caller waits briefly and leaves it running: a spent
    refresh token is useless until the new one is saved."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait({task}, timeout=LAST_WORD_S)
        raise


class Renewal:
    """The token of one server. `warn` receives errors of reading and saving; `ended` is the reason
    why the sign-in is no longer valid, "" while it is. Use it in one event loop."""

    def __init__(
        self,
        name: str,
        server: McpServer,
        tokens: TokenFile,
        warn: Callable[[str], None],
        now: Callable[[], float] = time.time,
        send: Send = _send_refresh,
    ) -> None:
        self.ended = ""
        self._name = name
        self._address = server.address or ""
        self._oauth = server.oauth or McpOAuth()
        self._tokens = tokens
        self._warn = warn
        self._now = now
        self._send = send
        self._lock = asyncio.Lock()
        self._unsaved: StoredToken | None = None
        self._in_file = ""
        self._refused = ""

    async def token(self, refused: str | None = None) -> str | None:
        """Returns the access token; None when not signed in or the sign-in has ended.

        `refused` is a token the server rejected: another is needed. Raises SignInError when a token
        needs renewal and the authorization server is unreachable.
        """
        async with self._lock:
            found = self._load()
            if found is None or self._good(found, EARLY_S, refused):
                return None if found is None else found.access_token
            if not self._renewable(found):
                return self._still_valid_token(found, refused)
            return await _to_its_end(self._renew(refused))

    async def want(self, scopes: tuple[str, ...]) -> None:
        """Saves scopes that the server requires and the token lacks; the next sign-in requests
        them."""
        try:
            async with self._tokens.alone(self._name):
                found = self._tokens.find(self._name, self._address)
                if found is None:
                    return
                wanted = " ".join(valid_scopes((*found.wanted.split(), *scopes)))
                if wanted != found.wanted:
                    changed = msgspec.structs.replace(found, wanted=wanted)
                    there = found.access_token
                    await self._tokens.save(changed, self._now(), instead_of=there)
        except (FileError, TokenFileError) as error:
            self._warn(f"the scopes that MCP server '{self._name}' wants are not kept: {error}")

    async def _renew(self, refused: str | None) -> str | None:
        async with self._tokens.alone(self._name):
            found = self._load()
            if found is None or self._good(found, EARLY_S, refused):
                return None if found is None else found.access_token  # another process was first
            return await self._renew_token(found, refused)

    async def _renew_token(self, old: StoredToken, refused: str | None) -> str | None:
        try:
            new = await self._request_refresh(old)
        except RefusedGrantError as error:
            self._refused, self.ended = old.refresh_token, error.message
            return self._still_valid_token(old, refused)
        except SignInError:
            last = self._still_valid_token(old, refused)
            if last is None:
                raise
            return last
        self.ended = ""
        try:
            kept = await self._tokens.save(new, self._now(), instead_of=self._in_file)
            self._unsaved = None
        except (FileError, TokenFileError) as error:
            self._unsaved = new  # the refresh token in the file may be spent: use this one
            self._warn(f"the renewed token of MCP server '{self._name}' could not be kept: {error}")
            return new.access_token
        if kept:
            return new.access_token
        found = self._load()
        return None if found is None else self._still_valid_token(found, refused)

    async def _request_refresh(self, old: StoredToken) -> StoredToken:
        require_safe(old.token_url, old.server_url)
        asked = self._now()
        response = await self._send(self._with_settings(old))
        grant = read_grant(response.status_code, response.content, old.token_url, old.secrets)
        return msgspec.structs.replace(
            old,
            access_token=grant.access_token,
            refresh_token=grant.refresh_token or old.refresh_token,
            expires_at=None if grant.expires_in is None else asked + grant.expires_in,
            scope=grant.scope or old.scope,
        )

    def _with_settings(self, token: StoredToken) -> StoredToken:
        """The token with the client secret of the settings, and without a resource if they say
        so."""
        if not self._oauth.resource:
            token = msgspec.structs.replace(token, resource=NO_RESOURCE)
        secret = self._oauth.client_secret
        if token.client_secret or not secret or token.client_id != self._oauth.client_id:
            return token
        return msgspec.structs.replace(token, client_secret=secret)

    def _load(self) -> StoredToken | None:
        try:
            found = self._tokens.find(self._name, self._address)
        except (FileError, TokenFileError) as error:
            self._warn(f"MCP server '{self._name}': {error}")
            return self._unsaved
        kept = "" if found is None else found.access_token
        if self._unsaved is not None and kept == self._in_file:
            return self._unsaved
        # The file's token was changed meanwhile (sign-in, sign-out or renewal): use it.
        self._unsaved, self._in_file = None, kept
        return found

    def _good(self, token: StoredToken, seconds: float, refused: str | None) -> bool:
        return token.access_token != refused and token.holds_for(seconds, self._now())

    def _still_valid_token(self, token: StoredToken, refused: str | None) -> str | None:
        """The token without a renewal while it is still valid, else None."""
        return token.access_token if self._good(token, 0, refused) else None

    def _renewable(self, token: StoredToken) -> bool:
        usable = bool(token.refresh_token and token.token_url and token.client_id)
        return usable and token.refresh_token != self._refused


class StoredAccess(httpx2.Auth):
    """Adds a server's token to requests to that server only. Never opens a browser: without a token
    the server's answer is returned."""

    def __init__(self, renewal: Renewal, address: str) -> None:
        self._renewal = renewal
        self._address = address
        self._origin = origin(address)

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Sends a request, and again with a renewed token if the first was rejected."""
        here = origin(str(request.url)) == self._origin
        token = await self._renewal.token() if here else None
        if token is None:
            yield request
            return
        require_safe(str(request.url), self._address)
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        scopes = wanted_scopes(response.status_code, response.headers.get("www-authenticate", ""))
        if scopes:
            await self._renewal.want(scopes)
        if response.status_code != 401:
            return
        fresh = await self._renewal.token(refused=token)
        if fresh is None:
            return
        request.headers["Authorization"] = f"Bearer {fresh}"
        yield request
