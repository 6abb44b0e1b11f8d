"""`alhena auth`: signing in with a Google account, out again, and who answers as things are."""

import asyncio
import os
from typing import TYPE_CHECKING

from alhena.config.home import config_home
from alhena.config.place import Place
from alhena.display_text import one_line
from alhena.frontends.here import place_here
from alhena.frontends.streams import write_json, write_stderr, write_stdout
from alhena.models.auth.store import LoginStore, alone
from alhena.system.private_files import PrivateFiles

if TYPE_CHECKING:
    from argparse import Namespace

    from alhena.models.code_assist.account import Account

USAGE = """\
usage: alhena auth login [--no-browser]
       alhena auth status [--json] [--quota]
       alhena auth logout

login: signs in with a Google account, for the models of Code Assist, in your browser.

  --no-browser   shows an address instead, for a browser anywhere, and takes the code it ends with

status: how a run would sign in to its model, and whether it can; exit code 41 when it cannot. No
token is ever shown.

  --json         JSON instead of sentences
  --quota        asks Code Assist what is left of the quota

logout: forgets the login on this machine.
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena auth ARGV`; returns the exit code."""
    if "-h" in argv or "--help" in argv:
        write_stdout(USAGE)
        return 0
    options = _options(argv)
    place = place_here()
    files = PrivateFiles(config_home(os.environ))
    if options.command == "login":
        return asyncio.run(_login(place, files, browser=not options.no_browser))
    if options.command == "logout":
        return asyncio.run(_logout(place, files))
    return asyncio.run(_status(options, place, files))


def _options(argv: list[str]) -> "Namespace":
    from alhena.frontends.cli.arguments import Parser

    parser = Parser(prog="alhena auth", add_help=False, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    login, status, logout = (
        commands.add_parser(name, add_help=False) for name in ("login", "status", "logout")
    )
    login.add_argument("--no-browser", action="store_true")
    status.add_argument("--json", action="store_true")
    status.add_argument("--quota", action="store_true")
    for each in (login, status, logout):
        each.add_argument("-d", "--debug", action="store_true")
    return parser.parse_args(argv)


async def _login(place: Place, files: PrivateFiles, *, browser: bool) -> int:
    from alhena.frontends.cli.auth_person import TerminalPerson
    from alhena.models.auth.exchange import (
        TokenEndpoint,
        find_addresses,
        find_client,
        require_client,
    )
    from alhena.models.auth.login import Login, ways_from
    from alhena.models.code_assist.generator import project_from

    environ = place.environ
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


async def _account(place: Place, files: PrivateFiles) -> "Account":
    """The account at Code Assist, signed up if it is new there; by the login and no other token."""
    from alhena.models.code_assist.generator import for_login

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
    """What is still to be done so that runs use the login; None when they do."""
    from alhena.errors import AlhenaError
    from alhena.models.auth_type import AuthType, auth_type

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
    store = LoginStore(files)
    async with alone(store):
        there = store.forget()
    write_stdout("Signed out.\n" if there else "Nobody was signed in.\n")
    if place.environ.get("GOOGLE_CLOUD_ACCESS_TOKEN"):
        write_stderr("alhena: note: GOOGLE_CLOUD_ACCESS_TOKEN is set, and still let in.\n")
    return 0


async def _status(options: "Namespace", place: Place, files: PrivateFiles) -> int:
    from alhena.frontends.cli.auth_status import described, find_status, with_quota

    environ, settings = place.environ, place.settings
    status = find_status(environ, settings, files)
    if options.quota:
        status = await with_quota(status, environ, settings, files)
    if options.json:
        write_json(status)
    else:
        write_stdout(described(status))
    return 0 if status.ready else 41
