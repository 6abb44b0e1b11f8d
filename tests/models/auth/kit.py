"""A person, files and a login, for tests."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from alhena.config.settings import OAuthSettings
from alhena.errors import AlhenaError
from alhena.models.auth.exchange import (
    OAuthClient,
    TokenEndpoint,
    find_addresses,
    find_client,
    require_client,
)
from alhena.models.auth.login import Login, UserLogin
from alhena.models.auth.store import LoginStore
from alhena.system.private_files import LIMIT, PrivateFiles
from tests.support.google import GoogleServer
from tests.support.patience import PATIENCE_S


class ScriptedPerson:
    """`browse` gets each address that is opened in the browser, on a thread of its own; `answers`
    are what they paste, in order (None: there is nobody)."""

    def __init__(
        self,
        browse: Callable[[str], Any] | None = None,
        answers: list[Callable[[str], str] | None] | None = None,
    ) -> None:
        self.told: list[str] = []
        self.opened: list[str] = []
        self.pages: list[Any] = []
        self._browse = browse
        self._answers = list(answers or [])
        self.threads: list[threading.Thread] = []

    def tell(self, text: str) -> None:
        self.told.append(text)

    async def ask(self, question: str) -> str | None:
        self.told.append(question)
        answer = self._answers.pop(0)
        urls = [line for line in self.told if line.startswith("http")]
        return answer(urls[-1]) if answer is not None else None

    async def open(self, url: str) -> bool:
        self.opened.append(url)
        if self._browse is None:
            return False
        browse = self._browse

        def work() -> None:
            self.pages.append(browse(url))

        self.threads.append(threading.Thread(target=work))
        self.threads[-1].start()
        return True

    def done(self) -> None:
        for thread in self.threads:
            thread.join()


def get(url: str, method: str = "GET") -> tuple[int, str]:
    """The status and the page of an address."""
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def login(
    server: GoogleServer,
    home: Path,
    person: ScriptedPerson,
    client: OAuthClient | None = None,
    files: PrivateFiles | None = None,
) -> Login:
    client = client or require_client(find_client(server.environ, OAuthSettings()))
    return Login(client, endpoint(server), LoginStore(files or PrivateFiles(home)), person)


def endpoint(server: GoogleServer) -> TokenEndpoint:
    return TokenEndpoint(find_addresses(server.environ), environ={})


def user(server: GoogleServer, home: Path, *, client: bool = True, **options: Any) -> UserLogin:
    found = find_client(server.environ, OAuthSettings()) if client else None
    return UserLogin(LoginStore(PrivateFiles(home)), endpoint(server), found, **options)


def keep(home: Path, credentials: Any) -> Path:
    path = home / "oauth_creds.json"
    path.write_text(json.dumps(credentials), encoding="utf-8")
    path.chmod(0o600)
    return path


def kept(home: Path) -> Any:
    return json.loads((home / "oauth_creds.json").read_text(encoding="utf-8"))


def accounts(home: Path) -> Any:
    return json.loads((home / "google_accounts.json").read_text(encoding="utf-8"))


class BrokenFiles(PrivateFiles):
    """Files that can be read and not written, as on a disk that is full."""

    def write(self, name: str, data: bytes, limit: int = LIMIT) -> None:
        raise AlhenaError("No space left to write file.")
