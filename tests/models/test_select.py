from pathlib import Path
from typing import Any

import pytest

from alhena.config.settings import AuthSettings, settings_of
from alhena.errors import ConfigError
from alhena.models.errors import CredentialsError, RecordingError
from alhena.models.providers.demo import DemoGenerator
from alhena.models.providers.gemini_api import GeminiApi, OlderSchemas
from alhena.models.providers.recorded import AnswerRecorder, RecordedGenerator
from alhena.models.providers.select import AuthType, ModelChoice, auth_type, choose_generator
from alhena.wire.content import text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    ToolDeclarations,
)
from tests.models.asking import KEY, MODEL, chunks, texts
from tests.support.server import ScriptedServer, json_reply, sse, text


def choice(
    model: str = MODEL, environ: dict[str, str] | None = None, **options: Any
) -> ModelChoice:
    return ModelChoice(model=model, environ=environ or {}, **options)


async def test_recorded_responses_come_before_all_else(project: Path):
    path = project / "r.jsonl"
    path.write_text('{"method": "generateContentStream", "response": []}\n', encoding="utf-8")
    chosen = choose_generator(choice("demo", {"GEMINI_API_KEY": KEY}, fake_responses=str(path)))
    assert isinstance(chosen.generator, RecordedGenerator)
    assert chosen.notices == ()
    await chosen.generator.aclose()
    with pytest.raises(RecordingError, match=r"missing\.jsonl"):
        choose_generator(choice(fake_responses=str(project / "missing.jsonl")))


async def test_the_demo_model_answers_by_its_name_whatever_is_set():
    environ = {"GEMINI_API_KEY": KEY, "GOOGLE_GENAI_USE_VERTEXAI": "true"}
    chosen = choose_generator(choice("demo", environ))
    assert isinstance(chosen.generator, DemoGenerator)
    assert chosen.notices == ()
    await chosen.generator.aclose()


@pytest.mark.parametrize(
    ("environ", "sent"),
    [
        ({"GEMINI_API_KEY": "abc"}, "abc"),
        ({"GOOGLE_API_KEY": "def"}, "def"),
        ({"GEMINI_API_KEY": "abc", "GOOGLE_API_KEY": "def"}, "abc"),
        ({"GEMINI_API_KEY": " abc\r\n"}, "abc"),
        ({"GEMINI_API_KEY": " ", "GOOGLE_API_KEY": "def"}, "def"),
        ({"GEMINI_API_KEY": ""}, ""),
        ({}, ""),
    ],
)
async def test_the_key_reaches_the_service_without_blanks_around_it(
    server: ScriptedServer, environ: dict[str, str], sent: str
):
    server.reply(sse(text("ok")))
    environ = environ | {"GOOGLE_GEMINI_BASE_URL": server.url}
    chosen = choose_generator(choice(environ=environ))
    assert isinstance(chosen.generator, OlderSchemas)
    assert isinstance(chosen.generator.inner, GeminiApi)
    assert chosen.model == MODEL
    assert texts(await chunks(chosen.generator)) == ["ok"]
    await chosen.generator.aclose()
    assert chosen.notices == ()
    assert server.requests[0].headers["x-goog-api-key"] == sent


@pytest.mark.parametrize("key", ["ab\r\nX-Evil: 1", "ab\x00c", "sécret", "two words", "a\tb"])
def test_a_key_that_no_header_can_carry_is_refused_unquoted(key: str):
    with pytest.raises(CredentialsError, match="GEMINI_API_KEY") as caught:
        choose_generator(choice(environ={"GEMINI_API_KEY": key}))
    assert key not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("variable", ["GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"])
def test_a_transport_that_cannot_answer_is_not_replaced_by_another(variable: str, terminal: bool):
    environ = {variable: "true", "GEMINI_API_KEY": KEY}
    with pytest.raises(CredentialsError) as caught:
        choose_generator(choice(environ=environ, is_terminal=terminal))
    assert caught.value.exit_code == 41
    chosen = choose_generator(choice(environ=environ | {variable: "false"}))
    assert isinstance(chosen.generator, GeminiApi)


@pytest.mark.parametrize(
    ("environ", "kind"),
    [
        ({"GOOGLE_GENAI_USE_GCA": "true", "GOOGLE_GENAI_USE_VERTEXAI": "true"}, AuthType.LOGIN),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_GEMINI_BASE_URL": "x"}, AuthType.VERTEX),
        ({"GOOGLE_GEMINI_BASE_URL": "x", "GEMINI_API_KEY": "k"}, AuthType.GATEWAY),
        ({"GEMINI_API_KEY": "k", "CLOUD_SHELL": "true"}, AuthType.API_KEY),
        ({"CLOUD_SHELL": "true", "GOOGLE_API_KEY": "k"}, AuthType.COMPUTE),
        ({"GEMINI_CLI_USE_COMPUTE_ADC": "true"}, AuthType.COMPUTE),
        ({"GOOGLE_API_KEY": "k"}, AuthType.API_KEY),
        ({"GEMINI_API_KEY": " ", "CLOUD_SHELL": "no"}, None),
    ],
)
def test_the_first_that_the_environment_asks_for_counts(
    environ: dict[str, str], kind: AuthType | None
):
    assert auth_type(AuthSettings(), environ) is kind
    assert auth_type(AuthSettings(selected_type="vertex-ai"), environ) is AuthType.VERTEX
    enforced = AuthSettings(enforced_type=kind or "vertex-ai")
    assert auth_type(enforced, environ) is (kind or AuthType.VERTEX)


def test_only_what_is_enforced_may_answer():
    settings = AuthSettings(enforced_type="vertex-ai")
    with pytest.raises(CredentialsError, match=r"'vertex-ai'.*'gemini-api-key'") as caught:
        auth_type(settings, {"GEMINI_API_KEY": KEY})
    assert caught.value.exit_code == 41
    with pytest.raises(CredentialsError, match="enforced authentication type"):
        auth_type(AuthSettings(enforced_type="gateway", selected_type="vertex-ai"), {})


@pytest.mark.parametrize("key", ["selectedType", "enforcedType"])
def test_a_word_that_is_no_auth_type_is_told_with_those_that_are(key: str):
    settings = settings_of({"security": {"auth": {key: "use\nmagic"}}}, "test")
    with pytest.raises(CredentialsError, match="Invalid auth method selected") as caught:
        choose_generator(choice(environ={"GEMINI_API_KEY": KEY}, settings=settings))
    assert f"security.auth.{key}" in str(caught.value)
    assert "vertex-ai" in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize(
    ("selected", "told"),
    [("gemini-api-key", "GEMINI_API_KEY"), ("gateway", "BASE_URL"), ("vertex-ai", "PROJECT")],
)
def test_what_is_selected_and_cannot_answer_says_what_is_missing(
    selected: str, told: str, terminal: bool
):
    settings = settings_of({"security": {"auth": {"selectedType": selected}}}, "test")
    with pytest.raises(CredentialsError, match=told) as caught:
        choose_generator(choice(settings=settings, is_terminal=terminal))
    assert caught.value.exit_code == 41


def test_a_gateway_without_an_address_is_none():
    settings = settings_of({"security": {"auth": {"selectedType": "gateway"}}}, "test")
    with pytest.raises(CredentialsError, match="GOOGLE_GEMINI_BASE_URL"):
        choose_generator(choice(environ={"GEMINI_API_KEY": KEY}, settings=settings))


async def test_who_lets_us_in_from_outside_wants_no_key():
    auth = {"selectedType": "gemini-api-key", "useExternal": True}
    settings = settings_of({"security": {"auth": auth}}, "test")
    chosen = choose_generator(choice(settings=settings))
    assert isinstance(chosen.generator, GeminiApi)
    await chosen.generator.aclose()


def test_without_credentials_an_unattended_run_fails_with_the_remedies():
    with pytest.raises(CredentialsError) as caught:
        choose_generator(choice())
    assert caught.value.exit_code == 41
    for remedy in ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_GCA", "--model demo"):
        assert remedy in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_without_credentials_a_person_at_a_terminal_gets_the_demo_model_and_is_told():
    chosen = choose_generator(choice(is_terminal=True))
    assert isinstance(chosen.generator, DemoGenerator)
    [notice] = chosen.notices
    assert notice.startswith(
        "No API key found. Demo mode: answers come from fixed rules, not a model."
    )
    assert "GEMINI_API_KEY" in notice
    assert chosen.model == "demo"
    await chosen.generator.aclose()


async def test_what_is_answered_can_be_recorded(server: ScriptedServer, project: Path):
    server.reply(sse(text("ok")))
    path = project / "r.jsonl"
    environ = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": server.url}
    chosen = choose_generator(choice(environ=environ, record_responses=str(path)))
    assert isinstance(chosen.generator, AnswerRecorder)
    live = await chunks(chosen.generator)
    await chosen.generator.aclose()
    replay = choose_generator(choice(fake_responses=str(path)))
    assert await chunks(replay.generator) == live
    await replay.generator.aclose()


@pytest.mark.parametrize(
    ("url", "told"),
    [("http://10.0.0.9:8080", True), ("http://127.0.0.1:1", False), ("https://x.example", False)],
)
def test_a_key_that_goes_unencrypted_is_told(url: str, told: bool):
    environ = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": url}
    chosen = choose_generator(choice(environ=environ))
    assert any("unencrypted" in notice for notice in chosen.notices) is told


@pytest.mark.requirement("WIRE-17")
@pytest.mark.parametrize("kind", ["gemini-api-key", "vertex-ai"])
async def test_requests_go_to_the_address_that_the_environment_names(
    server: ScriptedServer, kind: str
):
    server.reply(sse(text("ok")))
    variable = "GOOGLE_GEMINI_BASE_URL" if kind == "gemini-api-key" else "GOOGLE_VERTEX_BASE_URL"
    environ = {"GEMINI_API_KEY": KEY, "GOOGLE_API_KEY": KEY, variable: f"{server.url}/below"}
    settings = settings_of({"security": {"auth": {"selectedType": kind}}}, "test")
    chosen = choose_generator(choice(environ=environ, settings=settings))
    await chunks(chosen.generator)
    await chosen.generator.aclose()
    (request,) = server.requests
    assert request.path.startswith("/below/v1")
    assert request.headers["x-goog-api-key"] == KEY


REFUSED = {
    "error": {
        "code": 400,
        "message": 'Invalid JSON payload received. Unknown name "parametersJsonSchema" at '
        "'tools[0].function_declarations[0]': Cannot find field.",
    }
}


@pytest.mark.parametrize("kind", ["gemini-api-key", "vertex-ai", "oauth-personal"])
async def test_a_service_that_knows_the_older_form_of_tools_only_gets_it(
    server: ScriptedServer, kind: str
):
    answer = text("ok")
    if kind == "oauth-personal":
        tier = {"currentTier": {"id": "standard-tier"}, "cloudaicompanionProject": "p"}
        server.reply(json_reply(tier))
        answer = {"response": answer}
    server.reply(json_reply(REFUSED, 400), sse(answer))
    environ = {
        "GEMINI_API_KEY": KEY,
        "GOOGLE_API_KEY": KEY,
        "GOOGLE_GENAI_USE_GCA": "true",
        "GOOGLE_CLOUD_ACCESS_TOKEN": "token-1",
        "GOOGLE_GEMINI_BASE_URL": server.url,
        "GOOGLE_VERTEX_BASE_URL": server.url,
        "CODE_ASSIST_ENDPOINT": server.url,
    }
    settings = settings_of({"security": {"auth": {"selectedType": kind}}}, "test")
    chosen = choose_generator(choice(environ=environ, settings=settings))
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    declared = FunctionDeclaration(name="f", description="d", parameters_json_schema=schema)
    request = GenerateContentRequest(
        model="gemini-2.5-pro",
        contents=(EncodedContent(text_content("user", "hi")),),
        config=GenerateContentConfig(tools=(ToolDeclarations(function_declarations=(declared,)),)),
    )
    found = [part.text async for chunk in chosen.generator.stream(request) for part in chunk.parts]
    await chosen.generator.aclose()
    assert found == ["ok"]
    body = server.requests[-1].json
    (tool,) = body.get("request", body)["tools"]
    assert tool["functionDeclarations"][0]["parameters"]["type"] == "OBJECT"


def test_a_base_url_that_cannot_be_used_is_a_configuration_error():
    with pytest.raises(ConfigError, match="GOOGLE_GEMINI_BASE_URL"):
        choose_generator(choice(environ={"GOOGLE_GEMINI_BASE_URL": "gemini"}))


def test_the_choice_does_not_show_the_key():
    assert KEY not in repr(choice(environ={"GEMINI_API_KEY": KEY}))


@pytest.mark.requirement("WIRE-17")
@pytest.mark.parametrize("kind", ["gemini-api-key", "vertex-ai"])
@pytest.mark.parametrize("enabled", [True, False])
async def test_requests_name_the_installation_where_usage_statistics_are_on(
    server: ScriptedServer, kind: str, enabled: bool
):
    server.reply(sse(text("ok")))
    environ = {
        "GEMINI_API_KEY": KEY,
        "GOOGLE_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": server.url,
        "GOOGLE_VERTEX_BASE_URL": server.url,
    }
    values = {
        "security": {"auth": {"selectedType": kind}},
        "privacy": {"usageStatisticsEnabled": enabled},
    }
    settings = settings_of(values, "test")
    chosen = choose_generator(
        choice(environ=environ, settings=settings, installation_id=lambda: "number-1")
    )
    await chunks(chosen.generator)
    await chosen.generator.aclose()
    sent = server.requests[0].headers.get("x-gemini-api-privileged-user-id")
    assert sent == ("number-1" if enabled else None)


@pytest.mark.parametrize(
    ("selected", "variable", "how"),
    [
        ("oauth-personal", "OTHER", "security.auth.selectedType"),
        (None, "GOOGLE_GENAI_USE_GCA", "unset"),
    ],
)
def test_who_has_a_key_and_is_not_signed_in_is_told_how_to_use_the_key(
    selected: str | None, variable: str, how: str
):
    settings = settings_of({"security": {"auth": {"selectedType": selected}}}, "test")
    environ = {variable: "true", "GEMINI_API_KEY": KEY}
    with pytest.raises(CredentialsError, match=f"To use GEMINI_API_KEY instead, .*{how}"):
        choose_generator(choice(environ=environ, settings=settings))
    with pytest.raises(CredentialsError) as caught:
        choose_generator(choice(environ=environ | {"GEMINI_API_KEY": ""}, settings=settings))
    assert "instead" not in str(caught.value)
