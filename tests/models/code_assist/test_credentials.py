"""Whose tokens go to Code Assist."""

import json
from pathlib import Path

import pytest

from alhena.config.settings import OAuthSettings, settings_of
from alhena.errors import ConfigError
from alhena.models.auth.login import signed_in
from alhena.models.errors import CredentialsError
from alhena.models.providers.code_assist import CodeAssistGenerator, for_login, for_machine
from alhena.models.providers.gemini_api import OlderSchemas
from alhena.models.providers.select import ModelChoice, choose_generator
from alhena.system.private_files import PrivateFiles
from tests.models.asking import chunks, texts
from tests.models.auth.kit import keep
from tests.models.code_assist.kit import MODEL, asked
from tests.support.google import GoogleServer

GCA = {"GOOGLE_GENAI_USE_GCA": "true"}


def user_file(google: GoogleServer, project: Path) -> dict[str, str]:
    """The variables of a file of Google credentials, for a user of this server."""
    path = project / "adc.json"
    google.refresh_tokens.add("1//adc-very-secret")
    info = {
        "type": "authorized_user",
        "client_id": google.environ["ALHENA_OAUTH_CLIENT_ID"],
        "client_secret": google.environ["ALHENA_OAUTH_CLIENT_SECRET"],
        "refresh_token": "1//adc-very-secret",
        "token_uri": f"{google.url}/token",
    }
    path.write_text(json.dumps(info), encoding="utf-8")
    return {"GOOGLE_APPLICATION_CREDENTIALS": str(path)}


async def bearer_sent(google: GoogleServer, generator: CodeAssistGenerator) -> str:
    assert texts(await chunks(generator, asked())) == ["hello"]
    await generator.aclose()
    return google.requests[-1].headers["authorization"].removeprefix("Bearer ")


async def test_a_token_of_the_environment_comes_before_the_login_and_that_before_a_file(
    google: GoogleServer, home: Path, project: Path
) -> None:
    files, settings = PrivateFiles(home), OAuthSettings()
    given = google.give()
    keep(home, google.cached(expires_in=3000))
    environ = google.environ | GCA | user_file(google, project)
    both = environ | {"GOOGLE_CLOUD_ACCESS_TOKEN": given}
    assert await bearer_sent(google, for_login(both, files, settings)) == given
    kept = "ya29.token-2-very-secret"
    without = {name: value for name, value in both.items() if name not in GCA}
    for each in (environ, without):
        assert await bearer_sent(google, for_login(each, files, settings)) == kept
    assert "/token" not in google.paths()
    (home / "oauth_creds.json").unlink()
    for found in (files, None):
        generator = for_login(environ, found, settings)
        assert await bearer_sent(google, generator) not in (given, kept)


async def test_the_machines_credentials_go_to_code_assist(
    google: GoogleServer, project: Path
) -> None:
    environ = google.environ | user_file(google, project)
    assert await bearer_sent(google, for_machine(environ)) == "ya29.token-1-very-secret"
    assert "x-goog-user-project" not in google.requests[-1].headers
    charged = environ | {"GOOGLE_CLOUD_QUOTA_PROJECT": "charged"}
    for generator in (for_machine(charged), for_login(charged, None, OAuthSettings())):
        await bearer_sent(google, generator)
        assert google.requests[-1].headers["x-goog-user-project"] == "charged"


def test_without_any_of_them_it_is_said_how_to_sign_in(home: Path) -> None:
    for files in (PrivateFiles(home), None):
        with pytest.raises(CredentialsError, match="alhena auth login") as caught:
            signed_in(GCA, files, OAuthSettings())
        assert caught.value.exit_code == 41


@pytest.mark.parametrize("token", ["a b", "a\nb", "tök"])
def test_a_token_that_no_header_can_carry_is_refused_unquoted(token: str) -> None:
    environ = GCA | {"GOOGLE_CLOUD_ACCESS_TOKEN": token}
    with pytest.raises(CredentialsError, match="GOOGLE_CLOUD_ACCESS_TOKEN") as caught:
        signed_in(environ, None, OAuthSettings())
    assert token not in str(caught.value)


def test_nothing_secret_shows_in_a_repr(google: GoogleServer, home: Path) -> None:
    keep(home, google.cached(expires_in=3000))
    found = signed_in(google.environ, PrivateFiles(home), OAuthSettings())
    assert "very-secret" not in repr(found)
    assert "very-secret" not in repr(found.tokens)


async def test_the_settings_or_the_environment_choose_it(google: GoogleServer, home: Path) -> None:
    keep(home, google.cached(expires_in=3000))
    selected = settings_of({"security": {"auth": {"selectedType": "oauth-personal"}}}, "x")
    for choice in (
        ModelChoice(model=MODEL, environ=google.environ | GCA | {"GEMINI_API_KEY": "k"}),
        ModelChoice(model=MODEL, environ=google.environ, settings=selected),
    ):
        with pytest.raises(CredentialsError, match="alhena auth login"):
            choose_generator(choice)
        chosen = choose_generator(
            ModelChoice(
                model=MODEL,
                environ=choice.environ,
                settings=choice.settings,
                private_files=lambda: PrivateFiles(home),
            )
        )
        assert chosen.auth_type == "oauth-personal"
        assert chosen.notices == ()
        assert isinstance(chosen.generator, OlderSchemas)
        assert isinstance(chosen.generator.inner, CodeAssistGenerator)
        assert await bearer_sent(google, chosen.generator.inner) == "ya29.token-1-very-secret"


def test_what_goes_unencrypted_to_another_machine_is_told(google: GoogleServer, home: Path) -> None:
    environ = GCA | {
        "GOOGLE_CLOUD_ACCESS_TOKEN": "abcdef",
        "CODE_ASSIST_ENDPOINT": "http://10.0.0.9",
    }
    [notice] = choose_generator(ModelChoice(model=MODEL, environ=environ)).notices
    assert "unencrypted" in notice
    assert "abcdef" not in notice
    bad = environ | {"CODE_ASSIST_ENDPOINT": "ftp://x"}
    with pytest.raises(ConfigError, match="CODE_ASSIST_ENDPOINT"):
        choose_generator(ModelChoice(model=MODEL, environ=bad))
