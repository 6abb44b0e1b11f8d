"""Secrets in the middle of text."""

from hypothesis import given
from hypothesis import strategies as st

from alhena.config.environment import credentials, has_secret_value, without_secrets
from tests.support.each import for_each

TOKENS = [
    "ghp_" + "a1" * 18,
    "github_pat_" + "b2" * 20,
    "glpat-" + "c3" * 12,
    "npm_" + "d4" * 18,
    "AIza" + "e5" * 18,
    "ya29." + "f6" * 15,
    "GOCSPX-" + "g7" * 12,
    "AKIA" + "H8" * 8,
    "eyJhbGciOi.eyJzdWIi.c2lnbmF0dXJl",
    "sk_live_" + "i9" * 12,
    "rk_test_" + "i9" * 12,
    "sk-" + "j1" * 12,
    "xoxb-1234567890-abc",
    "hf_" + "k2" * 15,
    "https://user:word@host.example/path",
    "https://token@host.example",
    "HTTPS://token@host.example",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIabc",
    "Authorization: Bearer abcdef",
]


@for_each("token", TOKENS)
@for_each("before", ["", "x ", '"', "\\n", "(", "=", "\n"])
def test_a_secret_is_taken_out_wherever_it_stands(token: str, before: str):
    assert has_secret_value(token)
    assert without_secrets(f"{before}{token}") == f"{before}[redacted]"


@for_each("token", [item for item in TOKENS if "MIIabc" not in item])
def test_what_follows_a_secret_stays(token: str):
    assert without_secrets(f'["{token}", "b"]') == '["[redacted]", "b"]'
    assert without_secrets(f"{token}\\n end") == "[redacted]\\n end"
    assert without_secrets(f"a {token} b {token} c") == "a [redacted] b [redacted] c"


@given(st.lists(st.one_of(st.sampled_from(TOKENS), st.text(max_size=9))).map(" ".join))
def test_no_secret_is_left(text: str):
    assert not has_secret_value(without_secrets(text).replace("[redacted]", "-"))


@given(st.text("abcghsk_-:/@. \n", max_size=40))
def test_text_without_a_secret_is_as_it_was(text: str):
    if not has_secret_value(text):
        assert without_secrets(text) == text


def test_of_an_address_the_scheme_stays_where_it_is_not_the_webs():
    assert without_secrets("see ftp://user:word@host.example now") == "see ftp[redacted] now"
    assert without_secrets("see ftp://host.example now") == "see ftp://host.example now"


def test_credentials_are_values_of_variables_and_of_headers():
    environ = {
        "GEMINI_API_KEY": " key-value ",
        "GOOGLE_API_KEY": "x",
        "GEMINI_CLI_CUSTOM_HEADERS": "X-One: first-value, X-Two: second-value",
        "OTHER": "not-a-credential",
    }
    assert credentials(environ) >= {"key-value", "first-value", "second-value"}
    assert credentials(environ).isdisjoint({"x", "", "not-a-credential"})
