"""Signing in to remote agents by OAuth."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from alhena import RemoteAgent
from alhena.agent.subagents.credentials import FILE, stored_token, token_file
from alhena.agent.subagents.remote_agents import RemoteAgents
from alhena.agent.subagents.sign_in import sign_in
from alhena.errors import AlhenaError, InputError
from alhena.models.errors import CredentialsError
from alhena.tools.contract import ExecutionContext
from tests.agent.a2a_server import Stage, answering, serving
from tests.agent.test_remote_agents import card_at
from tests.support.command import alhena


class Authority:
    """An authorization server: a person who agrees, and a token endpoint that counts."""

    def __init__(self) -> None:
        self.forms: list[dict[str, str]] = []
        self.life = 3600
        self.refuses = False

    async def token(self, request: Request) -> Response:
        form = {key: value[0] for key, value in parse_qs((await request.body()).decode()).items()}
        self.forms.append(form)
        if self.refuses:
            return Response('{"error": "invalid_grant"}', 400)
        number = len(self.forms)
        grant = {"access_token": f"a{number}", "refresh_token": "r1", "expires_in": self.life}
        return Response(json.dumps(grant))


class Agreeing:
    """A person whose browser follows the consent page to its end."""

    def __init__(self, **answer: str) -> None:
        self.asked: dict[str, str] = {}
        self._answer = answer or {"code": "c1"}

    def tell(self, text: str) -> None:
        pass

    async def ask(self, question: str) -> str | None:
        return None

    async def open(self, url: str) -> bool:
        self.asked = {key: value[0] for key, value in parse_qs(urlsplit(url).query).items()}
        async with httpx.AsyncClient() as browser:
            query = {"state": self.asked["state"], **self._answer}
            await browser.get(self.asked["redirect_uri"], params=query)
        return True


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "DISPLAY": ":0"}


def agent_at(url: str, card: str = "https://agent.example", **auth: Any) -> RemoteAgent:
    given = {"authorization_url": f"{url}/consent", "token_url": f"{url}/token"} | auth
    return RemoteAgent(name="helper", card=card, auth={"type": "oauth", "client_id": "me", **given})


async def test_a_person_signs_in_and_the_token_is_stored(environ: dict[str, str], home: Path):
    authority, person = Authority(), Agreeing()
    async with answering({"/token": authority.token}) as url:
        agent = agent_at(url, client_secret="shh", scopes=["beans"])
        await sign_in(agent, person, environ)
        assert await stored_token(agent, environ, fresh=False) == "a1"
    (form,) = authority.forms
    assert (form["code"], form["client_id"], form["client_secret"]) == ("c1", "me", "shh")
    assert (person.asked["scope"], person.asked["code_challenge_method"]) == ("beans", "S256")
    file = home / ".gemini" / FILE
    assert file.stat().st_mode & 0o777 == 0o600
    (entry,) = json.loads(file.read_text())
    assert entry["serverName"] == "helper"
    assert entry["token"]["accessToken"] == "a1"


async def test_a_token_is_renewed_when_it_ends_or_was_refused(environ: dict[str, str]):
    authority = Authority()
    authority.life = 60
    async with answering({"/token": authority.token}) as url:
        agent = agent_at(url)
        await sign_in(agent, Agreeing(), environ)
        authority.life = 3600
        given = [await stored_token(agent, environ, fresh=fresh) for fresh in (False, False, True)]
    assert given == ["a2", "a2", "a3"]
    assert [form["grant_type"] for form in authority.forms[1:]] == ["refresh_token"] * 2
    assert authority.forms[1]["refresh_token"] == "r1"


async def test_a_renewal_that_is_refused_says_how_to_sign_in_again(environ: dict[str, str]):
    authority = Authority()
    async with answering({"/token": authority.token}) as url:
        agent = agent_at(url)
        await sign_in(agent, Agreeing(), environ)
        authority.refuses = True
        with pytest.raises(CredentialsError) as caught:
            await stored_token(agent, environ, fresh=True)
    assert "Sign in: alhena agents auth helper." in str(caught.value)


async def test_an_agent_at_another_address_does_not_get_the_token(environ: dict[str, str]):
    authority = Authority()
    async with answering({"/token": authority.token}) as url:
        await sign_in(agent_at(url), Agreeing(), environ)
        with pytest.raises(CredentialsError, match="not signed in"):
            await stored_token(agent_at(url, "https://evil.example"), environ, fresh=False)


async def test_a_refusal_of_the_person_stores_nothing(environ: dict[str, str], home: Path):
    authority = Authority()
    async with answering({"/token": authority.token}) as url:
        with pytest.raises(CredentialsError, match="did not sign you in: access_denied"):
            await sign_in(agent_at(url), Agreeing(error="access_denied"), environ)
    assert authority.forms == []
    assert not (home / ".gemini" / FILE).exists()


async def test_the_agent_card_names_where_to_sign_in(environ: dict[str, str]):
    authority, person = Authority(), Agreeing()
    address: list[str] = []

    async def card(_request: Request) -> Response:
        url = address[0]
        flow = {
            "authorizationUrl": f"{url}/consent",
            "tokenUrl": f"{url}/token",
            "scopes": {"peas": "Counts peas."},
        }
        schemes = {"o": {"oauth2SecurityScheme": {"flows": {"authorizationCode": flow}}}}
        return Response(json.dumps(card_at(url, securitySchemes=schemes)))

    async with answering({"/card": card, "/token": authority.token}) as url:
        address.append(url)
        agent = agent_at(url, f"{url}/card", authorization_url="", token_url="")
        await sign_in(agent, person, environ)
        assert await stored_token(agent, environ, fresh=False) == "a1"
    assert person.asked["scope"] == "peas"


async def test_a_card_without_a_sign_in_is_an_error(environ: dict[str, str]):
    card = json.dumps(card_at("https://agent.example"))
    with pytest.raises(InputError, match="names no sign-in by authorization code"):
        await sign_in(agent_at("", card, authorization_url="", token_url=""), Agreeing(), environ)


async def test_a_token_endpoint_has_to_be_encrypted(environ: dict[str, str]):
    agent = agent_at("http://far.example")
    with pytest.raises(AlhenaError, match="secrets would go unencrypted"):
        await sign_in(agent, Agreeing(), environ)


def test_a_client_secret_goes_only_to_an_endpoint_of_the_definition():
    with pytest.raises(AlhenaError, match="auth has no token_url"):
        agent_at("", client_secret="shh", token_url="")


async def test_the_agent_is_asked_with_the_token(environ: dict[str, str]):
    async def answers(stage: Stage) -> None:
        await stage.answer("Hello.")

    authority = Authority()
    async with serving(answers) as remote, answering({"/token": authority.token}) as url:
        agent = agent_at(url, remote.url)
        agents = RemoteAgents([agent], environ, Path.cwd())
        before = await agents.run("helper", "Hi.", ExecutionContext(Path.cwd()))
        await sign_in(agent, Agreeing(), environ)
        after = await agents.run("helper", "Hi.", ExecutionContext(Path.cwd()))
    assert "Sign in: alhena agents auth helper." in str(before.llm_content)
    assert after.display == "Hello."
    assert {each["authorization"] for each in remote.headers} == {"Bearer a1"}


HELPER = "---\nkind: remote\nname: helper\nagent_card_url: https://agent.example\n---\n"


@pytest.fixture
def folder(home: Path) -> Path:
    folder = home / ".gemini" / "agents"
    folder.mkdir(parents=True)
    (folder / "helper.md").write_text(HELPER, encoding="utf-8")
    return folder


def test_the_command_lists_agents_and_names_files_that_are_not_used(folder: Path):
    (folder / "broken.md").write_text("---\nkind: remote\n---\n", encoding="utf-8")
    ran = alhena("agents", "list")
    assert "codebase_investigator  Finds out how" in ran.out
    assert "helper  A remote agent" in ran.out
    assert (
        f"    https://agent.example/.well-known/agent-card.json, {folder / 'helper.md'}" in ran.out
    )
    assert "broken.md is not used: its front matter has no name." in ran.err
    listed = json.loads(alhena("agents", "list", "--json").out)
    assert [each["name"] for each in listed][-1] == "helper"


def test_the_command_signs_in_to_agents_that_have_a_sign_in(folder: Path):
    ran = alhena("agents", "auth", "helper")
    assert (ran.code, "remote agent 'helper' has no sign-in" in ran.err) == (42, True)
    ran = alhena("agents", "auth", "other")
    assert (ran.code, "no remote agent 'other'" in ran.err) == (2, True)


async def test_the_command_signs_out(environ: dict[str, str]):
    authority = Authority()
    async with answering({"/token": authority.token}) as url:
        await sign_in(agent_at(url), Agreeing(), environ)
    assert token_file(os.environ).find_by_name("helper") is not None
    assert await token_file(os.environ).forget("helper")
    assert token_file(os.environ).find_by_name("helper") is None


def test_signing_out_where_nobody_is_signed_in_says_so(folder: Path):
    assert (
        alhena("agents", "auth", "helper", "--logout").out == "You are not signed in to helper.\n"
    )
