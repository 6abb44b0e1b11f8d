"""Lifetime of tokens, and cleanup after sign-out."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.responses import JSONResponse

from alhena.mcp.oauth.renewal import Renewal
from alhena.mcp.oauth.tokens import StoredToken, token_file
from tests.mcp.oauth_kit import entry, environ, kept, server_of, sign
from tests.mcp.oauth_server import OAuthServer
from tests.support.command import alhena

HOUR_S = 3600.0


def meanwhile(guarded: OAuthServer, happens: Callable[[], Any]) -> Renewal:
    """A session that has to renew, while something happens."""

    async def send(_token: StoredToken) -> httpx2.Response:
        await happens()
        return httpx2.Response(200, json={"access_token": "renewed", "refresh_token": "next"})

    server = server_of(entry(guarded))
    files = token_file(environ())
    return Renewal("g", server, files, [].append, now=lambda: time.time() + 2 * HOUR_S, send=send)


async def test_who_signs_out_during_a_renewal_is_signed_out(
    guarded: OAuthServer, home: Path
) -> None:
    await sign(guarded)
    there: list[bool] = []

    async def sign_out() -> None:
        there.append(await token_file(environ()).forget("g"))

    one = meanwhile(guarded, sign_out)
    assert await one.token() is None
    assert there == [True]
    assert kept(home) == []
    assert await one.token() is None


async def test_what_another_program_has_kept_during_a_renewal_stands(
    guarded: OAuthServer, home: Path
) -> None:
    """It takes no locks, as the reference does."""
    await sign(guarded)

    async def write() -> None:
        (found,) = kept(home)
        found["token"] |= {"accessToken": "of-the-other", "expiresAt": (time.time() + 9e6) * 1000}
        file = home / ".gemini" / "mcp-oauth-tokens.json"
        file.write_text(json.dumps([found]), encoding="utf-8")

    assert await meanwhile(guarded, write).token() == "of-the-other"
    assert kept(home)[0]["token"]["accessToken"] == "of-the-other"


async def test_scopes_that_are_wanted_bring_no_token_back(guarded: OAuthServer, home: Path) -> None:
    token = await sign(guarded)
    files = token_file(environ())
    await files.forget("g")
    assert not await files.save(token, time.time(), instead_of=token.access_token)
    assert kept(home) == []
    assert not await files.forget("g")


@pytest.mark.parametrize("odd", [1e308, 1e18, "NaN", "Infinity", 101 * 366 * 24 * HOUR_S])
async def test_a_time_that_is_none_is_as_if_nobody_had_said_one(
    guarded: OAuthServer, home: Path, odd: object
) -> None:
    answer = {"access_token": "odd", "refresh_token": "kept", "expires_in": odd}
    guarded.answers("/token", lambda: JSONResponse(answer))
    assert (await sign(guarded)).expires_at is None
    (found,) = kept(home)
    assert found["token"]["refreshToken"] == "kept"
    assert "expiresAt" not in found["token"]


async def test_a_renewal_with_a_time_that_is_none_keeps_its_tokens(
    guarded: OAuthServer, home: Path
) -> None:
    await sign(guarded)
    answer = {"access_token": "odd", "refresh_token": "next", "expires_in": 1e308}
    guarded.answers("/token", lambda: JSONResponse(answer))
    late = time.time() + 2 * HOUR_S
    files = token_file(environ())
    one = Renewal("g", server_of(entry(guarded)), files, [].append, now=lambda: late)
    assert await one.token() == "odd"
    assert kept(home)[0]["token"]["refreshToken"] == "next"


async def test_signing_out_waits_for_no_renewal(guarded: OAuthServer, home: Path) -> None:
    settings = {"mcpServers": {"g": entry(guarded)}}
    await sign(guarded)
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    async with token_file(environ()).alone("g"):
        said = await asyncio.to_thread(alhena, "mcp", "auth", "g", "--logout")
    assert said.out == "Signed out of MCP server 'g'.\n"
    assert kept(home) == []
