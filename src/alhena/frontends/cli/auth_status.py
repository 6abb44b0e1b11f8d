"""What `alhena auth status` says: how a run would sign in, and who is signed in."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from alhena.config.settings import Settings
from alhena.display_text import one_line
from alhena.errors import AlhenaError
from alhena.models.auth.exchange import find_client
from alhena.models.auth.store import CREDENTIALS_FILE, LoginStore
from alhena.models.auth.user import signed_in
from alhena.models.auth_type import AuthType, auth_type
from alhena.models.code_assist.setup import QuotaBucket
from alhena.models.errors import CredentialsError
from alhena.system.private_files import PrivateFiles

_NAMES = {
    AuthType.LOGIN: "Code Assist, with a Google account",
    AuthType.API_KEY: "the Gemini API, with a key",
    AuthType.VERTEX: "Vertex AI",
    AuthType.COMPUTE: "Code Assist, with this machine's credentials",
    AuthType.CLOUD_SHELL: "Code Assist, with this machine's credentials",
    AuthType.GATEWAY: "a gateway (GOOGLE_GEMINI_BASE_URL)",
}


class LoginState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A login that is kept on this machine. `expires_at` is when its access token ends (RFC 3339);
    `refreshable`: it can be renewed, for there are a refresh token and a client."""

    account: str | None = None
    expires_at: str | None = None
    expired: bool = False
    refreshable: bool = False


class AuthStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`auth_type` and `transport` are None when nothing says how to sign in; `problem` is why a run
    could not. `token_source` is which variable or file a Google account's token comes from."""

    auth_type: str | None
    transport: str | None
    ready: bool
    problem: str | None = None
    token_source: str | None = None
    login: LoginState | None = None
    oauth_client: bool = False
    project: str | None = None
    quota: tuple[QuotaBucket, ...] | None = None


def find_status(environ: Mapping[str, str], settings: Settings, files: PrivateFiles) -> AuthStatus:
    """How a run would sign in. Nothing is sent. Raises ConfigError for an OAuth client that cannot
    be used."""
    client = find_client(environ, settings.security.auth.oauth)
    problem: str | None = None
    kind: AuthType | None = None
    source: str | None = None
    login: LoginState | None = None
    try:
        login = _login(files, refreshable=client is not None)
        kind = auth_type(settings.security.auth, environ)
        _require_generator(environ, settings, files)
        if kind is AuthType.LOGIN:
            source = signed_in(environ, files, settings.security.auth.oauth).source
    except AlhenaError as error:
        problem = str(error)
    if source == CREDENTIALS_FILE:
        problem = problem or _ended(login)
    return AuthStatus(
        auth_type=kind,
        transport=_NAMES[kind] if kind is not None else None,
        ready=problem is None,
        problem=problem,
        token_source=source,
        login=login,
        oauth_client=client is not None,
        project=environ.get("GOOGLE_CLOUD_PROJECT") or environ.get("GOOGLE_CLOUD_PROJECT_ID"),
    )


async def with_quota(
    status: AuthStatus, environ: Mapping[str, str], settings: Settings, files: PrivateFiles
) -> AuthStatus:
    """`status` with the quota, and the project, that Code Assist tells. Raises CredentialsError for
    another transport, and ModelError."""
    from alhena.models.code_assist.generator import for_login, for_machine

    if status.auth_type == AuthType.LOGIN:
        generator = for_login(environ, files, settings.security.auth.oauth)
    elif status.auth_type in (AuthType.COMPUTE, AuthType.CLOUD_SHELL):
        generator = for_machine(environ)
    else:
        raise CredentialsError(
            "only Code Assist tells what is left of a quota.",
            remedy="Set GOOGLE_GENAI_USE_GCA=true to ask it.",
        )
    try:
        quota = await generator.quota()
        account = await generator.account()
    finally:
        await generator.aclose()
    return msgspec.structs.replace(status, quota=quota, project=account.project)


def described(status: AuthStatus) -> str:
    """The same for a person, as lines."""
    lines = [f"Answers come from: {status.transport or 'nobody'}"]
    if status.auth_type is not None:
        lines[0] += f" ({status.auth_type})"
    if status.problem is not None:
        lines.append(f"This does not work: {status.problem}")
    if status.token_source is not None:
        lines.append(f"The token comes from: {status.token_source}")
    login = status.login
    if login is None:
        lines.append("Signed in: nobody")
    else:
        until = f", token until {login.expires_at}" if login.expires_at else ""
        state = " (expired)" if login.expired else ""
        renewed = "is renewed when need be" if login.refreshable else "cannot be renewed"
        lines.append(f"Signed in: {login.account or 'an unknown account'}{until}{state}; {renewed}")
    lines.append(f"OAuth client for logins: {'set' if status.oauth_client else 'not set'}")
    if status.project:
        lines.append(f"Project: {status.project}")
    lines += [_bucket(bucket) for bucket in status.quota or ()]
    return "".join(f"{one_line(line)}\n" for line in lines)


def _bucket(bucket: QuotaBucket) -> str:
    left = f"{bucket.remaining_fraction:.0%}" if bucket.remaining_fraction is not None else "?"
    amount = f" ({bucket.remaining_amount})" if bucket.remaining_amount else ""
    reset = f", full again at {bucket.reset_time}" if bucket.reset_time else ""
    return f"Quota of {bucket.model_id or 'all models'}: {left} left{amount}{reset}"


def _login(files: PrivateFiles, *, refreshable: bool) -> LoginState | None:
    store = LoginStore(files)
    found = store.load()
    if found is None:
        return None
    ends = found.expires_at
    return LoginState(
        account=store.account(),
        expires_at=_shown(ends) if ends is not None else None,
        expired=not found.access_token or (ends is not None and ends <= time.time()),
        refreshable=refreshable and bool(found.refresh_token),
    )


def _shown(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return None


def _ended(login: LoginState | None) -> str | None:
    if login is None or not login.expired or login.refreshable:
        return None
    return (
        "The login has expired and cannot be renewed: there is no refresh token, or no OAuth "
        "client. Sign in again: alhena auth login."
    )


def _require_generator(environ: Mapping[str, str], settings: Settings, files: PrivateFiles) -> None:
    """Makes what a run would ask, and lets it go: what is missing is said by the same code."""
    from alhena.models.select import ModelChoice, choose_generator

    choose_generator(
        ModelChoice(model="gemini", environ=environ, settings=settings, private_files=lambda: files)
    )
