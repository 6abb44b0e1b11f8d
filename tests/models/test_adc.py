"""Application Default Credentials: where they are looked for, and the tokens they give."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.errors import ConfigError, ModelError, NetworkError, ServerFaultError
from alhena.http import Timeouts
from alhena.models.auth import SCOPE
from alhena.models.auth.adc import account_tokens, default_credentials, gcloud_file, metadata_tokens
from alhena.models.auth.tokens import Credentials
from alhena.models.errors import CredentialsError
from alhena.models.providers.select import ModelChoice, choose_generator
from tests.models.asking import MODEL, chunks, texts
from tests.models.google import (
    ACCESS,
    CLIENT_SECRET,
    GRANT,
    REFRESH,
    Account,
    form_of,
    user_info,
    written,
)
from tests.support.server import Reply, ScriptedServer, json_reply, sse, text

SECRETS = (ACCESS, CLIENT_SECRET, REFRESH, "PRIVATE KEY")


@pytest.fixture(scope="module")
def account() -> Account:
    return Account()


def elsewhere() -> str:
    return "Some other machine"


def found(environ: dict[str, str], **options: Any) -> Credentials:
    return default_credentials(environ, product=elsewhere, **options)


def shows_no_secret(error: BaseException | None) -> None:
    """Nothing secret in the message, nor in what it was raised from."""
    while error is not None:
        assert not [secret for secret in SECRETS if secret in str(error)]
        error = error.__cause__


async def test_a_users_refresh_token_is_exchanged_for_an_access_token(
    server: ScriptedServer, project: Path
):
    server.reply(json_reply(GRANT))
    path = written(project / "adc.json", user_info(server.url))
    credentials = found({"GOOGLE_APPLICATION_CREDENTIALS": path})
    assert await credentials.tokens.token() == ACCESS
    assert await credentials.tokens.token() == ACCESS
    [request] = server.requests
    assert (request.method, request.path) == ("POST", "/token")
    assert form_of(request) == {
        "grant_type": "refresh_token",
        "client_id": "client.apps.example",
        "client_secret": CLIENT_SECRET,
        "refresh_token": REFRESH,
    }


async def test_a_service_account_signs_for_its_token(
    server: ScriptedServer, project: Path, account: Account
):
    server.reply(json_reply(GRANT))
    tokens = account_tokens(account.info(server.url), {}, "robot.json", now=lambda: 1_700_000_000.5)
    assert await tokens.token() == ACCESS
    form = form_of(server.requests[0])
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    head, claims = account.claims(form["assertion"])
    assert head == {"typ": "JWT", "alg": "RS256", "kid": "key-1"}
    assert claims == {
        "iss": account.email,
        "scope": SCOPE,
        "aud": f"{server.url}/token",
        "iat": 1_700_000_000,
        "exp": 1_700_003_600,
    }
    path = written(project / "robot.json", account.info(server.url))
    assert path in found({"GOOGLE_APPLICATION_CREDENTIALS": path}).source


async def test_a_key_that_is_none_is_told_without_quoting_it(server: ScriptedServer):
    info = Account.info(Account(), server.url, private_key="-----BEGIN PRIVATE KEY-----\nabc")
    with pytest.raises(CredentialsError, match=r"private_key of robot\.json") as caught:
        await account_tokens(info, {}, "robot.json").token()
    shows_no_secret(caught.value)
    assert server.requests == []


async def test_gclouds_own_file_is_used_where_no_other_is_named(
    server: ScriptedServer, project: Path
):
    server.reply(json_reply(GRANT))
    home = project / "home"
    written(home / ".config" / "gcloud" / "application_default_credentials.json",
            user_info(server.url, quota_project_id="charged"))  # fmt: skip
    credentials = found({"HOME": str(home)})
    assert await credentials.tokens.token() == ACCESS
    assert credentials.quota_project == "charged"
    other = found({"HOME": str(home), "GOOGLE_CLOUD_QUOTA_PROJECT": "mine"})
    assert other.quota_project == "mine"


def test_gclouds_directory_can_be_elsewhere():
    assert gcloud_file({"CLOUDSDK_CONFIG": "/x", "HOME": "/h"}) == Path(
        "/x/application_default_credentials.json"
    )
    assert gcloud_file({}) is None


async def test_vertex_is_asked_with_the_credentials_of_the_machine(
    server: ScriptedServer, project: Path
):
    server.reply(json_reply(GRANT), sse(text("ok")), sse(text("again")))
    path = written(project / "adc.json", user_info(server.url, quota_project_id="charged"))
    environ = {
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_CLOUD_PROJECT": "p",
        "GOOGLE_CLOUD_LOCATION": "global",
        "GOOGLE_VERTEX_BASE_URL": server.url,
        "GOOGLE_APPLICATION_CREDENTIALS": path,
    }
    chosen = choose_generator(ModelChoice(model=MODEL, environ=environ))
    assert texts(await chunks(chosen.generator)) == ["ok"]
    assert texts(await chunks(chosen.generator)) == ["again"]
    await chosen.generator.aclose()
    _, first, second = server.requests
    for request in (first, second):
        assert request.path.startswith("/v1beta1/projects/p/locations/global/publishers/google/")
        assert request.headers["authorization"] == f"Bearer {ACCESS}"
        assert request.headers["x-goog-user-project"] == "charged"


async def test_an_error_names_the_project_that_is_charged_and_keeps_its_link(
    server: ScriptedServer, project: Path
):
    link = "https://console.example/apis/overview?project=my-quota-proj"
    error = {
        "code": 403,
        "message": f"The API was not used in project my-quota-proj before. Enable it: {link}",
        "status": "PERMISSION_DENIED",
        "details": [{"link": link, "token": f"Bearer {ACCESS}"}],
    }
    server.reply(json_reply(GRANT), json_reply({"error": error}, 403))
    environ = {
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_CLOUD_PROJECT": "p",
        "GOOGLE_CLOUD_LOCATION": "global",
        "GOOGLE_VERTEX_BASE_URL": server.url,
        "GOOGLE_APPLICATION_CREDENTIALS": written(project / "adc.json", user_info(server.url)),
        "GOOGLE_CLOUD_QUOTA_PROJECT": "my-quota-proj",
    }
    chosen = choose_generator(ModelChoice(model=MODEL, environ=environ))
    with pytest.raises(CredentialsError) as caught:
        await chunks(chosen.generator)
    await chosen.generator.aclose()
    assert server.requests[1].headers["x-goog-user-project"] == "my-quota-proj"
    assert link in caught.value.message
    assert caught.value.details == ({"link": link, "token": "Bearer [redacted]"},)


@pytest.mark.parametrize(
    ("reply", "kind", "told"),
    [
        (
            json_reply({"error": "invalid_grant", "error_description": f"{REFRESH} is dead"}, 400),
            CredentialsError,
            "gcloud auth application-default login",
        ),
        (json_reply({"error": "invalid_client"}, 401), CredentialsError, "invalid_client"),
        (json_reply({"error": {"code": 403}}, 403), CredentialsError, "HTTP 403"),
        (json_reply({}, 429), ServerFaultError, "for now"),
        (json_reply({}, 503), ServerFaultError, "HTTP 503"),
        (json_reply({"id_token": ACCESS}), ServerFaultError, "something else"),
        (json_reply({"access_token": f"{ACCESS}\r\nx: y"}), ServerFaultError, "something else"),
        (json_reply([]), ServerFaultError, "something else"),
        (Reply(pieces=[b"<html>\xff"]), ServerFaultError, "something else"),
        (Reply(pieces=[b'{"access_token": "' + b"a" * 300_000]), ServerFaultError, "something"),
    ],
)
async def test_a_token_that_is_not_given_is_told_and_nothing_secret_with_it(
    server: ScriptedServer, project: Path, reply: Reply, kind: type[ModelError], told: str
):
    server.reply(reply)
    path = written(project / "adc.json", user_info(server.url))
    credentials = found({"GOOGLE_APPLICATION_CREDENTIALS": path})
    with pytest.raises(kind, match=re.escape(told)) as caught:
        await credentials.tokens.token()
    assert str(caught.value).isprintable()
    shows_no_secret(caught.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "no JSON object"),
        ("[]", "no JSON object"),
        ('{"type": "authorized_user"', "no JSON object"),
        ("{}", "type that is not known: 'None'"),
        ('{"type": "magic"}', "'magic'"),
        ('{"type": "authorized_user", "client_id": "a", "client_secret": 1}', "no client_secret"),
        ('{"type": "service_account", "client_email": "a"}', "no private_key"),
    ],
)
def test_a_file_that_holds_no_credentials_is_told_by_its_name(
    project: Path, content: str, told: str
):
    path = project / "adc.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(CredentialsError, match=re.escape(told)) as caught:
        found({"GOOGLE_APPLICATION_CREDENTIALS": str(path)})
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 41


@pytest.mark.parametrize("kind", ["authorized_user", "service_account", "impersonated"])
def test_secrets_do_not_go_unencrypted_to_another_machine(
    project: Path, account: Account, kind: str
):
    far = "http://tokens.example"
    info = {
        "authorized_user": user_info(far),
        "service_account": account.info(far),
        "impersonated": {
            "type": "impersonated_service_account",
            "source_credentials": user_info("https://tokens.example"),
            "service_account_impersonation_url": f"{far}/robot",
        },
    }[kind]
    path = written(project / "adc.json", info)
    with pytest.raises(ConfigError, match="unencrypted") as caught:
        found({"GOOGLE_APPLICATION_CREDENTIALS": path})
    shows_no_secret(caught.value)


FIELDS = ("client_id", "client_secret", "refresh_token", "client_email", "private_key", "token_uri",
          "source_credentials", "service_account_impersonation_url", "delegates",
          "quota_project_id")  # fmt: skip
KINDS = ("authorized_user", "service_account", "impersonated_service_account", "external_account")
VALUES = st.none() | st.integers() | st.text() | st.lists(st.text()) | st.dictionaries(
    st.sampled_from(("type", *FIELDS)), st.text() | st.sampled_from(KINDS)
)  # fmt: skip


def outcome(environ: dict[str, str]) -> str:
    """The project that is charged, or why there are no credentials."""
    try:
        return found(environ).quota_project
    except (CredentialsError, ConfigError) as error:
        return str(error)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), VALUES))
def test_any_file_is_credentials_or_is_refused_in_words(
    project: Path, kind: str, fields: dict[str, Any]
):
    path = written(project / "adc.json", {"type": kind} | fields)
    assert outcome({"GOOGLE_APPLICATION_CREDENTIALS": path}).isprintable()


def test_a_named_file_that_cannot_be_read_is_not_passed_over(project: Path):
    fifo = project / "fifo"
    os.mkfifo(fifo)
    home = project / "home"
    written(home / ".config" / "gcloud" / "application_default_credentials.json", user_info("x"))
    for path in (project / "missing.json", project, fifo, Path("a\0b")):
        environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(path), "HOME": str(home)}
        with pytest.raises(CredentialsError, match="GOOGLE_APPLICATION_CREDENTIALS"):
            found(environ)


def test_without_any_credentials_it_is_told_where_they_were_looked_for(project: Path):
    with pytest.raises(CredentialsError) as caught:
        found({"HOME": str(project)})
    message = str(caught.value)
    assert caught.value.exit_code == 41
    for words in ("GOOGLE_APPLICATION_CREDENTIALS", str(project / ".config"), "gcloud auth"):
        assert words in message


@pytest.mark.parametrize("way", ["asked for", "named", "serverless", "by its make"])
async def test_the_metadata_server_gives_the_tokens_of_googles_machines(
    server: ScriptedServer, way: str
):
    headers = {"Metadata-Flavor": "Google"}
    server.reply(json_reply(GRANT, headers=headers))
    environ = {"GCE_METADATA_HOST": server.url.removeprefix("http://")}
    environ |= {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    if way == "asked for":
        credentials = found(environ, metadata=True)
    elif way == "by its make":
        credentials = default_credentials(environ, product=lambda: "Google Compute Engine")
    else:
        credentials = found(environ | ({"K_SERVICE": "x"} if way == "serverless" else {}))
    assert await credentials.tokens.token() == ACCESS
    [request] = server.requests
    assert request.method == "GET"
    assert request.path == "/computeMetadata/v1/instance/service-accounts/default/token"
    assert request.headers["metadata-flavor"] == "Google"
    assert "content-length" not in request.headers


@pytest.mark.parametrize(
    ("reply", "kind", "told"),
    [
        (json_reply(GRANT), CredentialsError, "no metadata server"),
        (json_reply({}, 404, headers={"Metadata-Flavor": "Google"}), CredentialsError, "404"),
        (json_reply({}, 503, headers={"Metadata-Flavor": "Google"}), ServerFaultError, "503"),
    ],
)
async def test_a_metadata_server_without_a_token_is_told(
    server: ScriptedServer, reply: Reply, kind: type[ModelError], told: str
):
    server.reply(reply)
    tokens = metadata_tokens({"GCE_METADATA_HOST": server.url.removeprefix("http://")})
    with pytest.raises(kind, match=told) as caught:
        await tokens.token()
    shows_no_secret(caught.value)


async def test_a_metadata_server_that_is_not_there_is_not_waited_for():
    silent = metadata_tokens(
        {"GCE_METADATA_HOST": "127.0.0.1:1"}, limits=Timeouts(connect=0.05, idle=0.05)
    )
    with pytest.raises(CredentialsError, match="metadata server gives no token") as caught:
        await silent.token()
    assert caught.value.exit_code == 41


async def test_the_metadata_server_is_asked_by_its_number():
    hurried = metadata_tokens({}, limits=Timeouts(connect=1e-6, idle=1e-6))
    with pytest.raises(CredentialsError, match=r"\(http://169\.254\.169\.254\)"):
        await hurried.token()


async def test_a_metadata_server_that_goes_away_leaves_the_token_that_holds(
    server: ScriptedServer,
):
    now = [0.0]
    server.reply(json_reply(GRANT, headers={"Metadata-Flavor": "Google"}))
    host = server.url.removeprefix("http://")
    tokens = metadata_tokens({"GCE_METADATA_HOST": host}, now=lambda: now[0])
    assert await tokens.token() == ACCESS
    server.__exit__()
    now[0] = 3500
    assert await tokens.token() == ACCESS
    now[0] = 3600
    with pytest.raises(NetworkError):
        await tokens.token()


AUDIENCE = "https://agent-x.run.app"


async def test_each_kind_gives_identity_tokens_for_an_audience(
    server: ScriptedServer, project: Path, account: Account
):
    server.reply(json_reply({"id_token": "of.the.user"}))
    server.reply(json_reply({"id_token": "of.the.robot"}))
    metadata = Reply(pieces=[b"of.the.machine\n"], headers={"Metadata-Flavor": "Google"})
    server.reply(metadata)
    user = written(project / "adc.json", user_info(server.url))
    robot = written(project / "robot.json", account.info(server.url))
    given: list[str] = []
    for environ in (
        {"GOOGLE_APPLICATION_CREDENTIALS": user},
        {"GOOGLE_APPLICATION_CREDENTIALS": robot},
        {"GCE_METADATA_HOST": server.url.removeprefix("http://")},
    ):
        tokens = found(environ, audience=AUDIENCE).tokens
        given += [await tokens.token(), await tokens.token()]
    assert given == [f"of.the.{who}" for who in ("user", "robot", "machine") for _ in range(2)]
    first, second, third = server.requests
    assert form_of(first)["target_audience"] == AUDIENCE
    claims = account.claims(form_of(second)["assertion"])[1]
    assert claims["target_audience"] == AUDIENCE
    assert "scope" not in claims
    assert third.path.endswith("/identity?audience=https%3A%2F%2Fagent-x.run.app&format=full")


async def test_an_answer_without_an_identity_token_is_an_error(
    server: ScriptedServer, project: Path
):
    server.reply(json_reply(GRANT))
    path = written(project / "adc.json", user_info(server.url))
    tokens = found({"GOOGLE_APPLICATION_CREDENTIALS": path}, audience=AUDIENCE).tokens
    with pytest.raises(ServerFaultError, match="something else") as caught:
        await tokens.token()
    shows_no_secret(caught.value)


def test_other_kinds_give_no_identity_tokens(project: Path):
    path = written(project / "other.json", {"type": "external_account"})
    with pytest.raises(CredentialsError, match="give no identity tokens"):
        found({"GOOGLE_APPLICATION_CREDENTIALS": path}, audience=AUDIENCE)


def test_credentials_show_nothing_secret(project: Path, account: Account):
    path = written(project / "robot.json", account.info("http://127.0.0.1:1"))
    credentials = found({"GOOGLE_APPLICATION_CREDENTIALS": path})
    assert not [secret for secret in SECRETS if secret in repr(credentials)]
    assert not [secret for secret in SECRETS if secret in repr(credentials.tokens)]
