"""Servers and browsers that are not what they say, and a file that is damaged."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import JSONResponse, RedirectResponse, Response

from alhena.agent.toolset.mcp import stored_access
from alhena.agent.toolset.mcp_sign_in import signed_in
from alhena.errors import AlhenaError, ConfigError
from alhena.mcp.oauth import requests as http
from alhena.mcp.oauth.requests import OAuthHttp
from alhena.mcp.oauth.tokens import (
    FILE,
    SignInError,
    StoredToken,
    TokenFile,
    TokenFileError,
    token_file,
)
from alhena.mcp.server import ServerState
from alhena.models.errors import CredentialsError
from alhena.system.private_files import PrivateFiles
from tests.mcp.kit import rigged
from tests.mcp.oauth_kit import entry, environ, kept, server_of, sign
from tests.mcp.oauth_server import ASM, PRM, OAuthServer, redirect_of
from tests.models.auth.kit import ScriptedPerson, get
from tests.support.steady import skip

ELSEWHERE = "http://127.0.0.1:9"
Spoil = Callable[[OAuthServer], Any]


def spoiled_metadata(**fields: Any) -> Spoil:
    return lambda world: world.metadata.update(fields)


def nothing() -> Response:
    return Response(status_code=404)


@pytest.mark.requirement("MCP-07")
@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (spoiled_metadata(issuer="https://evil.example"), "issuer mismatch: https://evil.example"),
        (
            lambda world: world.resource.update(resource="https://other.example/mcp"),
            "https://other.example/mcp does not match",
        ),
        (
            lambda world: world.resource.update(authorization_servers=["http://evil.example"]),
            "is no https address",
        ),
        (spoiled_metadata(token_endpoint="http://evil.example/token"), "is no https address"),
        (spoiled_metadata(authorization_endpoint="http://evil.example"), "is no https address"),
        (spoiled_metadata(code_challenge_methods_supported=["plain"]), "PKCE"),
        (spoiled_metadata(registration_endpoint=None), "does not take clients"),
        (
            lambda world: world.answers(PRM, lambda: Response(status_code=503)),
            "metadata request failed: HTTP 503",
        ),
        (
            lambda world: world.answers(ASM, lambda: Response(status_code=500)),
            "HTTP 500",
        ),
        (
            lambda world: world.answers(ASM, lambda: Response(b"x" * 300_000)),
            "more than 262,144 bytes",
        ),
        (
            lambda world: world.answers(ASM, lambda: RedirectResponse(f"{ELSEWHERE}{ASM}")),
            "does not say how to sign in",
        ),
        (
            lambda world: world.answers(ASM, lambda: RedirectResponse(f"{world.url}{ASM}")),
            "redirects without an end",
        ),
        (
            lambda world: world.answers(
                "/register",
                lambda: JSONResponse({"error": "invalid_redirect_uri"}, status_code=400),
            ),
            "invalid_redirect_uri",
        ),
        (
            lambda world: world.answers(
                "/register",
                lambda: JSONResponse(
                    {"client_id": "c", "token_endpoint_auth_method": "private_key_jwt"}
                ),
            ),
            "does not register",
        ),
        (
            lambda world: world.answers("/token", lambda: Response(b"no", status_code=500)),
            "gives no token for now",
        ),
        (
            lambda world: world.answers("/token", lambda: RedirectResponse(f"{ELSEWHERE}/t", 307)),
            "HTTP 307",
        ),
    ],
)
async def test_a_sign_in_that_does_not_add_up_fails_and_keeps_what_was_there(
    guarded: OAuthServer, home: Path, spoil: Spoil, says: str
) -> None:
    await sign(guarded)
    before = kept(home)
    spoil(guarded)
    with pytest.raises(SignInError) as caught:
        await sign(guarded)
    assert says in str(caught.value)
    assert "very-secret" not in str(caught.value)
    assert kept(home) == before


@pytest.mark.parametrize("change", [{"iss": "https://evil.example"}, {"error": "access_denied"}])
async def test_an_answer_of_the_browser_that_is_not_consent_fails(
    guarded: OAuthServer, home: Path, change: dict[str, str]
) -> None:
    pages: list[str] = []

    def browse(url: str) -> tuple[int, str]:
        asked = redirect_of(url)
        back = {"state": asked["state"], "code": "code-very-secret"} | change
        pages.append(get(f"{asked['redirect_uri']}?{urlencode(back)}")[1])
        return 200, ""

    with pytest.raises(AlhenaError) as caught:
        await sign(guarded, ScriptedPerson(browse))
    assert "very-secret" not in str(caught.value)
    assert "Signing in failed." in pages[0]
    assert guarded.count("/token") == 0
    assert not (home / ".gemini" / FILE).exists()


@pytest.mark.requirement("MCP-07")
async def test_an_answer_with_another_state_is_turned_away_and_the_right_one_still_counts(
    guarded: OAuthServer,
) -> None:
    strays: list[tuple[int, str]] = []

    def browse(url: str) -> tuple[int, str]:
        back = redirect_of(url)["redirect_uri"]
        strays.extend(
            get(f"{back}?{urlencode(fields)}")
            for fields in ({"code": "evil", "state": "x"}, {"code": "evil"}, {"state": ""})
        )
        return get(url)

    token = await sign(guarded, ScriptedPerson(browse))
    assert [status for status, _ in strays] == [400, 400, 400]
    assert token.access_token in guarded.tokens


async def test_one_that_does_not_ask_who_it_is_has_nobody_to_sign_in(
    guarded: OAuthServer,
) -> None:
    for path in (PRM, "/.well-known/oauth-protected-resource"):
        guarded.answers(path, nothing)
    guarded.tokens.add("")
    with pytest.raises(SignInError, match="does not ask who you are"):
        await sign(guarded)


async def test_tokens_are_not_put_into_urls(guarded: OAuthServer) -> None:
    with pytest.raises(SignInError, match="tokenParamName is not supported"):
        await sign(guarded, oauth={"tokenParamName": "access_token"})


async def test_an_unencrypted_server_elsewhere_is_not_signed_in_to() -> None:
    server = server_of({"httpUrl": "http://mcp.example/mcp"})
    with pytest.raises(SignInError, match="unencrypted"):
        await signed_in("g", server, ScriptedPerson(), environ())


@pytest.mark.parametrize(
    "url",
    [
        "https://169.254.169.254/latest",
        "https://metadata.google.internal/x",
        "https://[::1]/x",
        "https://10.0.0.8/x",
        "https://0x7f000001/x",
        "http://127.0.0.1/x",
        "file:///etc/passwd",
        "https://localhost/x",
    ],
)
async def test_a_public_server_cannot_lead_into_the_local_network(url: str) -> None:
    async with httpx2.AsyncClient() as client:
        guard = OAuthHttp(client, "https://93.184.215.14/mcp")
        with pytest.raises(SignInError):
            await guard.send(httpx2.Request("GET", url))


async def test_what_the_settings_name_may_be_in_the_local_network() -> None:
    async with httpx2.AsyncClient() as client:
        guard = OAuthHttp(client, "https://93.184.215.14/mcp", ["https://10.0.0.8/token"])
        await guard.require("https://10.0.0.8/other")


async def test_one_that_drips_its_metadata_is_given_up(guarded: OAuthServer) -> None:
    gone = asyncio.Event()

    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        try:
            while True:
                skip(http.TIME_LIMIT_S / 9)
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)
        except ConnectionError:
            writer.close()
            gone.set()

    slow = await asyncio.start_server(drip, "127.0.0.1", 0)
    port = slow.sockets[0].getsockname()[1]
    guarded.resource["authorization_servers"] = [f"http://127.0.0.1:{port}"]
    try:
        with pytest.raises(SignInError, match="did not answer within"):
            await sign(guarded)
        await gone.wait()
    finally:
        slow.close()


async def test_nobody_who_answers_ends_in_time(
    guarded: OAuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from alhena.agent.toolset import mcp_sign_in
    from alhena.models.auth.login import LoginWays

    monkeypatch.setattr(mcp_sign_in, "ways_from", lambda _environ: LoginWays(limit=0.5))
    with pytest.raises(CredentialsError, match="not signed in"):
        await sign(guarded, ScriptedPerson(lambda _url: None))


async def test_a_redirect_address_elsewhere_needs_a_port_here(guarded: OAuthServer) -> None:
    with pytest.raises(ConfigError, match="no URL that leads to this machine"):
        await sign(guarded, oauth={"redirectUri": "https://relay.example/back"})


def token(name: str = "g", **fields: Any) -> StoredToken:
    return StoredToken(
        server_name=name, server_url="https://x.example/mcp", access_token="a", **fields
    )


@pytest.mark.requirement("MCP-07")
@pytest.mark.parametrize("data", [b"{", b"{}", b"\xff", b"7", b"[" * 5_000])
async def test_a_damaged_file_is_never_written_over(
    guarded: OAuthServer, home: Path, project: Path, data: bytes
) -> None:
    file = home / ".gemini" / FILE
    file.parent.mkdir()
    file.write_bytes(data)
    with pytest.raises(TokenFileError, match="left alone"):
        await sign(guarded)
    assert guarded.asked == []
    with pytest.raises(TokenFileError):
        await token_file(environ()).save(token(), 0)
    with pytest.raises(TokenFileError):
        await token_file(environ()).forget("g")
    said: list[str] = []
    access = stored_access(environ(), said.append)
    async with rigged({"g": entry(guarded)}, project, auth=access) as rig:
        assert rig.server("g").state is ServerState.NEEDS_AUTH
    assert str(file) in said[0]
    assert file.read_bytes() == data


async def test_the_tokens_of_others_are_kept_as_they_are(home: Path) -> None:
    files = token_file(environ())
    await files.save(token("one"), 1)
    file = home / ".gemini" / FILE
    odd = [{"serverName": "two", "token": "?"}, {"serverName": 3}, None, [1]]
    own = json.loads(file.read_text())
    own[0]["theirs"] = {"x": 1}
    file.write_text(json.dumps([*odd, *own]), encoding="utf-8")
    await files.save(token("one", refresh_token="r"), 2)
    found = kept(home)
    assert found[:4] == odd
    assert found[4]["theirs"] == {"x": 1}
    assert found[4]["token"]["refreshToken"] == "r"
    assert files.find_by_name("two") is None
    assert await files.forget("one")
    assert kept(home) == odd
    assert not await files.forget("one")


async def test_a_file_that_others_could_read_is_closed_to_them(home: Path) -> None:
    files = token_file(environ())
    await files.save(token(), 1)
    file = home / ".gemini" / FILE
    os.chmod(file, 0o644)
    await files.save(token("other"), 1)
    assert file.stat().st_mode & 0o777 == 0o600


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "serverName": st.sampled_from(["g", "h"]) | JSON,
        "token": st.fixed_dictionaries(
            {}, optional={"accessToken": st.text() | JSON, "expiresAt": JSON, "refreshToken": JSON}
        )
        | JSON,
        "mcpServerUrl": st.text() | JSON,
        "clientId": JSON,
        "alhena": JSON,
    },
)


@given(entries=st.lists(ENTRY | JSON, max_size=4))
def test_whatever_the_entries_are_they_are_read_or_passed_over(entries: list[Any]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        files = PrivateFiles(Path(directory))
        files.write(FILE, json.dumps(entries).encode("utf-8", "replace"))
        found = TokenFile(files).find_by_name("g")
        if found is not None:
            httpx2.Request("GET", "http://x", headers={"a": f"Bearer {found.access_token}"})
            assert "\n" not in found.access_token


@given(text=st.text())
def test_the_place_of_a_url_never_has_its_secrets(text: str) -> None:
    try:
        shown = http.describe_origin(
            f"https://user:very-secret@host.example/{text}?token=very-secret"
        )
    except SignInError:
        return
    assert "very-secret" not in shown
    assert parse_qs(urlsplit(shown).query) == {}
