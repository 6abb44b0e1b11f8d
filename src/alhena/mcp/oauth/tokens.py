"""Stores the tokens of MCP servers in ~/.gemini/mcp-oauth-tokens.json, and defines sign-in errors.

McpConnectError
└── SignInError           exit 41   sign-in failed
    └── RefusedError                permanently refused by an authorization server
TokenFileError            exit 41   the token file is unusable

Unknown entries, and keys of other programs, are preserved.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec

from alhena.config.home import config_home
from alhena.mcp.connection import McpConnectError, McpError
from alhena.system.errors import FileError
from alhena.system.private_files import PrivateFiles
from alhena.wire.json_values import carried_text


class SignInError(McpConnectError):
    """A sign-in or a token renewal failed. No message quotes a secret."""

    exit_code = 41


class RefusedGrantError(SignInError):
    """An authorization server refuses permanently. `code` is the OAuth error code."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class TokenFileError(McpError):
    """The token file is invalid, or cannot be changed now. It is left unchanged."""

    exit_code = 41


FILE = "mcp-oauth-tokens.json"
OWN_KEY = "alhena"
"""The key of an entry for data that the reference has no key for."""

PATIENCE_S = 45.0
"""Seconds to wait for a renewal in another process: longer than a request may take."""

Sleep = Callable[[float], Awaitable[None]]

_STEP_S = 0.02
_MAX_MS = 1e15
"""An implausible time: the expiry counts as unknown."""


NO_RESOURCE = "none"


class StoredToken(msgspec.Struct, frozen=True, kw_only=True):
    """The saved token of one server. `expires_at` is in seconds since the epoch, None if unknown.
    `resource` is what requests name as the server, NO_RESOURCE for nothing; `wanted` are scopes
    that the server has required since. The repr shows no secret."""

    server_name: str
    server_url: str
    access_token: str
    refresh_token: str = ""
    expires_at: float | None = None
    scope: str = ""
    client_id: str = ""
    client_secret: str = ""
    auth_method: str = "none"
    token_url: str = ""
    issuer: str = ""
    resource: str = ""
    audience: str = ""
    wanted: str = ""

    def __repr__(self) -> str:
        return f"StoredToken({self.server_name!r}, expires_at={self.expires_at!r})"

    def holds_for(self, seconds: float, now: float) -> bool:
        """True when the access token is still valid `seconds` after `now`."""
        return self.expires_at is None or now + seconds < self.expires_at

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets to redact from messages."""
        return (self.access_token, self.refresh_token, self.client_secret)


class TokenFile:
    """The tokens of all servers. Methods raise TokenFileError for an invalid file, which is never
    overwritten, and FileError when it cannot be read or written."""

    def __init__(
        self, files: PrivateFiles, sleep: Sleep = asyncio.sleep, *, name: str = FILE
    ) -> None:
        self._files = files
        self._file = name
        self._sleep = sleep

    def find(self, name: str, url: str) -> StoredToken | None:
        """The token of a server if it was issued for this URL; a server that has moved gets
        none."""
        token = self.find_by_name(name)
        return token if token is not None and same_place(token.server_url, url) else None

    def find_by_name(self, name: str) -> StoredToken | None:
        """The token saved under the name of a server, whatever its URL."""
        found = [entry for entry in self._entries() if _name(entry) == name]
        return _token(found[-1]) if found else None

    async def save(self, token: StoredToken, now: float, *, instead_of: str | None = None) -> bool:
        """Replaces the server's token. With `instead_of`, only if that is still the saved access
        token: returns False after another sign-in, sign-out or renewal."""
        name = token.server_name

        def replace_entry(entries: list[Any]) -> list[Any] | None:
            old = [entry for entry in entries if _name(entry) == name]
            last = _token(old[-1]) if old else None
            if instead_of is not None and (last is None or last.access_token != instead_of):
                return None
            kept = [entry for entry in entries if _name(entry) != name]
            return [*kept, _entry(token, old[-1] if old else {}, now)]

        return await self._change(replace_entry)

    async def forget(self, name: str) -> bool:
        """Deletes the tokens of a server; True if there were any. Does not wait for a renewal,
        whose result is discarded."""

        def drop_entry(entries: list[Any]) -> list[Any] | None:
            kept = [entry for entry in entries if _name(entry) != name]
            return kept if len(kept) < len(entries) else None

        # Without tokens no lock file is created, which might be the only file in the home.
        return drop_entry(self._entries()) is not None and await self._change(drop_entry)

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncGenerator[None]:
        """Locks the renewal of one server's token for a block, across processes. Without write
        access to the home, the block runs unlocked."""
        from hashlib import sha256

        label = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        async with AsyncExitStack() as stack:
            with suppress(FileError):
                await stack.enter_async_context(self._hold_lock(f"{self._file}.{label}"))
            yield

    async def _change(self, changed: Callable[[list[Any]], list[Any] | None]) -> bool:
        async with self._hold_lock(self._file):
            entries = changed(self._entries())
            if entries is None:
                return False
            data = msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n"
            self._files.write(self._file, data)
        return True

    @asynccontextmanager
    async def _hold_lock(self, name: str) -> AsyncGenerator[None]:
        waited = 0.0
        with ExitStack() as stack:
            while True:
                with ExitStack() as attempt:
                    if attempt.enter_context(self._files.hold(name)):
                        stack.push(attempt.pop_all())
                        break
                if waited >= PATIENCE_S:
                    raise TokenFileError(
                        f"another program holds {self._files.path(name)} for too long.",
                        remedy="Try again when it is done.",
                    )
                await self._sleep(_STEP_S)
                waited += _STEP_S
            yield

    def _entries(self) -> list[Any]:
        data = self._files.read(self._file)
        if data is None or not data.strip():
            return []
        try:
            # Not chained: the cause may quote a token.
            entries = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            entries = None
        if not isinstance(entries, list):
            raise TokenFileError(
                f"{self._files.path(self._file)} is no JSON array of tokens; it is left alone.",
                remedy="Repair it, or move it away and sign in again.",
            )
        return cast("list[Any]", entries)


def same_place(one: str, other: str) -> bool:
    """True when two URLs are equal, ignoring case in scheme and host."""
    return bool(one) and _canonical(one) == _canonical(other)


def _canonical(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return urlunsplit(
        parts._replace(scheme=parts.scheme.lower(), netloc=_lower_host(parts.netloc), fragment="")
    )


def _lower_host(place: str) -> str:
    user, at, host = place.rpartition("@")
    return f"{user}{at}{host.lower()}"


def _name(entry: object) -> str | None:
    name = cast("dict[str, Any]", entry).get("serverName") if isinstance(entry, dict) else None
    return name if isinstance(name, str) else None


_KEYS = {
    "access_token": ("token", "accessToken"),
    "refresh_token": ("token", "refreshToken"),
    "scope": ("token", "scope"),
    "server_url": ("", "mcpServerUrl"),
    "client_id": ("", "clientId"),
    "token_url": ("", "tokenUrl"),
    "client_secret": (OWN_KEY, "clientSecret"),
    "auth_method": (OWN_KEY, "tokenEndpointAuthMethod"),
    "issuer": (OWN_KEY, "issuer"),
    "resource": (OWN_KEY, "resource"),
    "audience": (OWN_KEY, "audience"),
    "wanted": (OWN_KEY, "scopesWanted"),
}
"""The place of each text of a token: an object in the entry, or "" for the entry, and a key."""


def _token(entry: Any) -> StoredToken | None:
    """The token of an entry; None when it has no usable one."""
    fields = cast("dict[str, Any]", entry)
    objects = {
        "": fields,
        "token": _object(fields.get("token")),
        OWN_KEY: _object(fields.get(OWN_KEY)),
    }
    texts = {name: carried_text(objects[place].get(key)) for name, (place, key) in _KEYS.items()}
    if not texts["access_token"] or " " in texts["access_token"]:
        return None
    texts["auth_method"] = texts["auth_method"] or "none"
    expires_at = _seconds(objects["token"].get("expiresAt"))
    return StoredToken(server_name=fields["serverName"], expires_at=expires_at, **texts)


def _entry(token: StoredToken, old: dict[str, Any], now: float) -> dict[str, Any]:
    own: dict[str, Any] = {}
    given: dict[str, Any] = {"tokenType": "Bearer"}
    entry = old | {"serverName": token.server_name, "updatedAt": int(now * 1000)}
    objects = {"": entry, "token": given, OWN_KEY: own}
    for name, (place, key) in _KEYS.items():
        if text := getattr(token, name):
            objects[place][key] = text
    if token.expires_at is not None:
        given["expiresAt"] = int(token.expires_at * 1000)
    return entry | {"token": given, OWN_KEY: own}


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _seconds(milliseconds: object) -> float | None:
    if not isinstance(milliseconds, (int, float)) or isinstance(milliseconds, bool):
        return None
    return milliseconds / 1000 if 0 < milliseconds < _MAX_MS else None


def token_file(environ: Mapping[str, str]) -> TokenFile:
    """The tokens of MCP servers, among the user's files."""
    return TokenFile(PrivateFiles(config_home(environ)))
