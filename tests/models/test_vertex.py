"""Vertex: the ways in, what is said when there is none, and what a refusal leads to."""

from urllib.parse import urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.config.settings import Settings, settings_of
from alhena.errors import ConfigError
from alhena.models.auth.tokens import AccessToken, BearerAccess, RenewedTokens
from alhena.models.errors import CredentialsError, ModelNotFoundError
from alhena.models.providers.select import ChosenGenerator, ModelChoice, choose_generator
from alhena.models.providers.vertex import VertexApi, model_resource, vertex_from, vertex_service
from tests.models.asking import (
    KEY,
    MODEL,
    asked,
    chunks,
    contents,
    texts,
)
from tests.support.server import Reply, ScriptedServer, json_reply, sse, text

TOKEN = "ya29.a-token-of-somebody"
PLACE = {
    "GOOGLE_GENAI_USE_VERTEXAI": "true",
    "GOOGLE_CLOUD_PROJECT": "my-project",
    "GOOGLE_CLOUD_LOCATION": "us-central1",
}
REFUSED = {"error": {"code": 401, "message": f"bad token {TOKEN}", "status": "UNAUTHENTICATED"}}


def choose(environ: dict[str, str], settings: Settings | None = None) -> ChosenGenerator:
    return choose_generator(
        ModelChoice(model=MODEL, environ=environ, settings=settings or Settings())
    )


def refused(status: int = 401) -> Reply:
    return json_reply(REFUSED, status)


@pytest.mark.requirement("WIRE-04")
async def test_project_and_location_are_asked_with_a_token_of_the_environment(
    server: ScriptedServer,
):
    server.reply(sse(text("ok")))
    there = {"GOOGLE_VERTEX_BASE_URL": f"{server.url}/gate/", "GOOGLE_CLOUD_ACCESS_TOKEN": TOKEN}
    chosen = choose(PLACE | there)
    assert texts(await chunks(chosen.generator)) == ["ok"]
    await chosen.generator.aclose()
    [request] = server.requests
    assert request.path == (
        "/gate/v1beta1/projects/my-project/locations/us-central1/publishers/google/models/"
        f"{MODEL}:streamGenerateContent?alt=sse"
    )
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert "x-goog-api-key" not in request.headers
    assert chosen.auth_type == "vertex-ai"
    assert chosen.notices == ()


@pytest.mark.requirement("WIRE-04")
async def test_an_express_key_goes_out_in_a_header_and_in_no_address(server: ScriptedServer):
    server.reply(sse(text("ok")), json_reply({"totalTokens": 2}))
    environ = PLACE | {"GOOGLE_API_KEY": KEY, "GOOGLE_VERTEX_BASE_URL": server.url}
    chosen = choose(environ | {"GEMINI_API_KEY": "another"})
    await chunks(chosen.generator)
    assert await chosen.generator.count_tokens(contents("x"), model=MODEL) == 2
    await chosen.generator.aclose()
    for request, method in zip(
        server.requests, ("streamGenerateContent?alt=sse", "countTokens"), strict=True
    ):
        assert request.path == f"/v1beta1/publishers/google/models/{MODEL}:{method}"
        assert request.headers["x-goog-api-key"] == KEY
        assert "authorization" not in request.headers


async def test_headers_and_version_of_the_environment_and_the_settings_are_sent(
    server: ScriptedServer,
):
    server.reply(sse(text("ok")))
    billing = {"requestType": "shared", "sharedRequestType": "flex"}
    settings = settings_of({"billing": {"vertexAi": billing}}, "test")
    environ = {
        "GOOGLE_GENAI_USE_VERTEXAI": "1",
        "GOOGLE_API_KEY": KEY,
        "GOOGLE_VERTEX_BASE_URL": server.url,
        "GOOGLE_GENAI_API_VERSION": "v1",
        "GEMINI_CLI_CUSTOM_HEADERS": "X-Team: red",
        "GEMINI_API_KEY_AUTH_MECHANISM": "bearer",
    }
    chosen = choose(environ, settings)
    await chunks(chosen.generator)
    await chosen.generator.aclose()
    [request] = server.requests
    assert request.path.startswith("/v1/publishers/")
    assert request.headers["x-team"] == "red"
    assert request.headers["x-vertex-ai-llm-request-type"] == "shared"
    assert request.headers["x-vertex-ai-llm-shared-request-type"] == "flex"
    assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (("GOOGLE_CLOUD_PROJECT",), "not set: GOOGLE_CLOUD_PROJECT."),
        (("GOOGLE_CLOUD_LOCATION",), "not set: GOOGLE_CLOUD_LOCATION."),
        (
            ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
            "not set: GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION.",
        ),
    ],
)
def test_what_is_missing_is_named(missing: tuple[str, ...], told: str):
    environ = {name: value for name, value in PLACE.items() if name not in missing}
    with pytest.raises(CredentialsError) as caught:
        choose(environ | {"GEMINI_API_KEY": KEY})
    assert caught.value.exit_code == 41
    message = str(caught.value)
    assert message.startswith("When using Vertex AI, you must specify either")
    assert told in message
    assert "GOOGLE_API_KEY" in message
    assert "\n" not in message


async def test_the_other_name_of_the_project_counts_where_the_first_is_not_set(
    server: ScriptedServer,
):
    server.reply(sse(text("ok")))
    environ = PLACE | {"GOOGLE_CLOUD_PROJECT": "", "GOOGLE_CLOUD_PROJECT_ID": "other"}
    environ |= {"GOOGLE_VERTEX_BASE_URL": server.url, "GOOGLE_CLOUD_ACCESS_TOKEN": TOKEN}
    generator = vertex_from(environ, "")
    await chunks(generator)
    await generator.aclose()
    assert "/projects/other/locations/us-central1/" in server.requests[0].path


async def test_a_gateway_that_lets_us_in_itself_needs_nothing(server: ScriptedServer):
    server.reply(sse(text("ok")))
    environ = {"GOOGLE_VERTEX_BASE_URL": server.url, "GEMINI_CLI_CUSTOM_HEADERS": "X-Pass: yes"}
    auth = {"auth": {"selectedType": "vertex-ai", "useExternal": True}}
    chosen = choose(environ, settings_of({"security": auth}, "test"))
    await chunks(chosen.generator)
    await chosen.generator.aclose()
    [request] = server.requests
    assert request.path.startswith(f"/v1beta1/publishers/google/models/{MODEL}:")
    assert request.headers["x-pass"] == "yes"
    assert not request.headers.keys() & {"authorization", "x-goog-api-key"}


@pytest.mark.parametrize(
    "location", ["us central1", "evil.example/", "../x", "US", "a@b", "\u00e9"]
)
def test_a_location_that_is_none_does_not_become_a_host(location: str):
    environ = PLACE | {"GOOGLE_CLOUD_LOCATION": location, "GOOGLE_CLOUD_ACCESS_TOKEN": TOKEN}
    with pytest.raises(ConfigError, match="GOOGLE_CLOUD_LOCATION"):
        choose(environ)


@pytest.mark.parametrize("variable", ["GOOGLE_VERTEX_BASE_URL", "GOOGLE_GENAI_API_VERSION"])
def test_an_address_or_version_that_cannot_be_used_is_a_configuration_error(variable: str):
    with pytest.raises(ConfigError, match=variable):
        vertex_from({variable: "no such"}, KEY)


def test_credentials_that_go_unencrypted_are_told():
    there = {"GOOGLE_VERTEX_BASE_URL": "http://10.0.0.9", "GOOGLE_CLOUD_ACCESS_TOKEN": TOKEN}
    chosen = choose(PLACE | there)
    assert any("unencrypted" in notice for notice in chosen.notices)


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_model_and_project_stay_below_the_path_of_the_version(model: str, project: str):
    service = vertex_service({}, project=project, location="global")
    url = urlsplit(f"http://a{service.path(model, 'generateContent')}?alt=sse")
    assert url.path.startswith("/v1beta1/projects/")
    assert url.path.endswith(":generateContent")
    assert (url.query, url.fragment) == ("alt=sse", "")
    assert ".." not in url.path.split("/")
    assert url.path.isascii()
    assert url.path.isprintable()


@pytest.mark.parametrize(
    ("model", "resource"),
    [
        ("gemini-2.5-pro", "publishers/google/models/gemini-2.5-pro"),
        ("publishers/x/models/y", "publishers/x/models/y"),
        ("meta/llama", "publishers/meta/models/llama"),
        ("endpoints/42", "endpoints/42"),
        ("a b?c", "publishers/google/models/a%20b%3Fc"),
    ],
)
def test_models_are_named_by_their_resource(model: str, resource: str):
    assert model_resource(model) == resource


class Renewing:
    """Tokens `t1`, `t2`, … and how many were given out."""

    def __init__(self) -> None:
        self.count = 0

    async def renew(self) -> AccessToken:
        self.count += 1
        return AccessToken(f"secret-token-{self.count}", None)


def with_tokens(server: ScriptedServer, renewing: Renewing) -> VertexApi:
    service = vertex_service(
        {"GOOGLE_VERTEX_BASE_URL": server.url}, project="p", location="us-central1"
    )
    access = BearerAccess(RenewedTokens(renewing.renew), remedy="Sign in again.")
    return VertexApi(service, access)


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_refused_token_is_renewed_and_the_request_sent_once_more(
    server: ScriptedServer, streamed: bool
):
    renewing = Renewing()
    server.reply(refused(), sse(text("ok")) if streamed else json_reply(text("ok")))
    generator = with_tokens(server, renewing)
    answer = await chunks(generator) if streamed else [await generator.generate(asked())]
    await generator.aclose()
    assert texts(answer) == ["ok"]
    first, second = server.requests
    assert first.headers["authorization"] == "Bearer secret-token-1"
    assert second.headers["authorization"] == "Bearer secret-token-2"
    assert first.body == second.body
    assert server.connections == 1


async def test_a_token_that_is_refused_twice_ends_the_request(server: ScriptedServer):
    renewing = Renewing()
    server.reply(refused(), refused())
    generator = with_tokens(server, renewing)
    with pytest.raises(CredentialsError, match=r"Sign in again\.") as caught:
        await chunks(generator)
    await generator.aclose()
    assert caught.value.exit_code == 41
    assert len(server.requests) == renewing.count == 2
    assert "secret-token" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 403, 404, 429, 500])
async def test_no_other_status_renews_the_token(server: ScriptedServer, status: int):
    renewing = Renewing()
    server.reply(refused(status))
    generator = with_tokens(server, renewing)
    with pytest.raises(Exception, match="HTTP"):
        await chunks(generator)
    await generator.aclose()
    assert len(server.requests) == renewing.count == 1


async def test_a_refused_token_of_the_environment_is_told_and_not_shown(server: ScriptedServer):
    server.reply(refused())
    environ = PLACE | {"GOOGLE_VERTEX_BASE_URL": server.url, "GOOGLE_CLOUD_ACCESS_TOKEN": TOKEN}
    generator = vertex_from(environ, "")
    with pytest.raises(CredentialsError, match="GOOGLE_CLOUD_ACCESS_TOKEN") as caught:
        await chunks(generator)
    await generator.aclose()
    assert len(server.requests) == 1
    assert TOKEN not in str(caught.value)
    assert TOKEN not in repr(generator)
    assert "GEMINI_API_KEY" not in str(caught.value)


async def test_a_model_that_is_not_there_names_the_variables_of_vertex(server: ScriptedServer):
    server.reply(json_reply({"error": {"code": 404, "message": "no"}}, 404))
    generator = vertex_from({"GOOGLE_VERTEX_BASE_URL": server.url}, KEY)
    with pytest.raises(ModelNotFoundError, match="GOOGLE_VERTEX_BASE_URL") as caught:
        await chunks(generator)
    await generator.aclose()
    assert "GOOGLE_GEMINI_BASE_URL" not in str(caught.value)


def test_a_service_shows_none_of_its_headers():
    service = vertex_service({"GEMINI_CLI_CUSTOM_HEADERS": "X-Pass: hush-hush"})
    assert service.headers == {"x-pass": "hush-hush"}
    assert "hush" not in repr(msgspec.structs.replace(service, project="p"))
