import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.config.environment import (
    CREDENTIALS,
    has_secret_name,
    has_secret_value,
    is_hijacking,
    sanitise_environment,
)
from alhena.config.settings import EnvironmentRedaction, settings_of
from alhena.system.environment import child_environment
from tests.support.each import for_each

RULES = EnvironmentRedaction()
OFF = EnvironmentRedaction(enabled=False)
NAMES = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=20)

SECRET_NAMES = """
GITHUB_TOKEN GH_TOKEN npm_config_authToken NPM_TOKENS GITHUBTOKEN ACCESS_TOKEN_2 CLIENT_SECRET
clientSecret SESSION_SECRETS PGPASSWORD MYSQL_ROOT_PASSWORD DB_PASSWD MYSQL_PWD SMTP_PASS
SSH_KEY_PASSPHRASE OPENAI_API_KEY apiKey APIKEY ACCESSKEY privateKey KEY SIGNING_KEYS AUTH
PROXY_AUTHORIZATION BASIC_AUTH OAUTH2_STATE AWS_CREDENTIALS GOOGLE_APPLICATION_CREDENTIALS CREDS
MY_PRIVATE_THING TLS_CERT CLIENT_ID DB_URI CONNECTION_STRING AWS_DEFAULT_REGION DATABASE_URL
AZURE_CLIENT_ID AZURE_TENANT_ID SLACK_WEBHOOK_URL TWILIO_ACCOUNT_SID GOOGLE_CLOUD_PROJECT
GOOGLE_CLOUD_ACCOUNT FIREBASE_PROJECT_ID database_url GEMINI_API_KEY GEMINI_CLI_IDE_AUTH_TOKEN
AWS_SECRET_ACCESS_KEY X-Api-Key MYPASS DBPASS mysqlPwd DB_PW PASS PASS1 DB_PASS_2 PASS_FILE
DB_PASS_FILE PASSWD_FILE MYPASSWD_FILE SESSIONID JSESSIONID PHPSESSID SESSION_ID MY_SESSION_ID
sessionId SESSION_COOKIE COOKIE GITHUB_PAT AZURE_DEVOPS_EXT_PAT MY_JWT BEARER DISCORD_WEBHOOK
DB_PSWD LOGIN_OTP MYSQLPWD ROOTPASS DB_SESSIONIDS
"""
HARMLESS_NAMES = """
PATH HOME KEYBOARD KEYBOARD_LAYOUT KEYMAP AUTHOR AUTHORS GIT_AUTHOR_NAME CERTIFICATE_DIR
CERTAINTY MONKEY TURKEY HOTKEY TOKENIZERS_PARALLELISM SECRETARY PWD OLDPWD PASSENGER COMPASS
PASS_THROUGH XAUTHORITY GNOME_KEYRING_CONTROL PRIVATEER CREDIT VIRTUAL_ENV PYTHONPATH LC_ALL
SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS SSH_AUTH_SOCK CURL_CA_BUNDLE SSH_ASKPASS
BYPASS ENCOMPASS TRESPASS GIT_ASKPASS SUDO_ASKPASS KDE_COMPASS_DIR LOWPASS_FILTER PASSES
XDG_SESSION_ID TERM_SESSION_ID ITERM_SESSION_ID SECURITYSESSIONID DESKTOP_SESSION SESSION_MANAGER
DBUS_SESSION_BUS_ADDRESS WT_SESSION XDG_SESSION_TYPE GDMSESSION PATTERN PATCH INFOPATH MANPATH
PATHEXT COMPATIBLE SPATIAL PIPENV_ACTIVE COOKIECUTTER_CONFIG OPTIONS INIT_CWD PWDX LESSOPEN KUBECONFIG
GEMINI_CLI_HOME GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GITHUB_ENV ISSUE_TITLE EDITOR _ LS_COLORS
"""


def keeps_variable(
    name: str, value: str = "value", rules: EnvironmentRedaction = RULES, **more: str
) -> bool:
    made = sanitise_environment({name: value, **more}, rules)
    assert (name in made.variables) is (name not in made.removed)
    assert made.variables.get(name, value) == value
    return name in made.variables


@pytest.mark.requirement("TOOLS-23")
@for_each("name", SECRET_NAMES.split())
def test_names_of_secrets_are_removed(name: str) -> None:
    assert not keeps_variable(name)


@pytest.mark.requirement("TOOLS-23")
@for_each("name", HARMLESS_NAMES.split())
def test_names_that_only_look_like_secrets_are_kept(name: str) -> None:
    assert keeps_variable(name)


@pytest.mark.requirement("TOOLS-23")
@for_each(
    "value",
    [
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "-----BEGIN EC PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIE",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----",
        "-----BEGIN CERTIFICATE-----",
        "http://user:pass@proxy.example:8080",
        "https://:token@example.com/x",
        "postgres://app:hunter2@db/app",
        "redis://:pw@cache:6379/0",
        "see ftp://me:pw@host/ for it",
        "https://abc123def@github.example/me/it.git",
        "HTTP://token@host",
        "git+https://x-access-token@host/x",
        "https://0123abcd@o1.errors.example/42",
        "Authorization: Bearer abc",
        "ghp_" + "a1" * 18,
        "github_pat_" + "A_" * 20,
        "glpat-" + "x" * 20,
        "npm_" + "b" * 36,
        "AIzaSy" + "C" * 33,
        "ya29." + "d" * 30,
        "AKIA" + "ABCD1234" * 2,
        "ASIA" + "ABCD1234" * 2,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
        "sk_live_" + "e" * 24,
        "rk_test_" + "f" * 24,
        "sk-ant-api03-" + "g" * 20,
        "xoxb-123456789012-abc",
        "hf_" + "h" * 34,
    ],
)
def test_values_that_are_secrets_are_removed_whatever_their_names(value: str) -> None:
    for name in ("INNOCENT", "TITLE", "GEMINI_CLI_NOTE"):
        assert not keeps_variable(name, value)
    assert not keeps_variable("INNOCENT", f"before {value} after")


@for_each("value", ["", "https://example.com/a:b", "me@example.com", "Me <me@example.com>", "sk-short",
     "git@github.com:me/it.git", "ssh://git@github.com/me/it.git", "git+ssh://git@host/it",
     "postgres://app@db/app", "https://example.com/@scope/name", "https://example.com#a@b",
     "https://example.com?to=a@b", "https:// me@example.com", "mailto:https@example.com",
     "12:30", "a@b", "key=value", "-----BEGIN PUBLIC KEY-----", "skill-based", "/usr/bin:/bin",
     "https://example.com/?time=12:30&to=a@b"])  # fmt: skip
def test_everyday_values_are_kept(value: str) -> None:
    assert keeps_variable("INNOCENT", value)


@pytest.mark.requirement("TOOLS-23")
def test_a_name_the_user_allows_is_kept_with_its_value() -> None:
    rules = EnvironmentRedaction(allowed=("github_token", "GEMINI_API_KEY"))
    assert keeps_variable("GITHUB_TOKEN", "ghp_" + "a" * 36, rules)
    assert keeps_variable("GEMINI_API_KEY", "k", rules)
    assert not keeps_variable("OTHER_TOKEN", "t", rules)


@pytest.mark.requirement("TOOLS-23")
def test_a_name_the_user_blocks_is_removed_even_if_it_is_harmless() -> None:
    rules = EnvironmentRedaction(blocked=("Editor", "TITLE"))
    assert not keeps_variable("EDITOR", "vi", rules)
    assert not keeps_variable("TITLE", "x", rules)
    assert not keeps_variable(
        "EDITOR", "vi", EnvironmentRedaction(enabled=False, blocked=("EDITOR",))
    )


def test_the_path_of_a_certificate_is_kept_and_the_certificate_is_not() -> None:
    for name in ("PIP_CERT", "HTTPLIB2_CA_CERTS", "NIX_SSL_CERT_FILE"):
        assert keeps_variable(name, "/etc/ssl/ca.pem")
        assert not keeps_variable(name, "MIIDdzCCAl+gAwIBAgIE")


def test_the_lists_come_from_the_settings_file() -> None:
    value = {"security": {"environmentVariableRedaction": {"allowed": ["A_KEY"], "blocked": ["B"]}}}
    rules = settings_of(value, "settings.json").security.environment_variable_redaction
    assert rules == EnvironmentRedaction(allowed=("A_KEY",), blocked=("B",))


def test_switched_off_it_still_removes_what_the_model_is_signed_in_with() -> None:
    environ = dict.fromkeys(CREDENTIALS, "k") | {"MY_TOKEN": "t", "URL": "http://a:b@c"}
    assert sanitise_environment(environ, OFF).variables == {"MY_TOKEN": "t", "URL": "http://a:b@c"}


@pytest.mark.requirement("TOOLS-23")
@pytest.mark.parametrize("sign", [{"GITHUB_SHA": "abc"}, {"SURFACE": "Github"}])
def test_in_a_github_action_only_known_names_are_kept(sign: dict[str, str]) -> None:
    for rules in (RULES, OFF):
        assert not keeps_variable("VIRTUAL_ENV", "/v", rules, **sign)
        assert keeps_variable("PATH", "/bin", rules, **sign)
        assert keeps_variable("GEMINI_CLI_HOME", "/h", rules, **sign)
        assert keeps_variable("MINE", "m", EnvironmentRedaction(allowed=("MINE",)), **sign)


def test_git_settings_are_kept_or_removed_together() -> None:
    settings = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"}
    assert sanitise_environment(settings, RULES).variables == settings
    secret = settings | {"GIT_CONFIG_VALUE_0": "Authorization: basic eA=="}
    assert sanitise_environment(secret, RULES).variables == {}


@given(st.dictionaries(NAMES, st.text(max_size=40), max_size=8))
def test_every_variable_is_either_kept_as_it_is_or_named_as_removed(
    environ: dict[str, str],
) -> None:
    made = sanitise_environment(environ, RULES)
    assert {**made.variables, **{name: environ[name] for name in made.removed}} == environ
    assert len(made.variables) + len(made.removed) == len(environ)
    assert not any(has_secret_value(value) for value in made.variables.values())


@given(NAMES)
def test_a_word_for_a_secret_makes_any_name_secret(name: str) -> None:
    assert has_secret_name(f"{name}_TOKEN")
    assert has_secret_name(f"SECRET_{name}")


@for_each("piece", ["eyJ", "://", "://a:", "https://", "https://a", "http", "-----BEGIN ", "-----BEGIN A ", "sk-",
                                   "authorization: ", "AKIA", "eyJaaaaa.", "xoxb-"])  # fmt: skip
def test_a_huge_hostile_value_is_judged_in_linear_time(piece: str) -> None:
    has_secret_value(piece * (200_000 // len(piece)))


def test_a_child_is_unattended_and_its_parents_mapping_is_left_alone() -> None:
    parent = {"PATH": "/bin", "PAGER": "less", "CI": "false", "A_TOKEN": "t"}
    made = child_environment(parent)
    assert made.removed == ("A_TOKEN",)
    assert made.variables["PATH"] == "/bin"
    assert [made.variables[name] for name in ("PAGER", "GIT_PAGER", "CI")] == [
        "cat",
        "cat",
        "false",
    ]
    assert made.variables["GEMINI_CLI"] == "1"
    assert child_environment({}).variables["CI"] == "1"
    assert parent["PAGER"] == "less"


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "BASH_ENV", "ENV", "NODE_OPTIONS", "DYLD_INSERT_LIBRARIES",
             "BASH_FUNC_ls%%", "bash_env", "GIT_SSH_COMMAND"]
)  # fmt: skip
def test_what_makes_programs_run_code_is_never_added(name: str) -> None:
    assert is_hijacking(name)
    made = child_environment({}, extra={name: "/evil", "MINE": "kept"})
    assert name not in made.variables
    assert made.removed == (name,)
    assert made.variables["MINE"] == "kept"
