"""Signing in by a code that is pasted."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from alhena.models.auth.authorization import has_browser
from alhena.models.auth.exchange import PASTE_PAGE, OAuthClient
from alhena.models.auth.login import LoginWays, NoAnswerError
from alhena.models.errors import CredentialsError
from tests.models.auth.kit import ScriptedPerson, kept, login
from tests.support.each import for_each
from tests.support.google import ADDRESS, GoogleServer

PASTED = LoginWays(browser=False)
Paste = Callable[[str], str]


def code_of(google: GoogleServer) -> Paste:
    return lambda url: parse_qs(urlsplit(google.consent(url)).query)["code"][0]


@pytest.mark.requirement("WIRE-16")
async def test_a_pasted_code_signs_in(google: GoogleServer, home: Path) -> None:
    code = code_of(google)
    person = ScriptedPerson(answers=[lambda url: f"  {code(url)}\r\n"])
    assert await login(google, home, person).run(PASTED) == ADDRESS
    assert kept(home)["refresh_token"] in google.refresh_tokens
    assert person.opened == []
    [url] = [line for line in person.told if line.startswith("http")]
    assert parse_qs(urlsplit(url).query)["redirect_uri"] == [PASTE_PAGE]


async def test_the_whole_address_can_be_pasted(google: GoogleServer, home: Path) -> None:
    person = ScriptedPerson(answers=[google.consent])
    assert await login(google, home, person).run(PASTED) == ADDRESS


async def test_an_address_of_another_login_is_refused(google: GoogleServer, home: Path) -> None:
    def forged(url: str) -> str:
        return google.consent(url).replace("state=", "state=0")

    with pytest.raises(CredentialsError, match="another login"):
        await login(google, home, ScriptedPerson(answers=[forged, forged])).run(PASTED)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("wrong", ["nonsense", "", "two words", "\udcff", "https://[", "é"])
async def test_there_is_a_second_attempt_with_an_address_of_its_own(
    google: GoogleServer, home: Path, wrong: str
) -> None:
    person = ScriptedPerson(answers=[lambda _: wrong, code_of(google)])
    assert await login(google, home, person).run(PASTED) == ADDRESS
    urls = [line for line in person.told if line.startswith("http")]
    assert len(set(urls)) == 2


async def test_there_is_no_third_attempt(google: GoogleServer, home: Path) -> None:
    person = ScriptedPerson(answers=[lambda _: "a", lambda _: "b", code_of(google)])
    with pytest.raises(CredentialsError, match=r"invalid_grant.*code is not whole"):
        await login(google, home, person).run(PASTED)
    assert list(home.iterdir()) == []


async def test_without_anybody_to_paste_it_ends(google: GoogleServer, home: Path) -> None:
    person = ScriptedPerson(answers=[None])
    with pytest.raises(NoAnswerError, match="at a terminal"):
        await login(google, home, person).run(PASTED)


async def test_a_wrong_client_is_told_without_its_secret(google: GoogleServer, home: Path) -> None:
    person = ScriptedPerson(answers=[lambda _: "4/code", lambda _: "4/code"])
    client = OAuthClient(id="other", secret="GOCSPX-other-secret")
    with pytest.raises(CredentialsError, match=r"invalid_client.*ALHENA_OAUTH_CLIENT_ID") as caught:
        await login(google, home, person, client).run(PASTED)
    assert "GOCSPX" not in str(caught.value)


@for_each(
    ("environ", "platform", "found"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"DISPLAY": ":0", "SSH_CONNECTION": "a b"}, "linux", True),
        ({}, "linux", False),
        ({"DISPLAY": ""}, "linux", False),
        ({"DISPLAY": ":0", "NO_BROWSER": "true"}, "linux", False),
        ({"DISPLAY": ":0", "CI": "1"}, "linux", False),
        ({"DISPLAY": ":0", "BROWSER": "/usr/bin/w3m"}, "linux", False),
        ({"DISPLAY": ":0", "DEBIAN_FRONTEND": "noninteractive"}, "linux", False),
        ({}, "darwin", True),
        ({"SSH_CONNECTION": "a b"}, "darwin", False),
    ],
)
def test_a_browser_is_there_or_not(environ: dict[str, str], platform: str, found: bool) -> None:
    assert has_browser(environ, platform) is found
