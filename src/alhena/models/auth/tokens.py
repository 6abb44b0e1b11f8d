"""Access tokens: how long one holds, and renewing it once for all who wait.

A source is asked before each request. After a 401 the request asks again with `fresh`, but only
when the source still gives the token that was refused: another request may have renewed it since.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from alhena.errors import NetworkError, ServerFaultError, StreamCutError
from alhena.models.errors import CredentialsError
from alhena.wire.text import is_token

EARLY = 225.0
"""Seconds before its expiry from which a token is renewed. Metadata servers hand out the same token
until four minutes before its end, so an earlier try would get nothing new."""


class AccessToken(msgspec.Struct, frozen=True):
    """A bearer token; `expires_at` in seconds since the epoch, None when nobody said. The value
    does not show in the repr."""

    value: str
    expires_at: float | None = None

    def __repr__(self) -> str:
        return f"AccessToken(expires_at={self.expires_at!r})"

    def holds_for(self, seconds: float, now: float) -> bool:
        """Whether the token is still good so many seconds after `now`."""
        return self.expires_at is None or now + seconds < self.expires_at


class TokenSource(Protocol):
    """Where a request gets its bearer token."""

    async def token(self, *, fresh: bool = False) -> str:
        """The token to send now; `fresh`: one that differs from what was given out before, if there
        can be one. Raises CredentialsError, NetworkError, ServerFaultError."""
        ...


async def other_token(source: TokenSource, refused: str) -> str | None:
    """A token that was not refused yet, None when there is none. One that was renewed for somebody
    else meanwhile is taken as it is."""
    for fresh in (False, True):
        token = await source.token(fresh=fresh)
        if token != refused:
            return token
    return None


class FixedToken:
    """A token that was given and cannot be renewed."""

    def __init__(self, value: str) -> None:
        self._value = value

    async def token(self, *, fresh: bool = False) -> str:
        """The token, whatever is asked for."""
        del fresh
        return self._value


class RenewedTokens:
    """Keeps a token and has it renewed shortly before it expires, or when a fresh one is wanted.

    However many requests ask, `renew` runs once for all of them; when it fails, the next one that
    waits tries again. A token that still holds goes on being used when the service that renews it
    is out of reach.
    """

    def __init__(
        self,
        renew: Callable[[], Awaitable[AccessToken]],
        *,
        current: AccessToken | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._renew = renew
        self._current = current
        self._now = now
        self._renewals = 0
        self._gate = LoopLock()

    async def token(self, *, fresh: bool = False) -> str:
        """The token that holds, a renewed one where need be. Raises what `renew` raises."""
        seen = self._renewals
        if not fresh and (kept := self._kept(EARLY)) is not None:
            return kept
        async with self._gate.here():
            if seen != self._renewals and (kept := self._kept(0)) is not None:
                return kept  # renewed while this one waited
            if not fresh and (kept := self._kept(EARLY)) is not None:
                return kept
            return await self._renewed(fresh=fresh)

    async def _renewed(self, *, fresh: bool) -> str:
        try:
            token = await self._renew()
        except (NetworkError, ServerFaultError, StreamCutError):
            kept = self._kept(0)
            if fresh or kept is None:
                raise
            return kept
        self._current = token
        self._renewals += 1
        return token.value

    def _kept(self, seconds: float) -> str | None:
        """The token at hand if it holds for that long."""
        token = self._current
        if token is None or not token.holds_for(seconds, self._now()):
            return None
        return token.value


def checked_token(text: str, source: str) -> str:
    """`text` as a bearer token, without the blanks around it.

    Raises CredentialsError, which names `source` and does not quote the token, when no header can
    carry it.
    """
    value = text.strip()
    if not is_token(value):
        raise CredentialsError(
            f"{source} holds no access token: it is empty, or has blanks, line breaks or "
            "characters that no token has.",
            remedy="Get a new token and set it again.",
        )
    return value


class LoopLock:
    """Gives each event loop a lock of its own, for one of another loop cannot be waited for."""

    def __init__(self) -> None:
        self._last: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def here(self) -> asyncio.Lock:
        """The lock of the running event loop."""
        loop = asyncio.get_running_loop()
        if self._last is None or self._last[0] is not loop:
            self._last = (loop, asyncio.Lock())
        return self._last[1]
