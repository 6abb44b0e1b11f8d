"""What a login leaves behind: `oauth_creds.json` and `google_accounts.json`, in the reference's
format, so that both programs sign in once.

Keys of other programs in these files are kept.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from typing import Any, Protocol

import msgspec

from alhena.errors import AlhenaError
from alhena.models.errors import CredentialsError
from alhena.wire.plain import as_array, as_object, carried_text

CREDENTIALS_FILE = "oauth_creds.json"
ACCOUNTS_FILE = "google_accounts.json"
CLIENT_KEY = "client_id"
"""The key of the file that says which client a login belongs to. The reference writes none."""

PATIENCE = 45.0
"""Seconds to wait for another process that changes the credentials: longer than a request for a
token may be silent."""

Sleep = Callable[[float], Awaitable[None]]

_STEP = 0.02
_LOGIN = "Sign in again: alhena auth login."


class PrivateFiles(Protocol):
    """Files that only their owner may read, by name (`system.private_files`). Methods raise
    AlhenaError."""

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, None when it is not there."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Puts a file in its place in one step."""
        ...

    def remove(self, name: str) -> bool:
        """Takes a file away; whether there was one."""
        ...

    def hold(self, name: str) -> AbstractContextManager[bool]:
        """Holds a file's lock for a block; false, at once, when another program has it."""
        ...


class OAuthCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """What the token endpoint gave. `expires_at` is in seconds since the epoch, None when nobody
    said; `other` are keys of the file that are not known here. No token shows in the repr."""

    access_token: str = ""
    refresh_token: str = ""
    expires_at: float | None = None
    scope: str = ""
    id_token: str = ""
    other: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"OAuthCredentials(expires_at={self.expires_at!r}, scope={self.scope!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not show in any message."""
        return (self.access_token, self.refresh_token, self.id_token)


class LoginStore:
    """The credentials and the account of the user who has signed in."""

    def __init__(self, files: PrivateFiles) -> None:
        self._files = files

    def hold(self) -> AbstractContextManager[bool]:
        """The lock under which credentials are renewed. Raises AlhenaError."""
        return self._files.hold(CREDENTIALS_FILE)

    def load(self) -> OAuthCredentials | None:
        """The credentials; None when nobody has signed in. Raises CredentialsError for a file that
        holds something else, another AlhenaError for one that cannot be read."""
        data = self._files.read(CREDENTIALS_FILE)
        if data is None:
            return None
        fields = as_object(_parsed(data))
        if fields is None:
            raise CredentialsError(f"{CREDENTIALS_FILE} holds no credentials.", remedy=_LOGIN)
        found = credentials_of(fields)
        if not found.access_token and not found.refresh_token:
            raise CredentialsError(f"{CREDENTIALS_FILE} holds no token.", remedy=_LOGIN)
        return found

    def save(self, credentials: OAuthCredentials) -> None:
        """Writes the credentials. Raises AlhenaError; then the old ones stand."""
        self._files.write(CREDENTIALS_FILE, _written(_fields(credentials)))

    def forget(self) -> bool:
        """Takes the credentials away; whether there were any. The account becomes one of those
        that were active before. Raises AlhenaError."""
        there = self._files.remove(CREDENTIALS_FILE)
        if self._files.read(ACCOUNTS_FILE) is not None:
            self.remember(None)
        return there

    def account(self) -> str | None:
        """The address of the account that is signed in. Raises AlhenaError."""
        active = self._accounts().get("active")
        return active if isinstance(active, str) and active else None

    def remember(self, address: str | None) -> None:
        """Makes `address` the account that is signed in, None for one nobody knows the name of; the
        account before it becomes one of the old. Raises AlhenaError."""
        accounts = self._accounts()
        before = accounts.get("active")
        old = [one for one in as_array(accounts.get("old")) or () if isinstance(one, str)]
        if isinstance(before, str) and before and before not in old:
            old.append(before)
        accounts["active"] = address
        accounts["old"] = [one for one in old if one != address]
        self._files.write(ACCOUNTS_FILE, _written(accounts))

    def _accounts(self) -> dict[str, Any]:
        """What the file says; as the reference does, a damaged one counts as empty."""
        return as_object(_parsed(self._files.read(ACCOUNTS_FILE) or b"{}")) or {}


@asynccontextmanager
async def alone(store: LoginStore, sleep: Sleep = asyncio.sleep) -> AsyncGenerator[None]:
    """Holds the lock of the credentials for a block. Where there can be none, or when another
    process keeps it for longer than `PATIENCE`, the block runs all the same: what is done under it
    may be done twice, it is only not needed."""
    waited = 0.0
    with ExitStack() as stack:
        while True:
            with ExitStack() as attempt:
                try:
                    held = attempt.enter_context(store.hold())
                except AlhenaError:
                    break  # a home that cannot be written to: whoever saves will be told
                if held:
                    stack.push(attempt.pop_all())
                    break
            if waited >= PATIENCE:
                break
            await sleep(_STEP)
            waited += _STEP
        yield


def _parsed(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _written(fields: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"


_NAMES = frozenset(
    {"access_token", "refresh_token", "expiry_date", "scope", "token_type", "id_token"}
)


def credentials_of(fields: dict[str, Any]) -> OAuthCredentials:
    """Credentials from the keys of the file, or of an answer of the token endpoint."""
    return OAuthCredentials(
        access_token=carried_text(fields.get("access_token")),
        refresh_token=carried_text(fields.get("refresh_token")),
        expires_at=_seconds(fields.get("expiry_date")),
        scope=carried_text(fields.get("scope")),
        id_token=carried_text(fields.get("id_token")),
        other={name: value for name, value in fields.items() if name not in _NAMES},
    )


def _seconds(milliseconds: object) -> float | None:
    """Seconds from a JSON number, None for anything that is no time."""
    if not isinstance(milliseconds, (int, float)) or isinstance(milliseconds, bool):
        return None
    return milliseconds / 1000 if milliseconds > 0 else None


def _fields(credentials: OAuthCredentials) -> dict[str, Any]:
    expiry = credentials.expires_at
    known = {
        "access_token": credentials.access_token,
        "refresh_token": credentials.refresh_token,
        "scope": credentials.scope,
        "token_type": "Bearer",
        "id_token": credentials.id_token,
        "expiry_date": int(expiry * 1000) if expiry is not None else None,
    }
    return credentials.other | {name: value for name, value in known.items() if value}
