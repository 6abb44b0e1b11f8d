from pathlib import Path
from typing import Any

import pytest

from alhena.config.errors import ConfigError
from alhena.models.errors import CredentialsError, RecordingError
from alhena.models.gemini_api import GeminiApi
from alhena.models.recorded import RecordedGenerator
from alhena.models.recorder import Recorder
from alhena.models.rehearsal.generator import RehearsalGenerator
from alhena.models.select import ModelChoice, choose_generator
from tests.models.asking import KEY, MODEL, chunks, texts
from tests.support.server import ScriptedServer, sse, text


def choice(
    model: str = MODEL, environ: dict[str, str] | None = None, **options: Any
) -> ModelChoice:
    return ModelChoice(model=model, environ=environ or {}, **options)


async def test_recorded_responses_come_before_all_else(project: Path):
    path = project / "r.jsonl"
    path.write_text('{"method": "generateContentStream", "response": []}\n', encoding="utf-8")
    chosen = choose_generator(
        choice("rehearsal", {"GEMINI_API_KEY": KEY}, fake_responses=str(path))
    )
    assert isinstance(chosen.generator, RecordedGenerator)
    assert chosen.notices == ()
    await chosen.generator.aclose()
    with pytest.raises(RecordingError, match=r"missing\.jsonl"):
        choose_generator(choice(fake_responses=str(project / "missing.jsonl")))


async def test_the_rehearsal_answers_by_its_name_whatever_is_set():
    environ = {"GEMINI_API_KEY": KEY, "GOOGLE_GENAI_USE_VERTEXAI": "true"}
    chosen = choose_generator(choice("rehearsal", environ))
    assert isinstance(chosen.generator, RehearsalGenerator)
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
    assert isinstance(chosen.generator, GeminiApi)
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
def test_a_transport_that_is_not_there_is_not_replaced_by_another(variable: str, terminal: bool):
    environ = {variable: "true", "GEMINI_API_KEY": KEY}
    with pytest.raises(CredentialsError, match=f"{variable}.*GEMINI_API_KEY") as caught:
        choose_generator(choice(environ=environ, is_terminal=terminal))
    assert caught.value.exit_code == 41
    chosen = choose_generator(choice(environ=environ | {variable: "false"}))
    assert isinstance(chosen.generator, GeminiApi)


def test_without_credentials_an_unattended_run_fails_with_the_remedies():
    with pytest.raises(CredentialsError) as caught:
        choose_generator(choice())
    assert caught.value.exit_code == 41
    for remedy in ("GEMINI_API_KEY", "--model rehearsal", "--fake-responses"):
        assert remedy in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_without_credentials_a_person_at_a_terminal_gets_a_rehearsal_and_is_told():
    chosen = choose_generator(choice(is_terminal=True))
    assert isinstance(chosen.generator, RehearsalGenerator)
    [notice] = chosen.notices
    assert "rehearsal" in notice
    assert "GEMINI_API_KEY" in notice
    assert chosen.model == "rehearsal"
    await chosen.generator.aclose()


async def test_what_is_answered_can_be_recorded(server: ScriptedServer, project: Path):
    server.reply(sse(text("ok")))
    path = project / "r.jsonl"
    environ = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": server.url}
    chosen = choose_generator(choice(environ=environ, record_responses=str(path)))
    assert isinstance(chosen.generator, Recorder)
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


def test_a_base_url_that_cannot_be_used_is_a_configuration_error():
    with pytest.raises(ConfigError, match="GOOGLE_GEMINI_BASE_URL"):
        choose_generator(choice(environ={"GOOGLE_GEMINI_BASE_URL": "gemini"}))


def test_the_choice_does_not_show_the_key():
    assert KEY not in repr(choice(environ={"GEMINI_API_KEY": KEY}))
