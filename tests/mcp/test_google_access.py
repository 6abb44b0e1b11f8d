"""Google's credentials for MCP servers: where they go, and where not."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from alhena.agent.toolset.mcp import stored_access
from alhena.agent.toolset.mcp_sign_in import TokenAccess, google_access
from alhena.errors import ServerFaultError
from alhena.mcp.connection import McpConnectError
from alhena.models.auth.federated import identity_tokens
from alhena.models.auth.tokens import FixedToken
from alhena.models.errors import CredentialsError
from tests.mcp.oauth_kit import environ, server_of
from tests.support.server import Reply, ScriptedServer, json_reply

KEY = "google_credentials"


def credentials(home: Path, server: ScriptedServer) -> dict[str, str]:
    """An environment whose Application Default Credentials ask this server."""
    file = home / "adc.json"
    file.write_text(
        json.dumps(
            {
                "type": "authorized_user",
                "client_id": "c",
                "client_secret": "s",
                "refresh_token": "r",
                "token_uri": f"{server.url}/token",
                "quota_project_id": "payer",
            }
        ),
        encoding="utf-8",
    )
    return environ(GOOGLE_APPLICATION_CREDENTIALS=str(file))


def asking(url: str, auth: httpx2.Auth, statuses: list[int]) -> Any:
    """A client whose requests end here; what came is in its list."""
    heard: list[httpx2.Headers] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        heard.append(httpx2.Headers(request.headers))
        return httpx2.Response(statuses.pop(0))

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer), auth=auth)
    return client, heard


class Rotating:
    """A source that has another token whenever a fresh one is wanted."""

    def __init__(self) -> None:
        self.number = 0

    async def token(self, *, fresh: bool = False) -> str:
        self.number += fresh
        return f"t{self.number}"


async def test_google_hosts_are_shown_the_token_of_this_machine_and_who_pays(
    server: ScriptedServer, home: Path
) -> None:
    server.reply(json_reply({"access_token": "adc-token", "expires_in": 3600}))
    url = "https://maps.googleapis.com/mcp"
    entry = server_of({"httpUrl": url, "authProviderType": KEY})
    access = stored_access(credentials(home, server), lambda _text: None)("g", entry)
    assert isinstance(access, TokenAccess)
    client, heard = asking(url, access, [200, 200])
    async with client:
        await client.get(url)
        await client.get("https://other.googleapis.com/mcp")
    assert heard[0]["authorization"] == "Bearer adc-token"
    assert heard[0]["x-goog-user-project"] == "payer"
    assert "authorization" not in heard[1]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://evil.example/mcp", "not sent to evil.example"),
        ("https://googleapis.com.evil.example/mcp", "not sent to"),
        ("https://evilgoogleapis.com/mcp", "not sent to"),
        ("http://maps.googleapis.com/mcp", "over https only"),
    ],
)
async def test_nobody_else_is_shown_it(
    server: ScriptedServer, home: Path, url: str, says: str
) -> None:
    entry = server_of({"httpUrl": url, "authProviderType": KEY})
    with pytest.raises(McpConnectError, match=says):
        google_access("g", entry, credentials(home, server))


async def test_without_credentials_it_is_said_what_to_do() -> None:
    entry = server_of({"httpUrl": "https://x.googleapis.com/", "authProviderType": KEY})
    with pytest.raises(McpConnectError, match="no Google credentials"):
        google_access("g", entry, environ())


async def test_a_token_that_is_refused_is_renewed_once() -> None:
    url = "https://x.googleapis.com/mcp"
    client, heard = asking(url, TokenAccess(Rotating(), url, {}), [401, 200])
    async with client:
        assert (await client.get(url)).status_code == 200
    assert [each["authorization"] for each in heard] == ["Bearer t0", "Bearer t1"]


async def test_an_identity_is_asked_for_as_the_settings_say(
    server: ScriptedServer,
) -> None:
    server.reply(json_reply({"token": "id-token"}))
    tokens = identity_tokens(FixedToken("actor"), "sa@p.example", "aud", {}, service=server.url)
    assert await tokens.token() == "id-token"
    assert await tokens.token() == "id-token"
    (request,) = server.requests
    assert request.path == "/v1/projects/-/serviceAccounts/sa@p.example:generateIdToken"
    assert request.headers["authorization"] == "Bearer actor"
    assert json.loads(request.body) == {"audience": "aud", "includeEmail": True}


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (json_reply({"error": {"message": "no actor"}}, status=403), CredentialsError),
        (json_reply({}, status=503), ServerFaultError),
        (json_reply({"token": 1}), ServerFaultError),
        (json_reply({"token": "a b"}), ServerFaultError),
    ],
)
async def test_an_identity_that_is_not_given_is_an_error(
    server: ScriptedServer, reply: Reply, kind: type[Exception]
) -> None:
    server.reply(reply)
    tokens = identity_tokens(FixedToken("actor"), "sa", "aud", {}, service=server.url)
    with pytest.raises(kind) as caught:
        await tokens.token()
    assert "actor" not in str(caught.value).replace("no [redacted]", "")


async def test_an_identity_needs_an_account_and_an_audience(
    server: ScriptedServer, home: Path
) -> None:
    entry = {"httpUrl": "https://s.run.app/", "authProviderType": "service_account_impersonation"}
    with pytest.raises(McpConnectError, match="does not say who asks"):
        google_access("g", server_of(entry), credentials(home, server))
    full = {**entry, "targetAudience": "a", "targetServiceAccount": "s@x"}
    assert google_access("g", server_of(full), credentials(home, server))
