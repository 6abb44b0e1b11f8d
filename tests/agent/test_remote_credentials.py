"""The credentials that requests to remote agents carry."""

import os
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from alhena import RemoteAgent
from alhena.agent.subagents.credentials import AgentCredentials
from alhena.agent.subagents.files import AgentFiles, FoundAgent, accept_agents, sources_of
from alhena.agent.subagents.remote_agents import RemoteAgents
from alhena.config.home import agent_folders
from alhena.errors import AlhenaError
from alhena.http.addresses import Endpoint, parse_endpoint
from alhena.models.errors import CredentialsError
from alhena.tools.contract import ExecutionContext, ToolResult
from tests.agent.a2a_server import Stage, serving
from tests.config.places import write
from tests.mcp.test_google_access import credentials
from tests.support.server import ScriptedServer, json_reply

PLACE = parse_endpoint("https://agent.example/x", "test")


async def headers(
    auth: dict[str, Any], environ: dict[str, str] | None = None, place: Endpoint = PLACE
) -> dict[str, str]:
    agent = RemoteAgent(name="helper", card="https://agent.example", auth=auth)
    return await AgentCredentials(agent, environ or {}, Path.cwd()).headers(place)


@pytest.mark.parametrize(
    ("auth", "sent"),
    [
        ({"type": "apiKey", "key": "k1"}, {"X-API-Key": "k1"}),
        ({"type": "apiKey", "key": "$KEY", "name": "X-Mine"}, {"X-Mine": "from-env"}),
        ({"type": "apiKey", "key": "!echo ' made '"}, {"X-API-Key": "made"}),
        ({"type": "apiKey", "key": "$$KEY"}, {"X-API-Key": "$KEY"}),
        ({"type": "apiKey", "key": "!!KEY"}, {"X-API-Key": "!KEY"}),
        (
            {"type": "http", "scheme": "bearer", "token": "$KEY"},
            {"Authorization": "Bearer from-env"},
        ),
        (
            {"type": "http", "scheme": "Basic", "username": "ada", "password": "!echo pw"},
            {"Authorization": "Basic YWRhOnB3"},
        ),
        ({"type": "http", "scheme": "HOBA", "value": "a b"}, {"Authorization": "HOBA a b"}),
    ],
    ids=str,
)
async def test_each_kind_is_sent_in_its_header(auth: dict[str, Any], sent: dict[str, str]):
    assert await headers(auth, {"KEY": "from-env", "PATH": "/usr/bin:/bin"}) == sent


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("$KEY", "the variable KEY is not set"),
        ("!exit 3", "the command for key failed"),
        ("!true", "the command for key printed nothing"),
        ("!yes", "the command for key was stopped (output)"),
        ("two\nsecrets", "the value for the header 'X-API-Key' cannot be sent"),
        ("sécret", "cannot be sent"),
    ],
)
async def test_a_value_that_cannot_be_had_or_sent_is_an_error(value: str, reason: str):
    with pytest.raises(CredentialsError) as caught:
        await headers({"type": "apiKey", "key": value}, {"PATH": "/usr/bin:/bin"})
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value).replace("secrets", "secret" if "\n" in value else "")


async def test_a_command_sees_no_secret_of_the_environment():
    environ = {"PATH": "/usr/bin:/bin", "OTHER_API_KEY": "hidden"}
    sent = await headers({"type": "apiKey", "key": '!echo "<$OTHER_API_KEY>"'}, environ)
    assert sent == {"X-API-Key": "<>"}


async def test_a_projects_command_runs_only_while_its_files_are_as_accepted(
    home: Path, project: Path
):
    script = write(project / "token.sh", "echo made")
    write(
        project / ".gemini" / "agents" / "far.md",
        "---\nname: far\ndescription: Far.\nkind: remote\nagent_card_url: https://agent.example\n"
        'auth: {type: apiKey, key: "!sh ./token.sh"}\n---\n',
    )
    folders = agent_folders(os.environ, project, trusted=True)

    def remote_agent() -> FoundAgent:
        (agent,) = AgentFiles(sources_of(folders, os.environ, project), {}).found
        return agent

    assert remote_agent().is_held
    accept_agents(os.environ, project, [remote_agent()])
    agent = remote_agent().definition
    assert isinstance(agent, RemoteAgent)
    assert not remote_agent().is_held
    of_agent = AgentCredentials(agent, os.environ, project)
    assert await of_agent.headers(PLACE) == {"X-API-Key": "made"}
    script.write_text("echo another")
    with pytest.raises(CredentialsError, match="was not run: held back"):
        await of_agent.headers(PLACE)
    assert remote_agent().is_held


GOOGLE = {"type": "google-credentials"}


async def test_google_credentials_go_to_googles_apis_alone(tmp_path: Path, server: ScriptedServer):
    server.reply(json_reply({"access_token": "ya29.x", "expires_in": 3600}))
    environ = credentials(tmp_path, server)
    place = parse_endpoint("https://aiplatform.googleapis.com/agent", "test")
    assert await headers(GOOGLE, environ, place) == {
        "Authorization": "Bearer ya29.x",
        "x-goog-user-project": "payer",
    }
    for other in (
        "http://a.googleapis.com",
        "https://googleapis.com.evil.example",
        "https://run.app.evil.example",
    ):
        with pytest.raises(CredentialsError, match="are not sent to"):
            await headers(GOOGLE, environ, parse_endpoint(other, "test"))


async def test_a_host_of_cloud_run_gets_an_identity_token_for_itself(
    tmp_path: Path, server: ScriptedServer
):
    server.reply(json_reply({"id_token": "who.we.are"}))
    environ = credentials(tmp_path, server)
    place = parse_endpoint("https://x.run.app/a2a", "test")
    assert await headers(GOOGLE, environ, place) == {"Authorization": "Bearer who.we.are"}
    assert b"target_audience=https%3A%2F%2Fx.run.app" in server.requests[0].body


async def test_without_google_credentials_the_error_says_how_to_get_them():
    with pytest.raises(AlhenaError, match="no Google credentials"):
        await headers(GOOGLE, {}, parse_endpoint("https://a.googleapis.com", "test"))


async def answers(stage: Stage) -> None:
    await stage.answer("Hello.")


def require_token(token: str) -> Any:
    """Refuses every request without this token, and quotes what it was sent."""

    async def answer_without_token(request: Request) -> Response | None:
        sent = request.headers.get("authorization", "")
        return None if sent == f"Bearer {token}" else Response(f"not {sent}", 401)

    return answer_without_token


async def ask(url: str, token: str, environ: dict[str, str] | None = None) -> ToolResult:
    auth = {"type": "http", "scheme": "Bearer", "token": token}
    agents = RemoteAgents(
        [RemoteAgent(name="helper", card=url, auth=auth)], environ or {}, Path.cwd()
    )
    return await agents.run("helper", "Hi.", ExecutionContext(Path.cwd()))


async def test_card_and_task_are_asked_with_the_credentials():
    async with serving(answers, first=require_token("right")) as remote:
        result = await ask(remote.url, "right")
    assert result.display == "Hello."
    assert remote.paths == ["/.well-known/agent-card.json", "/a2a"]


async def test_wrong_credentials_are_an_error_that_does_not_quote_them():
    async with serving(answers, first=require_token("right")) as remote:
        result = await ask(remote.url, "wrong-token")
    assert result.error is not None
    assert "it answered with HTTP 401. Check the auth" in result.error.message
    assert "wrong-token" not in result.error.message
    assert len(remote.paths) == 1


async def test_a_command_is_asked_again_when_its_value_was_refused(project: Path):
    script = project / "token"
    script.write_text("test -e used && echo right && exit; touch used; echo old", encoding="utf-8")
    async with serving(answers, first=require_token("right")) as remote:
        result = await ask(remote.url, f"!sh {script}", {"PATH": "/usr/bin:/bin"})
    assert result.display == "Hello."
    assert remote.paths == ["/.well-known/agent-card.json"] * 2 + ["/a2a"]


async def test_a_secret_that_the_agent_quotes_is_not_passed_on():
    async def quotes(request: Request) -> Response | None:
        if request.method == "GET":
            return None
        body = f'{{"jsonrpc":"2.0","id":"1","error":{{"code":-1,"message":"bad {request.headers["authorization"]}"}}}}'
        return Response(body)

    async with serving(answers, first=quotes) as remote:
        result = await ask(remote.url, "s3cr3t-token")
    assert result.error is not None
    assert "bad Bearer [redacted]" in result.error.message


async def test_a_redirect_is_not_followed_and_takes_no_credentials_along():
    async with serving(answers) as other:

        async def leads_away(_request: Request) -> Response | None:
            return Response("", 307, headers={"location": f"{other.url}/a2a"})

        async with serving(answers, first=leads_away) as remote:
            result = await ask(remote.url, "right")
    assert result.error is not None
    assert "it redirects (HTTP 307)" in result.error.message
    assert other.paths == []
