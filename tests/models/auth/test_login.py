"""Signing in by a browser on this machine."""

import asyncio
import socket
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.errors import ConfigError, ServerFaultError
from alhena.models.auth.authorization import DONE, FAILED, STRAY, Callback, listening, new_attempt
from alhena.models.auth.login import LoginWays, ways_from
from alhena.models.errors import CredentialsError
from tests.models.auth.kit import ScriptedPerson, accounts, get, kept, login
from tests.support.disk import mode
from tests.support.google import ADDRESS, GoogleServer
from tests.support.ports import reserved_port
from tests.support.server import Reply, json_reply


def agreeing(google: GoogleServer) -> ScriptedPerson:
    return ScriptedPerson(lambda url: get(google.consent(url)))


@pytest.mark.requirement("WIRE-16")
async def test_a_login_by_browser_is_kept_for_its_owner_only(
    google: GoogleServer, home: Path
) -> None:
    person = agreeing(google)
    assert await login(google, home, person).run(LoginWays()) == ADDRESS
    person.done()
    found = kept(home)
    assert found["access_token"] in google.access_tokens
    assert found["refresh_token"] in google.refresh_tokens
    assert found["token_type"] == "Bearer"
    assert isinstance(found["expiry_date"], int)
    assert mode(home / "oauth_creds.json") == 0o600
    assert accounts(home) == {"active": ADDRESS, "old": []}
    status, page = person.pages[0]
    assert (status, DONE in page) == (200, True)
    assert sorted(path.name for path in home.iterdir()) == [
        "google_accounts.json",
        "oauth_creds.json",
    ]


async def test_the_browser_comes_back_to_loopback_with_a_state_of_its_own(
    google: GoogleServer, home: Path
) -> None:
    states: set[str] = set()
    for _ in range(2):
        person = agreeing(google)
        await login(google, home, person).run(LoginWays())
        person.done()
        fields = parse_qs(urlsplit(person.opened[0]).query)
        back = urlsplit(fields["redirect_uri"][0])
        assert (back.scheme, back.hostname, back.path) == ("http", "127.0.0.1", "/oauth2callback")
        assert person.opened[0] in person.told
        states.add(fields["state"][0])
    assert len(states) == 2
    assert all(len(state) >= 43 for state in states)


async def test_nothing_secret_is_on_the_page_or_in_what_is_told(
    google: GoogleServer, home: Path
) -> None:
    person = agreeing(google)
    await login(google, home, person).run(LoginWays())
    person.done()
    shown = person.pages[0][1] + "".join(person.told)
    for secret in (*google.access_tokens, *google.refresh_tokens, "very-secret", "GOCSPX"):
        assert secret not in shown


async def test_a_connection_that_the_browser_keeps_in_advance_is_not_waited_for() -> None:
    async with asyncio.timeout(5):  # a connection may take ten seconds to ask
        async with listening() as callback:
            back = urlsplit(callback.attempt.redirect_uri)
            reader, writer = await asyncio.open_connection("127.0.0.1", back.port)
            while not callback._serving:
                await asyncio.sleep(0)
        assert await reader.read() == b""
    writer.close()


async def test_what_belongs_to_another_login_is_turned_away_and_this_one_goes_on(
    google: GoogleServer, home: Path
) -> None:
    def browse(url: str) -> list[int]:
        good = google.consent(url)
        base = good.partition("?")[0]
        tried = (
            base.replace("/oauth2callback", "/favicon.ico"),
            base,
            f"{base}?code=stolen",
            f"{base}?state=other&code=stolen",
            f"{good}&state=other",
            f"{base}?error=access_denied",
            f"{base}?" + "&".join(f"a{n}=1" for n in range(99)),
        )
        found = [get(address)[0] for address in tried]
        found.append(get(good, "POST")[0])
        port = urlsplit(good).port
        assert port is not None
        for junk in (b"", b"\x16\x03\x01\x00\xa5" * 99 + b"\r\n\r\n", b"GET /" + b"a" * 70_000):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(junk)
        return [*found, get(good)[0]]

    person = ScriptedPerson(browse)
    assert await login(google, home, person).run(LoginWays()) == ADDRESS
    person.done()
    assert person.pages == [[404, 400, 400, 400, 400, 400, 400, 405, 200]]
    assert kept(home)["access_token"] in google.access_tokens


async def test_a_refusal_ends_the_login_with_its_reason_and_keeps_nothing(
    google: GoogleServer, home: Path
) -> None:
    def browse(url: str) -> tuple[int, str]:
        back = google.consent(url).partition("&code=")[0]
        return get(f"{back}&error=access_denied&error_description=%1b%5b31mno%0athanks")

    person = ScriptedPerson(browse)
    with pytest.raises(CredentialsError, match="access_denied") as caught:
        await login(google, home, person).run(LoginWays())
    person.done()
    assert caught.value.exit_code == 41
    assert str(caught.value).isprintable()
    assert FAILED in person.pages[0][1]
    assert "access_denied" not in person.pages[0][1]
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("status", [400, 503])
async def test_a_code_that_gives_no_token_is_told_on_the_page_and_here(
    google: GoogleServer, home: Path, status: int
) -> None:
    google.routes["/token"] = lambda received: json_reply(
        {"error": "odd", "error_description": received.body.decode()}, status
    )
    person = agreeing(google)
    expected = CredentialsError if status == 400 else ServerFaultError
    with pytest.raises(expected) as caught:
        await login(google, home, person).run(LoginWays())
    person.done()
    assert FAILED in person.pages[0][1]
    assert "very-secret" not in str(caught.value)
    assert "GOCSPX" not in str(caught.value)
    assert list(home.iterdir()) == []


async def test_a_person_who_does_not_come_back_is_not_waited_for_without_end(
    google: GoogleServer, home: Path
) -> None:
    person = ScriptedPerson(lambda url: None)
    with pytest.raises(CredentialsError, match="no sign-in within"):
        await login(google, home, person).run(LoginWays(limit=0.01))
    assert list(home.iterdir()) == []


async def test_a_login_that_is_given_up_leaves_its_port(google: GoogleServer, home: Path) -> None:
    opened = asyncio.Event()
    loop = asyncio.get_running_loop()
    person = ScriptedPerson(lambda url: loop.call_soon_threadsafe(opened.set))
    running = asyncio.create_task(login(google, home, person).run(LoginWays()))
    await opened.wait()
    port = urlsplit(parse_qs(urlsplit(person.opened[0]).query)["redirect_uri"][0]).port
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    person.done()
    assert port is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


async def test_a_port_that_was_asked_for_is_used_or_named(google: GoogleServer, home: Path) -> None:
    person = agreeing(google)
    with reserved_port() as port:
        ways = ways_from({"OAUTH_CALLBACK_PORT": str(port), "DISPLAY": ":0"})
        assert ways == LoginWays(browser=True, port=port)
        with (
            socket.create_server(("127.0.0.1", port)),
            pytest.raises(ConfigError, match=f"{port}.*OAUTH_CALLBACK_PORT"),
        ):
            await login(google, home, agreeing(google)).run(ways)
        await login(google, home, person).run(ways)
    person.done()
    assert f"127.0.0.1%3A{port}%2Foauth2callback" in person.opened[0]


@pytest.mark.parametrize("port", ["0", "65536", "-1", "http", "8\u0660"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(ConfigError, match="OAUTH_CALLBACK_PORT"):
        ways_from({"OAUTH_CALLBACK_PORT": port})


async def test_a_browser_that_does_not_start_leaves_the_address(
    google: GoogleServer, home: Path
) -> None:
    person = ScriptedPerson(None)
    with pytest.raises(CredentialsError):
        await login(google, home, person).run(LoginWays(limit=0.05))
    assert person.opened[0] in person.told
    assert any("No browser" in line for line in person.told)


async def test_a_login_without_a_known_account_still_holds(
    google: GoogleServer, home: Path
) -> None:
    first = agreeing(google)
    await login(google, home, first).run(LoginWays())
    first.done()
    google.routes["/userinfo"] = lambda _: Reply(status=503)
    second = agreeing(google)
    assert await login(google, home, second).run(LoginWays()) is None
    second.done()
    assert kept(home)["access_token"] in google.access_tokens
    assert accounts(home) == {"active": None, "old": [ADDRESS]}
    assert any("could not be found out" in line for line in second.told)


def test_no_request_but_the_right_one_gives_a_code_or_breaks_the_server() -> None:
    async def answered(head: bytes) -> int:
        callback = Callback(new_attempt("http://127.0.0.1:1/oauth2callback"))
        status, page = await callback._answer(head)
        assert not callback._code.done()
        assert page in (STRAY, FAILED)
        await callback.aclose()
        return status

    lines = st.one_of(
        st.binary(max_size=80),
        st.text(max_size=40).map(lambda text: f"GET /oauth2callback?{text} HTTP/1.1".encode()),
        st.text(max_size=40).map(lambda text: f"GET {text} HTTP/1.1".encode()),
    )

    @given(lines)
    def check(line: bytes) -> None:
        assert asyncio.run(answered(line + b"\r\n\r\n")) in {400, 404, 405}

    check()
