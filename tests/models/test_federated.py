"""Identities of other providers and impersonated accounts: tokens by way of google-auth."""

import json
from pathlib import Path
from typing import Any

import pytest

from alhena.errors import ModelError, NetworkError, ServerFaultError
from alhena.models.auth import SCOPE
from alhena.models.auth.adc import default_credentials
from alhena.models.errors import CredentialsError
from tests.models.google import ACCESS, GRANT, REFRESH, form_of, user_info, written
from tests.support.server import Reply, ScriptedServer, json_reply

SUBJECT = "subject-token-of-the-workload"
FEDERATED = "federated-token-of-the-workload"
AUDIENCE = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q"
EXPIRY = "2100-01-02T03:04:05Z"


def workload(url: str, source: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Credentials file of a workload that signs in without a key."""
    return {
        "type": "external_account",
        "audience": AUDIENCE,
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{url}/v1/token",
        "credential_source": source,
    } | more


async def token_of(project: Path, info: dict[str, Any], **environ: str) -> str:
    path = written(project / "adc.json", info)
    found = default_credentials({"GOOGLE_APPLICATION_CREDENTIALS": path, **environ})
    return await found.tokens.token()


async def test_a_workload_exchanges_the_token_of_its_provider(
    server: ScriptedServer, project: Path
):
    server.reply(json_reply({"value": SUBJECT}), json_reply(GRANT))
    source = {
        "url": f"{server.url}/provider?audience=x",
        "headers": {"Authorization": "bearer runner"},
        "format": {"type": "json", "subject_token_field_name": "value"},
    }
    assert await token_of(project, workload(server.url, source)) == ACCESS
    asked, exchanged = server.requests
    assert (asked.method, asked.path) == ("GET", "/provider?audience=x")
    assert asked.headers["authorization"] == "bearer runner"
    assert (exchanged.method, exchanged.path) == ("POST", "/v1/token")
    form = form_of(exchanged)
    assert form["subject_token"] == SUBJECT
    assert form["audience"] == AUDIENCE
    assert form["scope"] == SCOPE


async def test_a_workload_can_act_as_a_service_account(server: ScriptedServer, project: Path):
    granted = json_reply({"accessToken": ACCESS, "expireTime": EXPIRY})
    server.reply(json_reply(GRANT | {"access_token": FEDERATED}), granted)
    (project / "subject").write_text(SUBJECT, encoding="utf-8")
    info = workload(
        server.url,
        {"file": str(project / "subject")},
        service_account_impersonation_url=(
            f"{server.url}/v1/projects/-/serviceAccounts/robot@p.iam.example:generateAccessToken"
        ),
    )
    assert await token_of(project, info) == ACCESS
    _, impersonated = server.requests
    assert impersonated.headers["authorization"] == f"Bearer {FEDERATED}"
    assert json.loads(impersonated.body)["scope"] == [SCOPE]


async def test_a_user_can_act_as_a_service_account(server: ScriptedServer, project: Path):
    granted = json_reply({"accessToken": ACCESS, "expireTime": EXPIRY})
    server.reply(json_reply(GRANT | {"access_token": FEDERATED}), granted)
    info = {
        "type": "impersonated_service_account",
        "source_credentials": user_info(server.url),
        "delegates": ["projects/-/serviceAccounts/between@p.iam.example"],
        "service_account_impersonation_url": (
            f"{server.url}/v1/projects/-/serviceAccounts/robot@p.iam.example:generateAccessToken"
        ),
    }
    assert await token_of(project, info) == ACCESS
    user, impersonated = server.requests
    assert form_of(user)["refresh_token"] == REFRESH
    assert impersonated.path.endswith("robot@p.iam.example:generateAccessToken")
    assert impersonated.headers["authorization"] == f"Bearer {FEDERATED}"
    assert impersonated.json == {
        "delegates": ["projects/-/serviceAccounts/between@p.iam.example"],
        "scope": [SCOPE],
        "lifetime": "3600s",
    }


async def test_the_token_of_the_user_is_renewed_once_when_the_service_refuses_it(
    server: ScriptedServer, project: Path
):
    refused = json_reply({"error": {"code": 401, "message": "no", "status": "X"}}, 401)
    server.reply(
        json_reply(GRANT | {"access_token": "first"}),
        json_reply({"accessToken": "one", "expireTime": EXPIRY}),
        refused,
        json_reply(GRANT | {"access_token": "second"}),
        json_reply({"accessToken": "two", "expireTime": EXPIRY}),
        *(refused, json_reply(GRANT | {"access_token": "third"}), refused),
    )
    info = {
        "type": "impersonated_service_account",
        "source_credentials": user_info(server.url),
        "service_account_impersonation_url": f"{server.url}/robot:generateAccessToken",
    }
    path = written(project / "adc.json", info)
    tokens = default_credentials({"GOOGLE_APPLICATION_CREDENTIALS": path}).tokens
    assert await tokens.token() == "one"
    assert await tokens.token(fresh=True) == "two"
    shown = [one.headers.get("authorization") for one in server.requests if "robot" in one.path]
    assert shown == ["Bearer first", "Bearer first", "Bearer second"]
    with pytest.raises(CredentialsError, match="HTTP 401"):
        await tokens.token(fresh=True)
    assert len(server.requests) == 8


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (404, {"error": {"code": 404, "message": "Not found; gone", "status": "NOT_FOUND"}}),
        (429, {"error": {"code": 429, "message": "limit: 0", "status": "RESOURCE_EXHAUSTED"}}),
        (403, {"error": {"code": 403, "message": f"{FEDERATED} may not", "status": "X"}}),
        (200, {"accessToken": ACCESS, "expireTime": "soon"}),
        (200, {"expireTime": EXPIRY}),
        (200, []),
    ],
)
async def test_an_account_that_cannot_be_acted_as_is_told_without_the_tokens(
    server: ScriptedServer, project: Path, status: int, answer: Any
):
    server.reply(json_reply(GRANT | {"access_token": FEDERATED}), json_reply(answer, status))
    info = {
        "type": "impersonated_service_account",
        "source_credentials": user_info(server.url),
        "service_account_impersonation_url": f"{server.url}/robot:generateAccessToken",
    }
    with pytest.raises(ModelError, match=server.url) as caught:
        await token_of(project, info)
    refused = CredentialsError if status in {403, 404} else ServerFaultError
    assert type(caught.value) is refused
    assert not [secret for secret in (FEDERATED, ACCESS, REFRESH) if secret in str(caught.value)]


@pytest.mark.parametrize("source", [None, {}, {"type": "impersonated_service_account"}])
def test_an_impersonation_without_an_identity_is_refused(project: Path, source: Any):
    info = {
        "type": "impersonated_service_account",
        "source_credentials": source,
        "service_account_impersonation_url": "https://a.example/robot",
    }
    path = written(project / "adc.json", info)
    with pytest.raises(CredentialsError, match="type that is not known"):
        default_credentials({"GOOGLE_APPLICATION_CREDENTIALS": path})


@pytest.mark.parametrize(
    ("source", "told"),
    [({"file": "/nowhere/subject"}, "/nowhere/subject"), ({}, "adc.json"), ({"url": 1}, "adc")],
)
async def test_a_file_that_leads_to_no_token_is_told(
    server: ScriptedServer, project: Path, source: dict[str, Any], told: str
):
    with pytest.raises(ModelError, match=told) as caught:
        await token_of(project, workload(server.url, source))
    assert caught.value.exit_code == 41
    assert str(caught.value).isprintable()


async def test_a_refused_exchange_is_told_without_the_tokens(server: ScriptedServer, project: Path):
    refused = {"error": "invalid_grant", "error_description": f"no {SUBJECT}"}
    server.reply(json_reply(refused, 400))
    (project / "subject").write_text(SUBJECT, encoding="utf-8")
    with pytest.raises(CredentialsError, match="invalid_grant") as caught:
        await token_of(project, workload(server.url, {"file": str(project / "subject")}))
    assert SUBJECT not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_a_token_service_out_of_reach_is_a_network_error(project: Path):
    (project / "subject").write_text(SUBJECT, encoding="utf-8")
    info = workload("http://127.0.0.1:1", {"file": str(project / "subject")})
    with pytest.raises(NetworkError, match=r"127\.0\.0\.1:1"):
        await token_of(project, info)


async def test_the_exchange_goes_through_the_proxy(server: ScriptedServer, project: Path):
    server.reply(Reply(pieces=[SUBJECT.encode("ascii")]), json_reply(GRANT))
    info = workload("http://sts.example", {"url": "http://provider.example/who/?a=b"})
    assert await token_of(project, info, HTTP_PROXY=server.url) == ACCESS
    asked, exchanged = server.requests
    assert (asked.method, asked.path) == ("GET", "http://provider.example/who/?a=b")
    assert (exchanged.method, exchanged.path) == ("POST", "http://sts.example/v1/token")
    assert form_of(exchanged)["subject_token"] == SUBJECT


async def test_a_person_of_another_provider_has_a_refresh_token_too(
    server: ScriptedServer, project: Path
):
    server.reply(json_reply(GRANT))
    info = {
        "type": "external_account_authorized_user",
        "audience": "//iam.googleapis.com/locations/global/workforcePools/p/providers/q",
        "refresh_token": REFRESH,
        "token_url": f"{server.url}/v1/oauthtoken",
        "client_id": "client",
        "client_secret": "secret-of-the-client",
    }
    assert await token_of(project, info) == ACCESS
    [request] = server.requests
    assert request.path == "/v1/oauthtoken"
    assert form_of(request)["refresh_token"] == REFRESH
