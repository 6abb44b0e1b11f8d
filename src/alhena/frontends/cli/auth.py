"""alhena auth: signing in with a Google account, out again, and the status of it."""

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from alhena.config.effective_settings import Place
from alhena.config.home import config_home
from alhena.config.settings import Settings
from alhena.display_text import one_line
from alhena.errors import AlhenaError
from alhena.frontends.shared.arguments import parse_command
from alhena.frontends.shared.current_settings import place_here
from alhena.frontends.shared.streams import write_json, write_stderr, write_stdout
from alhena.models.auth.authorization import open_browser
from alhena.models.auth.exchange import find_client
from alhena.models.auth.login import signed_in
from alhena.models.auth.store import (
    CREDENTIALS_FILE,
    KEY_FILE,
    LoginStore,
    load_key,
    sign_out,
)
from alhena.models.errors import PERSONAL_ENDED, CredentialsError
from alhena.models.providers.code_assist_setup import QuotaBucket
from alhena.models.providers.select import AuthType, api_key, auth_type
from alhena.system.private_files import PrivateFiles

if TYPE_CHECKING:
    from argparse import Namespace

    from alhena.models.providers.code_assist_setup import CodeAssistAccount

USAGE = """\
usage: alhena auth login [--no-browser]
       alhena auth status [--json] [--quota]
       alhena auth logout

login: signs in to Code Assist with a Google account, in your browser. Code Assist ended for
personal accounts on 2026-06-18: the account needs a Standard or Enterprise licence. An API key
(GEMINI_API_KEY) and Vertex AI need no login. It takes an OAuth client of your own: create one of
type Desktop app at https://console.cloud.google.com/apis/credentials, and set
ALHENA_OAUTH_CLIENT_ID and ALHENA_OAUTH_CLIENT_SECRET.

  --no-browser   print the address for a browser on any machine, and read the code it shows

status: shows how a run would sign in; exit code 41 when it cannot. Prints no token.

  --json         print JSON
  --quota        also ask Code Assist for the remaining quota

logout: deletes the login, and the API key saved at the first start, from this machine.
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena auth ARGV`; returns the exit code."""
    options = parse_command(
        "alhena auth", argv, {"login": "--no-browser", "status": "--json --quota", "logout": ""}
    )
    place = place_here()
    files = PrivateFiles(config_home(os.environ))
    if options.command == "login":
        return asyncio.run(_login(place, files, browser=not options.no_browser))
    if options.command == "logout":
        return asyncio.run(_logout(place, files))
    return asyncio.run(_status(options, place, files))


async def _login(place: Place, files: PrivateFiles, *, browser: bool) -> int:
    from alhena.models.auth.exchange import (
        TokenEndpoint,
        find_addresses,
        require_client,
    )
    from alhena.models.auth.login import Login, ways_from
    from alhena.models.providers.code_assist import project_from

    environ = place.environ
    write_stdout(f"{PERSONAL_ENDED}\n")
    client = require_client(find_client(environ, place.settings.security.auth.oauth))
    endpoint = TokenEndpoint(find_addresses(environ), environ=environ)
    project_from(environ)  # what is wrong with it is better said before than after
    login = Login(client, endpoint, LoginStore(files), TerminalPerson())
    address = await login.run(ways_from(environ, browser=browser))
    write_stdout(f"Signed in{f' as {one_line(address)}' if address else ''}.\n")
    account = await _account(place, files)
    tier = account.tier_name or account.tier or "unknown"
    write_stdout(f"Code Assist tier: {one_line(tier)}; project: {one_line(account.project)}\n")
    if (advice := _advice(place)) is not None:
        write_stdout(f"{advice}\n")
    return 0


async def _account(place: Place, files: PrivateFiles) -> "CodeAssistAccount":
    """The account at Code Assist, signed up if it is new there; by the login and no other token."""
    from alhena.models.providers.code_assist import for_login

    environ = {name: value for name, value in place.environ.items() if name not in _OTHER_TOKENS}
    generator = for_login(
        environ,
        files,
        place.settings.security.auth.oauth,
        tell=lambda text: write_stdout(f"{one_line(text)}\n"),
    )
    try:
        return await generator.account()
    finally:
        await generator.aclose()


_OTHER_TOKENS = ("GOOGLE_CLOUD_ACCESS_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS")


def _advice(place: Place) -> str | None:
    """The remaining step before runs use the login; None when there is none."""
    try:
        if auth_type(place.settings.security.auth, place.environ) is AuthType.LOGIN:
            return None
    except AlhenaError as error:
        return f"To use it: {one_line(str(error))}"
    return (
        "To use it, set GOOGLE_GENAI_USE_GCA=true, or security.auth.selectedType to "
        f'"{AuthType.LOGIN}" in settings.json.'
    )


async def _logout(place: Place, files: PrivateFiles) -> int:
    there, key = await sign_out(files)
    if key:
        write_stdout("The saved API key is deleted.\n")
    write_stdout("Signed out.\n" if there else "You are not signed in.\n")
    if place.environ.get("GOOGLE_CLOUD_ACCESS_TOKEN"):
        write_stderr("alhena: note: GOOGLE_CLOUD_ACCESS_TOKEN is set and still gives access.\n")
    return 0


async def _status(options: "Namespace", place: Place, files: PrivateFiles) -> int:

    environ, settings = place.environ, place.settings
    status = find_status(environ, settings, files)
    if options.quota:
        status = await with_quota(status, environ, settings, files)
    if options.json:
        write_json(status)
    else:
        write_stdout(status_text(status))
    return 0 if status.ready else 41


_LONGEST = 16 * 1024


class TerminalPerson:
    """Lines go to standard output; answers come from standard input."""

    def __init__(self, source: int = 0) -> None:
        self._source = source
        self._read = b""

    def tell(self, text: str) -> None:
        """Shows a line. Addresses are left whole, so that they can be copied."""
        write_stdout(f"{text}\n")

    async def ask(self, question: str) -> str | None:
        """A line of standard input; None at its end, or when it is closed. It is not read by
        sys.stdin on a thread, which would keep the program from ending."""
        write_stdout(question)
        while b"\n" not in self._read and len(self._read) < _LONGEST:
            await self._ready()
            try:
                data = os.read(self._source, _LONGEST)
            except OSError:
                data = b""
            if not data:
                break
            self._read += data
        line, ended, self._read = self._read.partition(b"\n")
        return line.decode("utf-8", "replace") if line or ended else None

    async def _ready(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        with suppress(OSError, ValueError):  # a file is always ready
            loop.add_reader(self._source, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(self._source)

    async def open(self, url: str) -> bool:
        """Shows a page in the browser."""
        from alhena.system.own_programs import begin_browser

        return await open_browser(url, begin_browser)


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
    """Finds the sign-in method a run would use, without a request. Raises ConfigError for an
    unusable OAuth client."""
    client = find_client(environ, settings.security.auth.oauth)
    problem: str | None = None
    kind: AuthType | None = None
    source: str | None = None
    login: LoginState | None = None
    try:
        login = _login_status(files, refreshable=client is not None)
        kind = auth_type(settings.security.auth, environ)
        if kind in (None, AuthType.API_KEY) and not api_key(environ) and load_key(files):
            kind, source = AuthType.API_KEY, KEY_FILE
        _require_generator(environ, settings, files)
        if kind is AuthType.LOGIN:
            source = signed_in(environ, files, settings.security.auth.oauth).source
    except AlhenaError as error:
        problem = str(error)
    if source == CREDENTIALS_FILE:
        problem = problem or _expiry_problem(login)
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
    from alhena.models.providers.code_assist import for_login, for_machine

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


def status_text(status: AuthStatus) -> str:
    """The same for a person, as lines."""
    lines = [f"Model access: {status.transport or 'none'}"]
    if status.auth_type is not None:
        lines[0] += f" ({status.auth_type})"
    if status.problem is not None:
        lines.append(f"Problem: {status.problem}")
    if status.token_source is not None:
        what = "key" if status.token_source == KEY_FILE else "token"
        lines.append(f"Source of the {what}: {status.token_source}")
    login = status.login
    if login is None:
        lines.append("Signed in: no")
    else:
        until = f", token until {login.expires_at}" if login.expires_at else ""
        state = " (expired)" if login.expired else ""
        renewed = "is renewed automatically" if login.refreshable else "cannot be renewed"
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


def _login_status(files: PrivateFiles, *, refreshable: bool) -> LoginState | None:
    store = LoginStore(files)
    found = store.load()
    if found is None:
        return None
    ends = found.expires_at
    return LoginState(
        account=store.account(),
        expires_at=None if ends is None else f"{datetime.fromtimestamp(int(ends), UTC):%FT%TZ}",
        expired=not found.access_token or (ends is not None and ends <= time.time()),
        refreshable=refreshable and bool(found.refresh_token),
    )


def _expiry_problem(login: LoginState | None) -> str | None:
    if login is None or not login.expired or login.refreshable:
        return None
    return (
        "The login has expired and cannot be renewed: there is no refresh token, or no OAuth "
        "client. Sign in again: alhena auth login."
    )


def _require_generator(environ: Mapping[str, str], settings: Settings, files: PrivateFiles) -> None:
    """Builds the generator of a run and discards it: the same code reports what is missing."""
    from alhena.models.providers.select import ModelChoice, choose_generator

    choose_generator(
        ModelChoice(model="gemini", environ=environ, settings=settings, private_files=lambda: files)
    )
