"""Signing in to a real server, and the tokens that come of it."""

import asyncio
import stat
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response

from alhena.agent.toolset.mcp import stored_access
from alhena.errors import AlhenaError
from alhena.mcp.oauth.renewal import Renewal
from alhena.mcp.oauth.tokens import SignInError, token_file
from alhena.mcp.server import ServerState
from tests.mcp.kit import called, rigged
from tests.mcp.oauth_kit import entry, environ, kept, server_of, sign
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


SLASHES: dict[str, tuple[str, str, str, str]] = {
    # of the resource, of the metadata, of the browser's answer, of the settings
    "resource": ("/", "", "", ""),
    "metadata": ("", "/", "", ""),
    "answer": ("", "", "/", ""),
    "both ends": ("/", "", "/", ""),
    "settings": ("", "", "", "/"),
    "settings and metadata": ("/", "/", "", "-"),
    "a tenant": ("tenant/", "tenant", "tenant/", "tenant"),
    "of a tenant": ("tenant", "tenant/", "tenant", "tenant/"),
}


@pytest.mark.requirement("MCP-07")
@pytest.mark.parametrize("kind", SLASHES)
async def test_issuers_that_differ_by_a_final_slash_are_one(
    guarded: OAuthServer, kind: str
) -> None:
    listed, told, answered, wanted = SLASHES[kind]

    def issuer(end: str) -> str:
        return f"{guarded.url}/{end}" if end.strip("/") else f"{guarded.url}{end}"

    guarded.resource["authorization_servers"] = [issuer(listed)]
    guarded.metadata["issuer"] = issuer(told)
    guarded.iss = issuer(answered)
    for path in (f"{ASM}/tenant", f"{ASM}/tenant/"):
        guarded.answers(path, lambda: JSONResponse(guarded.metadata))
    oauth: dict[str, Any] = {} if not wanted else {"oauth": {"issuer": issuer(wanted.strip("-"))}}
    token = await sign(guarded, **oauth)
    assert token.access_token in guarded.tokens


async def test_issuers_that_differ_otherwise_are_two(guarded: OAuthServer) -> None:
    guarded.metadata["issuer"] = f"{guarded.url}//"
    with pytest.raises(SignInError, match="issuer mismatch") as caught:
        await sign(guarded)
    assert "mcpServers.g.oauth.authorizationUrl" in str(caught.value)


@pytest.mark.requirement("MCP-07")
async def test_a_server_that_takes_no_resource_is_not_named_one(
    guarded: OAuthServer, home: Path
) -> None:
    guarded.takes_resource = False
    with pytest.raises(AlhenaError) as caught:
        await sign(guarded)
    assert "mcpServers.g.oauth.resource to false" in str(caught.value)
    without: dict[str, Any] = {"oauth": {"resource": False}}
    token = await sign(guarded, **without)
    assert token.access_token in guarded.tokens
    server = server_of(entry(guarded, **without))
    late = Renewal("g", server, token_file(environ()), [].append, now=lambda: time.time() + 4000)
    assert await late.token() in guarded.tokens - {token.access_token}
    assert guarded.form("/token")["grant_type"] == "refresh_token"


@pytest.mark.requirement("MCP-07")
async def test_a_renewal_repeats_the_scopes_that_were_granted(guarded: OAuthServer) -> None:
    token = await sign(guarded)
    assert token.scope == "tools"
    server = server_of(entry(guarded))
    late = Renewal("g", server, token_file(environ()), [].append, now=lambda: time.time() + 4000)
    assert await late.token() in guarded.tokens
    assert guarded.form("/token")["scope"] == "tools"


async def test_who_refuses_is_told_how_to_sign_in_to_the_server(guarded: OAuthServer) -> None:
    def refuse(_request: object, form: dict[str, str]) -> Response:
        return RedirectResponse(f"{form['redirect_uri']}?state={form['state']}&error=access_denied")

    guarded.odd["/authorize"] = refuse
    with pytest.raises(AlhenaError) as caught:
        await sign(guarded)
    assert "access_denied" in caught.value.message
    assert caught.value.remedy == "Sign in again: alhena mcp auth g (or /mcp auth g)."


REFUSALS = {
    "invalid_client": "mcpServers.g.oauth.clientId",
    "invalid_scope": "mcpServers.g.oauth.scopes",
    "invalid_target": "mcpServers.g.oauth.resource",
    "invalid_grant": "alhena mcp auth g",
    "server_error": "alhena mcp auth g",
}


@pytest.mark.parametrize("error", REFUSALS)
async def test_a_sign_in_that_fails_names_its_remedy(guarded: OAuthServer, error: str) -> None:
    guarded.answers("/token", lambda: JSONResponse({"error": error}, status_code=400))
    with pytest.raises(SignInError) as caught:
        await sign(guarded)
    assert error in caught.value.message
    assert REFUSALS[error] in (caught.value.remedy or "")


async def test_a_refused_renewal_is_asked_for_once_a_session(
    guarded: OAuthServer, project: Path
) -> None:
    guarded.expires_in = 0
    await sign(guarded)
    guarded.tokens.clear()
    guarded.refresh_tokens.clear()
    access = stored_access(environ(), lambda _text: None)
    async with rigged({"g": entry(guarded)}, project, auth=access) as rig:
        assert rig.server("g").state is ServerState.NEEDS_AUTH
        await rig.servers.restart("g")
        assert rig.server("g").state is ServerState.NEEDS_AUTH
    assert guarded.count("/token") == 2  # the sign-in, and one renewal
