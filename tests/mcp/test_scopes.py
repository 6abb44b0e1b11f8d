"""A server that wants more permissions in the middle of a session than the sign-in gave."""

from pathlib import Path

import pytest

from alhena.agent.toolset.mcp import stored_access
from alhena.mcp.connection import MAX_SCOPES, scope_remedy, wanted_scopes
from alhena.mcp.server import ServerState
from tests.mcp.kit import called, rigged
from tests.mcp.oauth_kit import entry, environ, kept, server_of, sign
from tests.mcp.oauth_server import OAuthServer, redirect_of, running
from tests.models.auth.kit import ScriptedPerson, get
from tests.support.command import alhena

WORDS = (
    "it needs permissions that it was not given: files:write, mail (HTTP 403, insufficient_scope)"
)


@pytest.mark.requirement("MCP-07")
async def test_a_call_says_which_permissions_are_missing_and_the_next_sign_in_asks_for_them(
    guarded: OAuthServer, home: Path, project: Path
) -> None:
    await sign(guarded)
    said: list[str] = []
    access = stored_access(environ(), said.append)
    async with rigged({"g": entry(guarded)}, project, auth=access) as rig:
        assert (await called(rig, "echo", {"text": "x"})).display == "echo: x"
        guarded.step_up = "files:write mail"
        result = await called(rig, "echo", {"text": "x"})
        assert result.error is not None
        assert f"failed: {WORDS}" in result.error.message
        assert "alhena mcp auth g" in result.error.message
        assert rig.warnings == [
            f"MCP server 'g': {WORDS}. Sign in again: alhena mcp auth g (or /mcp auth g)."
        ]
        assert rig.server("g").state is ServerState.CONNECTED
        assert WORDS in rig.servers.reports()[0].notes
        assert kept(home)[0]["alhena"]["scopesWanted"] == "files:write mail"
        person = ScriptedPerson(get)
        await sign(guarded, person)
        assert redirect_of(person.opened[0])["scope"] == "tools files:write mail"
        assert "scopesWanted" not in kept(home)[0]["alhena"]
        assert (await called(rig, "echo", {"text": "y"})).display == "echo: y"
    assert said == []


async def test_over_the_older_transport_the_call_is_told_at_once(home: Path, project: Path) -> None:
    del home
    with running(sse=True) as world:
        token = "given-in-the-settings"
        world.tokens.add(token)
        headers = {"Authorization": f"Bearer {token}"}
        entry = {"url": world.mcp, "type": "sse", "headers": headers}
        async with rigged({"g": entry}, project) as rig:
            assert (await called(rig, "echo", {"text": "x"})).display == "echo: x"
            world.step_up = "files:write mail"
            result = await called(rig, "echo", {"text": "x"})
            assert result.error is not None
            assert f"the connection was closed before it answered: {WORDS}" in result.error.message


async def test_one_that_wants_them_from_the_beginning_needs_a_sign_in(
    guarded: OAuthServer, project: Path
) -> None:
    await sign(guarded)
    guarded.step_up = "files:write"
    access = stored_access(environ(), lambda _text: None)
    async with rigged({"g": entry(guarded)}, project, auth=access) as rig:
        assert rig.server("g").state is ServerState.NEEDS_AUTH
        assert "permissions that it was not given: files:write" in rig.server("g").why
    person = ScriptedPerson(get)
    await sign(guarded, person)
    assert redirect_of(person.opened[0])["scope"] == "tools files:write"


async def test_what_the_settings_name_is_all_that_is_asked_for(
    guarded: OAuthServer, project: Path
) -> None:
    oauth = {"scopes": ["a"]}
    await sign(guarded, oauth=oauth)
    guarded.step_up = "files:write"
    access = stored_access(environ(), lambda _text: None)
    async with rigged({"g": entry(guarded, oauth=oauth)}, project, auth=access):
        pass
    person = ScriptedPerson(get)
    await sign(guarded, person, oauth=oauth)
    assert redirect_of(person.opened[0])["scope"] == "a"


def test_the_status_says_what_is_missing(guarded: OAuthServer, home: Path, project: Path) -> None:
    file = home / ".gemini" / "mcp-oauth-tokens.json"
    file.parent.mkdir()
    token = (
        f'[{{"serverName": "g", "mcpServerUrl": "{guarded.mcp}", '
        '"token": {"accessToken": "t"}, "alhena": {"scopesWanted": "mail"}}]'
    )
    file.write_text(token, encoding="utf-8")
    alhena("mcp", "add", "-s", "user", "-t", "http", "g", guarded.mcp)
    assert alhena("mcp", "auth").out == ("g: signed in, but the server now also wants: mail\n")


@pytest.mark.parametrize(
    ("challenge", "scopes"),
    [
        ('Bearer error="insufficient_scope", scope="a b:c a"', ("a", "b:c")),
        ("Bearer scope=a, error=insufficient_scope", ("a",)),
        ('Bearer error="insufficient_scope"', ()),
        ('bearer ERROR = "insufficient_scope", x_scope="no", Scope = "yes"', ("yes",)),
        ('Bearer error="insufficient_scope", scope="a\\b \x7f \u00e9 ok"', ("ok",)),
        ('Bearer error="insufficient_scope_not"', None),
        ('Bearer my-error="insufficient_scope"', None),
        ('Bearer error="invalid_token", scope="a"', None),
        ("", None),
    ],
)
def test_challenges_are_read_as_they_are_written(
    challenge: str, scopes: tuple[str, ...] | None
) -> None:
    assert wanted_scopes(403, challenge) == scopes
    assert wanted_scopes(401, challenge) is None


def test_a_challenge_without_end_asks_for_so_many() -> None:
    many = " ".join(f"s{number}" for number in range(10_000))
    found = wanted_scopes(403, f'Bearer error="insufficient_scope", scope="{many}"')
    assert found is not None
    assert len(found) == MAX_SCOPES


def test_the_remedy_is_where_the_permission_comes_from() -> None:
    place = "https://a.example/mcp"
    by_header = server_of({"httpUrl": place, "headers": {"authorization": "Bearer x"}})
    assert scope_remedy("g", by_header) == ("Put a token that has them into mcpServers.g.headers.")
    by_settings = server_of({"httpUrl": place, "oauth": {"scopes": ["a"]}})
    assert scope_remedy("g", by_settings).startswith("Add them to mcpServers.g.oauth.scopes. ")
