"""Tokens are renewed once for all, and what fails takes none away."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from alhena.agent.toolset.mcp import stored_access
from alhena.mcp.oauth.renewal import EARLY_S, Renewal
from alhena.mcp.oauth.tokens import SignInError, StoredToken, TokenFile, token_file
from alhena.mcp.server import ServerState
from alhena.system.errors import WriteFailureError
from alhena.system.private_files import LIMIT, PrivateFiles
from tests.mcp.kit import SERVED, called, rigged
from tests.mcp.oauth_kit import entry, environ, kept, server_of, sign
from tests.mcp.oauth_server import OAuthServer


class Clock:
    """Seconds since the epoch, as far as a test wants them."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def renewal(
    guarded: OAuthServer, said: list[str] | None = None, *, later: float = 0.0, **more: Any
) -> Renewal:
    """As a session would have it, so many seconds after the sign-in."""
    warn: Callable[[str], None] = [].append if said is None else said.append
    clock = Clock(time.time() + later)
    server = server_of(entry(guarded, **more))
    return Renewal("g", server, token_file(environ()), warn, now=clock)


async def test_a_token_that_holds_for_long_enough_is_taken_as_it_is(guarded: OAuthServer) -> None:
    token = await sign(guarded)
    assert await renewal(guarded, later=3600 - EARLY_S - 20).token() == token.access_token
    assert guarded.count("/token") == 1


@pytest.mark.requirement("MCP-07")
async def test_it_is_renewed_five_minutes_before_its_end_and_kept(
    guarded: OAuthServer, home: Path
) -> None:
    old = await sign(guarded)
    renewed = await renewal(guarded, later=3600 - EARLY_S + 5).token()
    assert renewed not in (None, old.access_token)
    (found,) = kept(home)
    assert found["token"]["accessToken"] == renewed
    assert found["token"]["refreshToken"] in guarded.refresh_tokens
    assert found["token"]["scope"] == "tools"
    form = guarded.form("/token")
    assert form["client_id"] == "client-0"
    assert form["resource"] == guarded.mcp


async def test_one_without_a_new_refresh_token_keeps_the_old_one(
    guarded: OAuthServer, home: Path
) -> None:
    token = await sign(guarded)
    answer = {"access_token": "newer", "expires_in": 60}
    guarded.answers("/token", lambda: JSONResponse(answer))
    assert await renewal(guarded, later=4000).token() == "newer"
    assert kept(home)[0]["token"]["refreshToken"] == token.refresh_token


async def test_a_secret_of_the_client_goes_with_it_as_it_was_registered(
    guarded: OAuthServer,
) -> None:
    guarded.secret = "client-very-secret"
    await sign(guarded)
    assert await renewal(guarded, later=4000).token() in guarded.tokens


@pytest.mark.requirement("MCP-07")
@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_fault_takes_no_token_away_and_one_that_still_holds_is_used(
    guarded: OAuthServer, home: Path, status: int
) -> None:
    token = await sign(guarded)
    before = kept(home)
    guarded.answers("/token", lambda: Response("<html>", status_code=status))
    assert await renewal(guarded, later=3600 - 60).token() == token.access_token
    with pytest.raises(SignInError, match=f"HTTP {status}"):
        await renewal(guarded, later=4000).token()
    assert kept(home) == before
    guarded.odd.clear()
    assert await renewal(guarded, later=4000).token() in guarded.tokens


@pytest.mark.requirement("MCP-07")
async def test_a_refusal_takes_no_token_away_and_is_not_asked_for_twice(
    guarded: OAuthServer, home: Path
) -> None:
    await sign(guarded)
    before = kept(home)
    guarded.refresh_tokens.clear()
    one = renewal(guarded, later=4000)
    assert await one.token() is None
    assert await one.token() is None
    assert "invalid_grant" in one.ended
    assert guarded.count("/token") == 2
    assert kept(home) == before
    token = await sign(guarded)
    assert await one.token(refused=before[0]["token"]["accessToken"]) in (
        token.access_token,
        *guarded.tokens,
    )


@pytest.mark.parametrize(
    "answer",
    [
        lambda: JSONResponse({"access_token": "with blank"}),
        lambda: JSONResponse({"access_token": ""}),
        lambda: JSONResponse({"access_token": "x", "token_type": "mac"}),
        lambda: JSONResponse(["very-secret"]),
        lambda: Response(b"\xff\xfe"),
        lambda: Response(b"[" * 100_000),
        lambda: Response(b'"' + b"x" * 400_000 + b'"'),
        lambda: RedirectResponse("http://127.0.0.1:9/elsewhere", status_code=307),
    ],
)
async def test_an_answer_that_is_no_token_takes_none_away(
    guarded: OAuthServer, home: Path, answer: Callable[[], Response]
) -> None:
    await sign(guarded)
    before = kept(home)
    guarded.answers("/token", answer)
    with pytest.raises(SignInError) as caught:
        await renewal(guarded, later=4000).token()
    assert "very-secret" not in str(caught.value)
    assert kept(home) == before


async def test_a_refusal_that_quotes_a_secret_is_told_without_it(guarded: OAuthServer) -> None:
    token = await sign(guarded)
    said = {"error": "invalid_grant", "error_description": f"no {token.refresh_token}\x1b[2J"}
    guarded.answers("/token", lambda: JSONResponse(said, status_code=400))
    one = renewal(guarded, later=4000)
    assert await one.token() is None
    assert "very-secret" not in one.ended
    assert "\x1b" not in one.ended


@pytest.mark.requirement("MCP-07")
async def test_processes_that_renew_at_once_spend_a_refresh_token_once(
    guarded: OAuthServer, home: Path
) -> None:
    guarded.expires_in = 1
    await sign(guarded)
    guarded.expires_in = 3600
    ready = threading.Event()

    def held(_request: Request, _form: dict[str, str]) -> None:
        ready.wait()

    guarded.odd["/token"] = held
    command = [sys.executable, "-m", "tests.mcp.served.renew", guarded.mcp]
    root = SERVED.parent.parent.parent
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=root)
        for _ in range(3)
    ]
    for each in started:
        assert each.stderr is not None
        assert await asyncio.to_thread(each.stderr.readline) == b"ready\n"
    ready.set()
    outs = [await asyncio.to_thread(each.communicate) for each in started]
    assert [err for _, err in outs] == [b"", b"", b""]
    printed = {out.decode().strip() for out, _ in outs}
    assert printed == {kept(home)[0]["token"]["accessToken"]}
    assert guarded.count("/token") == 2


async def test_many_requests_of_a_session_renew_once(guarded: OAuthServer) -> None:
    await sign(guarded)
    one = renewal(guarded, later=4000)
    found = await asyncio.gather(*(one.token() for _ in range(20)))
    assert len(set(found)) == 1
    assert guarded.count("/token") == 2


async def test_a_session_whose_token_is_taken_back_goes_on_with_a_new_one(
    guarded: OAuthServer, project: Path
) -> None:
    await sign(guarded)
    access = stored_access(environ(), lambda _text: None)
    async with rigged({"g": entry(guarded)}, project, auth=access) as rig:
        assert (await called(rig, "echo", {"text": "x"})).display == "echo: x"
        guarded.tokens.clear()
        assert (await called(rig, "echo", {"text": "y"})).display == "echo: y"
        assert rig.server("g").state is ServerState.CONNECTED


async def test_a_session_whose_sign_in_has_ended_says_so(
    guarded: OAuthServer, project: Path, home: Path
) -> None:
    await sign(guarded)
    before = kept(home)
    guarded.tokens.clear()
    guarded.refresh_tokens.clear()
    access = stored_access(environ(), lambda _text: None)
    async with rigged({"g": entry(guarded)}, project, auth=access) as rig:
        assert rig.server("g").state is ServerState.NEEDS_AUTH
    assert kept(home) == before


async def test_a_renewal_under_way_does_not_undo_a_sign_in(
    guarded: OAuthServer, home: Path
) -> None:
    await sign(guarded)
    files = token_file(environ())
    waiting = asyncio.Event()
    release = asyncio.Event()

    async def send(_token: StoredToken) -> httpx2.Response:
        waiting.set()
        await release.wait()
        return httpx2.Response(200, json={"access_token": "of-the-old-sign-in"})

    said: list[str] = []
    clock = Clock(time.time() + 4000)
    slow = Renewal("g", server_of(entry(guarded)), files, said.append, now=clock, send=send)
    renewing = asyncio.create_task(slow.token())
    await waiting.wait()
    signing = asyncio.create_task(sign(guarded))
    while guarded.count("/token") < 2:
        await asyncio.sleep(0.01)
    release.set()
    await renewing
    token = await signing
    assert kept(home)[0]["token"]["accessToken"] == token.access_token


async def test_a_renewed_token_that_cannot_be_kept_is_used_all_the_same(
    guarded: OAuthServer, home: Path
) -> None:
    await sign(guarded)

    class FullDisk(PrivateFiles):
        def write(self, name: str, data: bytes, limit: int = LIMIT) -> None:
            raise WriteFailureError("the disk is full.")

    said: list[str] = []
    files = TokenFile(FullDisk(home / ".gemini"))
    clock = Clock(time.time() + 4000)
    one = Renewal("g", server_of(entry(guarded)), files, said.append, now=clock)
    first = await one.token()
    assert first in guarded.tokens
    assert "could not be kept" in said[0]
    assert await one.token() == first
    clock.now += 4000
    assert await one.token() in guarded.tokens
    assert guarded.count("/token") == 3
    await sign(guarded)
    assert await one.token() != first
    assert await one.token() in guarded.tokens
    await token_file(environ()).forget("g")
    assert await one.token() is None


async def test_a_header_of_the_settings_says_who_asks(guarded: OAuthServer, project: Path) -> None:
    await sign(guarded)
    guarded.tokens.add("mine")
    settings = entry(guarded, headers={"authorization": "Bearer mine"})
    access = stored_access(environ(), lambda _text: None)
    guarded.shown.clear()
    async with rigged({"g": settings}, project, auth=access) as rig:
        assert rig.server("g").state is ServerState.CONNECTED
    assert set(guarded.shown) == {"Bearer mine"}


async def test_a_token_of_the_reference_serves(guarded: OAuthServer, home: Path) -> None:
    token = await sign(guarded)
    (found,) = kept(home)
    del found["alhena"]
    file = home / ".gemini" / "mcp-oauth-tokens.json"
    file.write_text(json.dumps([{"odd": 1}, 7, found]), encoding="utf-8")
    os.chmod(file, 0o600)
    assert await renewal(guarded).token() == token.access_token
    assert await renewal(guarded, later=4000).token() in guarded.tokens
    assert kept(home)[:2] == [{"odd": 1}, 7]


def held(guarded: OAuthServer) -> tuple[threading.Event, threading.Event]:
    """A request for a token waits: the first says that it came, the second lets it be answered."""
    asked, answer = threading.Event(), threading.Event()

    def waits(_request: Request, _form: dict[str, str]) -> None:
        asked.set()
        answer.wait()

    guarded.odd["/token"] = waits
    return asked, answer


async def test_who_is_cancelled_does_not_lose_the_new_refresh_token(
    guarded: OAuthServer, home: Path
) -> None:
    await sign(guarded)
    asked, answer = held(guarded)
    asking = asyncio.create_task(renewal(guarded, later=4000).token())
    await asyncio.to_thread(asked.wait)
    asking.cancel()
    await asyncio.sleep(0)
    answer.set()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert kept(home)[0]["token"]["refreshToken"] in guarded.refresh_tokens


async def test_who_is_cancelled_twice_leaves_at_once_and_the_renewal_goes_on(
    guarded: OAuthServer, home: Path
) -> None:
    await sign(guarded)
    asked, answer = held(guarded)
    one = renewal(guarded, later=4000)
    asking = asyncio.create_task(one.token())
    await asyncio.to_thread(asked.wait)
    for _ in range(2):
        asking.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await asking
    again = asyncio.create_task(one.token())
    answer.set()
    assert await again in guarded.tokens
    assert guarded.count("/token") == 2
    assert kept(home)[0]["token"]["refreshToken"] in guarded.refresh_tokens
