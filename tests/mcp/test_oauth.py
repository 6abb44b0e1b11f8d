"""Signing in to a real server, and the tokens that come of it."""

import asyncio
import stat
from pathlib import Path

import httpx2
import pytest
from starlette.responses import JSONResponse, Response

from alhena.agent.toolset.mcp import stored_access
from alhena.mcp.server import ServerState
from tests.mcp.kit import called, rigged
from tests.mcp.oauth_kit import entry, environ, kept, sign
from tests.mcp.oauth_server import ASM, PRM, OAuthServer, redirect_of, running
from tests.models.auth.kit import ScriptedPerson, get
from tests.support.ports import reserved_port


@pytest.mark.requirement("MCP-07")
async def test_a_sign_in_finds_out_where_registers_and_keeps_tokens_for_their_owner_only(
    guarded: OAuthServer, home: Path
) -> None:
    person = ScriptedPerson(get)
    await sign(guarded, person)
    (page,) = person.pages
    assert page[0] == 200
    assert "You are signed in." in page[1]
    (found,) = kept(home)
    assert found["serverName"] == "g"
    assert found["token"]["accessToken"] in guarded.tokens
    assert found["token"]["refreshToken"] in guarded.refresh_tokens
    assert found["token"]["tokenType"] == "Bearer"
    assert found["token"]["scope"] == "tools"
    assert isinstance(found["token"]["expiresAt"], int)
    assert found["clientId"] == "client-0"
    assert found["tokenUrl"] == f"{guarded.url}/token"
    assert found["mcpServerUrl"] == guarded.mcp
    assert isinstance(found["updatedAt"], int)
    file = home / ".gemini" / "mcp-oauth-tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sorted(path.name for path in file.parent.iterdir()) == ["mcp-oauth-tokens.json"]
    asked = redirect_of(person.opened[0])
    assert asked["scope"] == "tools"
    assert asked["redirect_uri"].startswith("http://localhost:")
    assert asked["redirect_uri"].endswith("/oauth/callback")
    assert guarded.clients["client-0"]["redirect_uris"] == [asked["redirect_uri"]]


@pytest.mark.requirement("MCP-07")
async def test_tools_are_there_once_somebody_has_signed_in_and_nobody_is_sent_to_a_browser_before(
    guarded: OAuthServer, project: Path
) -> None:
    said: list[str] = []
    access = stored_access(environ(), said.append)
    async with rigged({"g": entry(guarded)}, project, auth=access) as rig:
        assert rig.server("g").state is ServerState.NEEDS_AUTH
        assert "alhena mcp auth g" in rig.warnings[0]
        assert not any(path == "/authorize" for _, path, _ in guarded.asked)
        assert not guarded.clients
        await sign(guarded)
        rig.server("g").start()
        await rig.until(lambda: rig.server("g").state is ServerState.CONNECTED)
        assert (await called(rig, "echo", {"text": "x"})).display == "echo: x"
    assert said == []


async def test_nothing_secret_is_told_or_shows_in_a_repr(guarded: OAuthServer, home: Path) -> None:
    person = ScriptedPerson(get)
    guarded.secret = "client-very-secret"
    token = await sign(guarded, person)
    shown = "".join((*person.told, repr(token), str(token), person.pages[0][1]))
    assert "very-secret" not in shown
    assert kept(home)[0]["alhena"]["clientSecret"] == "client-very-secret"


@pytest.mark.requirement("MCP-07")
async def test_a_token_goes_to_the_server_it_was_given_for_and_nowhere_else(
    guarded: OAuthServer, project: Path
) -> None:
    await sign(guarded)
    with running() as other:
        access = stored_access(environ(), lambda _text: None)
        async with rigged({"g": entry(other)}, project, auth=access) as rig:
            assert rig.server("g").state is ServerState.NEEDS_AUTH
        assert other.shown
        assert set(other.shown) == {None}
        assert other.count("/token") == 0


async def test_the_client_of_the_settings_is_taken_as_it_is(
    guarded: OAuthServer, home: Path
) -> None:
    guarded.secret = "given-very-secret"
    guarded.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    person = ScriptedPerson(get)
    given = {
        "enabled": True,
        "clientId": "mine",
        "clientSecret": guarded.secret,
        "scopes": ["a", "b"],
        "audiences": ["one", "two"],
    }
    await sign(guarded, person, oauth=given)
    assert not guarded.clients
    asked = redirect_of(person.opened[0])
    assert (asked["client_id"], asked["scope"], asked["audience"]) == ("mine", "a b", "one two")
    assert guarded.form("/token")["audience"] == "one two"
    assert kept(home)[0]["clientId"] == "mine"


async def test_addresses_of_the_settings_need_no_discovery(
    guarded: OAuthServer, home: Path
) -> None:
    given = {
        "clientId": "mine",
        "authorizationUrl": f"{guarded.url}/authorize?tenant=t",
        "tokenUrl": f"{guarded.url}/token",
    }
    person = ScriptedPerson(get)
    await sign(guarded, person, oauth=given)
    assert {path for _, path, _ in guarded.asked} == {"/authorize", "/token"}
    assert redirect_of(person.opened[0])["tenant"] == "t"
    assert kept(home)[0]["token"]["accessToken"] in guarded.tokens


async def test_a_redirect_address_of_the_settings_is_where_the_browser_comes_back(
    guarded: OAuthServer,
) -> None:
    person = ScriptedPerson(get)
    with reserved_port() as port:
        uri = f"http://localhost:{port}/back/here"
        await sign(guarded, person, oauth={"redirectUri": uri})
    assert redirect_of(person.opened[0])["redirect_uri"] == uri
    assert person.pages[0][0] == 200


async def test_openid_metadata_will_do_and_a_server_without_any_is_its_own(
    guarded: OAuthServer, home: Path
) -> None:
    nothing = Response(status_code=404)
    guarded.answers(ASM, lambda: nothing)
    guarded.answers("/.well-known/openid-configuration", lambda: JSONResponse(guarded.metadata))
    await sign(guarded)
    guarded.answers("/.well-known/openid-configuration", lambda: nothing)
    guarded.answers(PRM, lambda: nothing)
    await sign(guarded)
    assert len(kept(home)) == 1
    assert guarded.count("/register") == 2


def ended_at(url: str) -> str:
    """Final address of a browser on another machine, which cannot reach this one."""
    return httpx2.get(url, follow_redirects=False).headers["location"]


async def test_a_browser_elsewhere_will_do_when_its_last_address_is_pasted(
    guarded: OAuthServer,
) -> None:
    pastes = [lambda _url: "http://localhost/?code=x&state=y", ended_at]
    person = ScriptedPerson(None, pastes)
    token = await sign(guarded, person, environ(NO_BROWSER="1"))
    assert token.access_token in guarded.tokens
    assert person.opened == []
    assert "That is not it: what came back belongs to another login" in "".join(person.told)


async def test_nobody_to_paste_anything_leaves_the_browser_of_this_machine(
    guarded: OAuthServer,
) -> None:
    person = ScriptedPerson(None, [None])
    signing = asyncio.create_task(sign(guarded, person, environ(NO_BROWSER="1")))
    while not any(line.startswith("http") for line in person.told):
        await asyncio.sleep(0.01)
    status, _ = await asyncio.to_thread(get, person.told[1])
    assert status == 200
    assert (await signing).access_token in guarded.tokens
