"""Stores the login in `oauth_creds.json` and `google_accounts.json`, in the reference's format, so
that one sign-in serves both programs.

Keys of other programs in these files are preserved.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from alhena.errors import AlhenaError
from alhena.models.errors import CredentialsError
from alhena.wire.json_values import as_array, as_object, carried_text

CREDENTIALS_FILE = "oauth_creds.json"
ACCOUNTS_FILE = "google_accounts.json"
CLIENT_KEY = "client_id"
"""The key of the client that a login belongs to. The reference does not write it."""

PATIENCE = 45.0
"""Seconds to wait for another process that changes the credentials: longer than a token request may
be silent."""

KEY_FILE = "api_key.json"

Sleep = Callable[[float], Awaitable[None]]

_STEP = 0.02
_LOGIN = "Sign in again: alhena auth login."


class LoginFiles(Protocol):
    """Files readable only by their owner, by name (`system.private_files`). Methods raise
    AlhenaError."""

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, None if missing."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Writes a file atomically."""
        ...

    def remove(self, name: str) -> bool:
        """Deletes a file; False if it was missing."""
        ...

    def hold(self, name: str) -> AbstractContextManager[bool]:
        """Locks a file for a block; False, at once, when another program holds the lock."""
        ...

    def path(self, name: str) -> Path:
        """Path of a file, which need not exist."""
        ...


class _SavedKey(msgspec.Struct):
    key: str


def load_key(files: LoginFiles) -> str:
    """The saved API key of Gemini, "" if there is none. Raises CredentialsError for a damaged file,
    and other AlhenaErrors."""
    data = files.read(KEY_FILE)
    if data is None:
        return ""
    try:
        return msgspec.json.decode(data, type=_SavedKey).key.strip()
    except msgspec.DecodeError as error:
        raise CredentialsError(
            f"The saved API key in {files.path(KEY_FILE)} is damaged.", remedy="Delete that file."
        ) from error


def save_key(files: LoginFiles, key: str) -> Path:
    """Saves an API key; returns the file. Raises AlhenaError."""
    files.write(KEY_FILE, msgspec.json.encode(_SavedKey(key)) + b"\n")
    return files.path(KEY_FILE)


def forget_key(files: LoginFiles) -> bool:
    """Deletes the saved API key; False if there was none. Raises AlhenaError."""
    return files.remove(KEY_FILE)


class OAuthCredentials(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the token endpoint. `expires_at` is in seconds since the epoch, None if
    unknown; `other` are unknown keys of the file. The repr shows no token."""

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
        """The secrets to redact from messages."""
        return (self.access_token, self.refresh_token, self.id_token)


class LoginStore:
    """The credentials and the account of the signed-in user."""

    def __init__(self, files: LoginFiles) -> None:
        self._files = files

    def hold(self) -> AbstractContextManager[bool]:
        """The lock for renewing credentials. Raises AlhenaError."""
        return self._files.hold(CREDENTIALS_FILE)

    def load(self) -> OAuthCredentials | None:
        """The credentials; None when not signed in. Raises CredentialsError for an invalid
        file, another AlhenaError for an unreadable one."""
        data = self._files.read(CREDENTIALS_FILE)
        if data is None:
            return None
        fields = as_object(_parse_json(data))
        if fields is None:
            raise CredentialsError(f"{CREDENTIALS_FILE} contains no credentials.", remedy=_LOGIN)
        found = credentials_of(fields)
        if not found.access_token and not found.refresh_token:
            raise CredentialsError(f"{CREDENTIALS_FILE} contains no token.", remedy=_LOGIN)
        return found

    def save(self, credentials: OAuthCredentials) -> None:
        """Writes the credentials. Raises AlhenaError, and then keeps the old ones."""
        self._files.write(CREDENTIALS_FILE, _format_json(_fields(credentials)))

    def forget(self) -> bool:
        """Deletes the credentials; False if there were none. The account is moved to the old
        accounts. Raises AlhenaError."""
        there = self._files.remove(CREDENTIALS_FILE)
        if self._files.read(ACCOUNTS_FILE) is not None:
            self.remember(None)
        return there

    def account(self) -> str | None:
        """The address of the signed-in account. Raises AlhenaError."""
        active = self._accounts().get("active")
        return active if isinstance(active, str) and active else None

    def remember(self, address: str | None) -> None:
        """Sets the signed-in account to `address`, None if unknown; the previous one is moved to
        the old accounts. Raises AlhenaError."""
        accounts = self._accounts()
        before = accounts.get("active")
        old = [one for one in as_array(accounts.get("old")) or () if isinstance(one, str)]
        if isinstance(before, str) and before and before not in old:
            old.append(before)
        accounts["active"] = address
        accounts["old"] = [one for one in old if one != address]
        self._files.write(ACCOUNTS_FILE, _format_json(accounts))

    def _accounts(self) -> dict[str, Any]:
        """Reads the accounts file; like the reference, treats a damaged one as empty."""
        return as_object(_parse_json(self._files.read(ACCOUNTS_FILE) or b"{}")) or {}


@asynccontextmanager
async def alone(store: LoginStore, sleep: Sleep = asyncio.sleep) -> AsyncGenerator[None]:
    """Locks the credentials for a block. Without a lock, or when another process holds it longer
    than `PATIENCE`, the block runs anyway; doing it twice is harmless."""
    waited = 0.0
    with ExitStack() as stack:
        while True:
            with ExitStack() as attempt:
                try:
                    held = attempt.enter_context(store.hold())
                except AlhenaError:
                    break  # no write access to the home: saving will report it
                if held:
                    stack.push(attempt.pop_all())
                    break
            if waited >= PATIENCE:
                break
            await sleep(_STEP)
            waited += _STEP
        yield


def _parse_json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _format_json(fields: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"


_NAMES = frozenset(
    {"access_token", "refresh_token", "expiry_date", "scope", "token_type", "id_token"}
)


def credentials_of(fields: dict[str, Any]) -> OAuthCredentials:
    """Builds credentials from the keys of the file, or of an answer of the token endpoint."""
    return OAuthCredentials(
        access_token=carried_text(fields.get("access_token")),
        refresh_token=carried_text(fields.get("refresh_token")),
        expires_at=_seconds(fields.get("expiry_date")),
        scope=carried_text(fields.get("scope")),
        id_token=carried_text(fields.get("id_token")),
        other={name: value for name, value in fields.items() if name not in _NAMES},
    )


def _seconds(milliseconds: object) -> float | None:
    """Converts a JSON number to seconds, None for an invalid time."""
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


async def sign_out(files: LoginFiles) -> tuple[bool, bool]:
    """Deletes the login and the saved API key; True for each that was there. Raises AlhenaError."""
    store = LoginStore(files)
    async with alone(store):
        there = store.forget()
    return there, forget_key(files)
