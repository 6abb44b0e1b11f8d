"""Asks how to reach a model, before a session that has no credentials begins."""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from alhena.config.effective_settings import Place
from alhena.config.home import config_home, user_settings_path
from alhena.display_text import one_line
from alhena.errors import AlhenaError
from alhena.frontends.shared.arguments import RunArguments
from alhena.frontends.shared.current_settings import save_choices
from alhena.frontends.shared.files import write_setting
from alhena.frontends.terminal.drawing.lines import Line, line
from alhena.frontends.terminal.drawing.menu import Menu, MenuOption
from alhena.frontends.terminal.drawing.screen import Screen
from alhena.frontends.terminal.session_commands import SignInPerson
from alhena.models.auth.store import LoginStore, save_key
from alhena.models.catalogue import DEMO, OPENAI
from alhena.models.errors import PERSONAL_ENDED, CredentialsError
from alhena.models.providers.select import KEY_PAGE, AuthType
from alhena.system.private_files import PrivateFiles
from alhena.wire.json_values import is_token

Show = Callable[[list[Line]], None]
PATIENCE_S = 5.0
"""Seconds that a service may take to list its models."""
LOCAL = "http://localhost:11434/v1"
MAX_MODELS = 20
MENU = Menu(
    title="Connect to a model",
    options=(
        MenuOption(label="Paste an API key", key="k", detail=f"from {KEY_PAGE}"),
        MenuOption(
            label="Sign in with a Google account",
            key="s",
            detail="Standard, Enterprise licences",
        ),
        MenuOption(label="Use a local model", key="l", detail="Ollama, llama.cpp, vLLM"),
        MenuOption(label="Demo mode", key="d", detail="fixed rules, no model; /auth ends it"),
    ),
    escape="leave",
)


async def ask_access(
    arguments: RunArguments, place: Place, screen: Screen, show: Show
) -> RunArguments | None:
    """Offers ways to a model until one works, and saves it; returns the arguments to start with,
    None when the person leaves: then nothing is saved."""
    show([line("! No API key found (GEMINI_API_KEY), and no other access to a model.", "warning")])
    while True:
        picked = await screen.choose(MENU)
        try:
            if not picked:
                return None
            way = min(picked)
            if way == len(_WAYS):
                save_choices(place.environ, demo=True)
                return msgspec.structs.replace(arguments, model=DEMO)
            if await _WAYS[way](place, screen, show):
                return arguments
        except AlhenaError as error:
            show([line(f"✗ {one_line(str(error))}", "error")])


async def change_access(place: Place, screen: Screen, show: Show) -> bool:
    """Offers ways to a model and saves the one that works; False when nothing was saved."""
    if place.environ.get("GEMINI_API_KEY"):
        show([line("! GEMINI_API_KEY is set: it is used before a saved key.", "warning")])
    picked = await screen.choose(
        msgspec.structs.replace(MENU, options=MENU.options[:-1], escape="back")
    )
    try:
        return bool(picked) and await _WAYS[min(picked)](place, screen, show)
    except AlhenaError as error:
        show([line(f"✗ {one_line(str(error))}", "error")])
        return False


async def _paste_key(place: Place, screen: Screen, show: Show) -> bool:
    key = await screen.ask_text("API key (hidden):", secret=True)
    if not key:
        return False
    if not is_token(key):
        raise CredentialsError("That is no API key: it contains blanks or unusual characters.")
    problem = await _refusal(place.environ, key)
    if isinstance(problem, CredentialsError):
        raise CredentialsError(f"The key was not saved: {problem.message}")
    files = PrivateFiles(config_home(place.environ))
    show([line(f"  Saved in {one_line(str(save_key(files, key)))}, readable only by you.", "dim")])
    if problem is not None:
        show([line(f"! The key could not be checked: {one_line(str(problem), 300)}", "warning")])
    return True


async def _refusal(environ: Mapping[str, str], key: str) -> AlhenaError | None:
    """The error of a request with this key."""
    from alhena.models.providers.gemini_api import GeminiApi, service_from

    try:
        api = GeminiApi(service_from(environ, key), environ=environ)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await api.models()
        finally:
            await api.aclose()
    except AlhenaError as error:
        return error
    except TimeoutError:
        return AlhenaError("the service did not answer in time.")
    return None


async def _sign_in(place: Place, screen: Screen, show: Show) -> bool:
    from alhena.models.auth.exchange import TokenEndpoint, find_addresses, find_client
    from alhena.models.auth.login import Login, ways_from

    show([line(f"! {PERSONAL_ENDED}", "warning")])
    client = find_client(place.environ, place.settings.security.auth.oauth)
    if client is None:
        show(
            [
                line("! Signing in needs an OAuth client of your own (free):", "warning"),
                line("  1. https://console.cloud.google.com/apis/credentials, type Desktop app"),
                line("  2. set ALHENA_OAUTH_CLIENT_ID and ALHENA_OAUTH_CLIENT_SECRET to it"),
                line("  3. start alhena again, or run `alhena auth login`"),
            ]
        )
        return False
    store = LoginStore(PrivateFiles(config_home(place.environ)))
    endpoint = TokenEndpoint(find_addresses(place.environ), environ=place.environ)
    login = Login(client, endpoint, store, _Person(screen, show))
    account = await login.run(ways_from(place.environ))
    show([line(f"  Signed in{f' as {one_line(account)}' if account else ''}.", "ok")])
    write_setting(
        user_settings_path(place.environ), ("security", "auth", "selectedType"), AuthType.LOGIN
    )
    return True


class _Person(SignInPerson):
    def __init__(self, screen: Screen, show: Show) -> None:
        super().__init__(show)
        self._screen = screen

    async def ask(self, question: str) -> str | None:
        """Asks for a line."""
        return await self._screen.ask_text(question.strip())


async def _use_local(place: Place, screen: Screen, show: Show) -> bool:
    from alhena.models.providers.openai_compatible import openai_from

    address = await screen.ask_text("Address of the server:", LOCAL)
    if address is None:
        return False
    address = address or LOCAL
    server = openai_from({**place.environ, "OPENAI_BASE_URL": address})
    try:
        async with asyncio.timeout(PATIENCE_S):
            names = await server.models()
    except TimeoutError:
        raise AlhenaError(f"{address} did not answer in time.") from None
    finally:
        await server.aclose()
    if not names:
        raise AlhenaError(f"{address} has no models.")
    options = tuple(MenuOption(label=one_line(name, 100)) for name in names[:MAX_MODELS])
    picked = await screen.choose(Menu(title="Model", options=options, search=""))
    if not picked:
        return False
    files = PrivateFiles(config_home(place.environ))
    before = files.read(".env") or b""
    gap = b"" if not before or before.endswith(b"\n") else b"\n"
    files.write(".env", before + gap + f"OPENAI_BASE_URL={address}\n".encode())
    write_setting(
        user_settings_path(place.environ), ("model", "name"), f"{OPENAI}{names[min(picked)]}"
    )
    show([line(f"  Saved: OPENAI_BASE_URL in {one_line(str(files.path('.env')))}", "dim")])
    return True


_WAYS = (_paste_key, _sign_in, _use_local)
"""The options of the menu as functions, without demo mode."""
