"""Authorization requests, what comes back, and the client they are made for."""

import base64
import hashlib
from contextlib import suppress
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.config.settings import OAuthSettings, settings_of
from alhena.errors import ConfigError
from alhena.models.auth.authorization import (
    StrayAnswerError,
    answered_code,
    authorization_url,
    new_attempt,
    pasted_code,
)
from alhena.models.auth.exchange import OAuthClient, find_addresses, find_client, require_client
from alhena.models.errors import CredentialsError

CLIENT = OAuthClient(id="id", secret="GOCSPX-secret")


def test_the_challenge_is_that_of_the_verifier_and_neither_secret_is_in_the_address() -> None:
    attempt = new_attempt("http://127.0.0.1:1/oauth2callback")
    url = authorization_url("https://a.example/auth", CLIENT, attempt)
    fields = parse_qs(urlsplit(url).query)
    digest = hashlib.sha256(attempt.verifier.encode()).digest()
    assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == fields["code_challenge"][0]
    assert fields["state"] == [attempt.state]
    assert 43 <= len(attempt.verifier) <= 128
    assert attempt.verifier not in url
    assert "GOCSPX" not in url
    assert "GOCSPX" not in repr(CLIENT)
    assert attempt.state not in repr(attempt)
    assert attempt.verifier not in repr(attempt)
    assert authorization_url("https://a.example/auth?x=1", CLIENT, attempt).count("?") == 1


@given(st.text(max_size=60) | st.dictionaries(st.text(), st.text()).map(urlencode))
def test_no_query_without_the_state_gives_a_code(query: str) -> None:
    with pytest.raises(StrayAnswerError):
        answered_code(query, new_attempt("http://x"))


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_code_comes_back_as_it_was_given(code: str) -> None:
    attempt = new_attempt("http://x")
    query = urlencode({"state": attempt.state, "code": code, "scope": "a b"})
    assert answered_code(query, attempt) == code


@given(st.text())
def test_any_pasted_text_is_a_code_or_a_typed_error(text: str) -> None:
    with suppress(CredentialsError):
        assert pasted_code(text, new_attempt("http://x")).isascii()


def test_what_comes_back_without_a_code_is_an_error() -> None:
    attempt = new_attempt("http://x")
    for query in ("", "&code=", "&code=a&code=b"):
        with pytest.raises(CredentialsError, match="no code"):
            answered_code(f"state={attempt.state}{query}", attempt)


def test_the_environment_comes_before_the_settings() -> None:
    settings = OAuthSettings(client_id="s", client_secret="t")
    assert find_client({}, settings) == OAuthClient(id="s", secret="t")
    given = {"ALHENA_OAUTH_CLIENT_ID": " e ", "ALHENA_OAUTH_CLIENT_SECRET": "f\n"}
    assert find_client(given, settings) == OAuthClient(id="e", secret="f")
    assert find_client({"ALHENA_OAUTH_CLIENT_ID": "e"}, settings) == OAuthClient(id="e", secret="")
    page = {"ALHENA_OAUTH_CLIENT_ID": "e", "ALHENA_OAUTH_REDIRECT_URI": "http://127.0.0.1:9"}
    found = find_client(page, OAuthSettings(redirect_uri="https://b"))
    assert found is not None
    assert found.paste_page == "http://127.0.0.1:9"


def test_no_client_is_shipped_and_its_absence_is_told_with_the_remedy() -> None:
    assert find_client({}, OAuthSettings()) is None
    with pytest.raises(CredentialsError, match=r"ALHENA_OAUTH_CLIENT_ID.*clientId") as caught:
        require_client(None)
    assert caught.value.exit_code == 41


@pytest.mark.parametrize("secret", ["a b", "sécret", "a\r\nb"])
def test_a_client_that_cannot_be_right_is_refused_unquoted(secret: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_client({}, OAuthSettings(client_id="i", client_secret=secret))
    assert secret not in str(caught.value)


def test_the_settings_do_not_show_the_secret() -> None:
    value = {"security": {"auth": {"oauth": {"clientId": "i", "clientSecret": "GOCSPX-s"}}}}
    settings = settings_of(value, "x")
    assert settings.security.auth.oauth.client_secret == "GOCSPX-s"
    assert "GOCSPX" not in repr(settings)


@pytest.mark.parametrize(
    "name",
    ["ALHENA_OAUTH_AUTHORIZATION_URL", "ALHENA_OAUTH_TOKEN_URL", "ALHENA_OAUTH_USERINFO_URL"],
)
def test_addresses_are_encrypted_or_of_this_machine(name: str) -> None:
    assert find_addresses({}).exchange.place == "https://oauth2.googleapis.com"
    assert find_addresses({name: "http://127.0.0.1:8/x"})
    for url in ("http://a.example/token", "ftp://a.example", "a.example"):
        with pytest.raises(ConfigError, match=name):
            find_addresses({name: url})
