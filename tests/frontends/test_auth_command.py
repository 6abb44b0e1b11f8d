"""`alhena auth`, and runs that use the login, against a loopback Google."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.models.auth.kit import accounts, get, kept
from tests.support.command import ALHENA, Ran, alhena
from tests.support.disk import mode
from tests.support.google import ADDRESS, CLIENT_SECRET, GoogleServer
from tests.support.patience import PATIENCE_S
from tests.support.server import json_reply

GCA = {"GOOGLE_GENAI_USE_GCA": "true"}
ENDED = ("2026-06-18", "Standard", "Enterprise", "API key", "Vertex AI")
SECRETS = ("very-secret", CLIENT_SECRET)


@pytest.fixture
def gemini(home: Path) -> Path:
    (home / ".gemini").mkdir()
    return home / ".gemini"


def keep(gemini: Path, credentials: Any) -> None:
    (gemini / "oauth_creds.json").write_text(json.dumps(credentials), encoding="utf-8")


@contextmanager
def signing_in(
    google: GoogleServer, *arguments: str, **environ: str
) -> Iterator[subprocess.Popen[str]]:
    quiet = {"CI": "", "DEBIAN_FRONTEND": "", "NO_BROWSER": ""}
    with subprocess.Popen(
        [ALHENA, "auth", "login", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | quiet | google.environ | environ,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def address_told(process: subprocess.Popen[str]) -> str:
    """The line of its output that is an address, read as it comes."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("http"):
            return line.strip()
    raise AssertionError("no address was told")


def silent(ran: Ran) -> None:
    for secret in SECRETS:
        assert secret not in ran.out + ran.err


@pytest.mark.requirement("WIRE-16")
def test_a_login_by_code_signs_in_and_says_what_is_still_to_be_done(
    google: GoogleServer, home: Path
) -> None:
    with signing_in(google, "--no-browser", DISPLAY=":0") as process:
        back = google.consent(address_told(process))
        code = parse_qs(urlsplit(back).query)["code"][0]
        out, err = process.communicate(f"{code}\n", timeout=PATIENCE_S)
    ran = Ran(process.returncode, out, err)
    assert ran.code == 0, ran
    assert f"Signed in as {ADDRESS}." in ran.out
    assert "Gemini Code Assist; project: a-project" in ran.out
    assert "GOOGLE_GENAI_USE_GCA=true" in ran.out
    silent(ran)
    assert mode(home / ".gemini" / "oauth_creds.json") == 0o600
    assert kept(home / ".gemini")["refresh_token"] in google.refresh_tokens
    assert accounts(home / ".gemini")["active"] == ADDRESS


def test_a_login_by_browser_signs_in(google: GoogleServer, home: Path, project: Path) -> None:
    shown = project / "shown"
    os.mkfifo(shown)  # reading waits for the browser
    browser = project / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {shown}\n', encoding="utf-8")
    browser.chmod(0o755)
    with signing_in(google, DISPLAY=":0", BROWSER=str(browser), **GCA) as process:
        url = address_told(process)
        assert shown.read_text(encoding="utf-8") == url
        status, page = get(google.consent(url))
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, status) == (0, 200), err
    assert "You are signed in" in page
    assert f"Signed in as {ADDRESS}." in out
    assert "GOOGLE_GENAI_USE_GCA" not in out


def test_a_browser_that_keeps_its_starter_keeps_nobody_else(
    google: GoogleServer, home: Path, project: Path
) -> None:
    browser = project / "browser"
    os.mkfifo(project / "pid")
    script = f"#!/bin/sh\necho $$ > {project}/pid\nexec sleep 600 >/dev/null 2>&1\n"
    browser.write_text(script, encoding="utf-8")
    browser.chmod(0o755)
    with signing_in(google, DISPLAY=":0", BROWSER=str(browser)) as process:
        running = int((project / "pid").read_text(encoding="utf-8"))
        get(google.consent(address_told(process)))
        process.wait(PATIENCE_S)
        os.kill(running, signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert f"Signed in as {ADDRESS}." in out


@pytest.mark.parametrize("wrong", ["nonsense\n", "\n", "\r\n", "\x00\n"])
def test_a_code_can_be_pasted_once_more(google: GoogleServer, home: Path, wrong: str) -> None:
    with signing_in(google, "--no-browser") as process:
        first = address_told(process)
        assert process.stdin is not None
        process.stdin.write(wrong)
        process.stdin.flush()
        second = address_told(process)
        out, err = process.communicate(f"{google.consent(second)}\n", timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert first != second
    assert f"Signed in as {ADDRESS}." in out


def test_a_login_without_anybody_ends_with_41(google: GoogleServer, home: Path) -> None:
    ran = alhena("auth", "login", "--no-browser", **google.environ)
    assert ran.code == 41
    assert "no code was given" in ran.err
    assert not (home / ".gemini" / "oauth_creds.json").exists()


def test_a_login_can_be_interrupted_while_it_waits(google: GoogleServer, home: Path) -> None:
    with signing_in(google, "--no-browser") as process:
        address_told(process)
        process.send_signal(2)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "interrupted" in err


def test_a_login_whose_account_is_not_taken_stands_and_says_why(
    google: GoogleServer, home: Path
) -> None:
    google.load = {"ineligibleTiers": [{"reasonMessage": "Not in your country."}]}
    with signing_in(google, "--no-browser") as process:
        back = google.consent(address_told(process))
        out, err = process.communicate(f"{back}\n", timeout=PATIENCE_S)
    assert process.returncode == 41
    assert f"Signed in as {ADDRESS}." in out
    assert "Not in your country." in err
    assert (home / ".gemini" / "oauth_creds.json").exists()


def test_without_a_client_a_login_says_how_to_set_one() -> None:
    ran = alhena("auth", "login")
    assert ran.code == 41
    for word in ("ALHENA_OAUTH_CLIENT_ID", "security.auth.oauth.clientId"):
        assert word in ran.err


def test_the_client_of_the_settings_is_used(google: GoogleServer, gemini: Path) -> None:
    oauth = {
        "clientId": google.environ["ALHENA_OAUTH_CLIENT_ID"],
        "clientSecret": CLIENT_SECRET,
    }
    settings = {"security": {"auth": {"selectedType": "oauth-personal", "oauth": oauth}}}
    (gemini / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    keep(gemini, google.cached(expires_in=-1))
    environ = {k: v for k, v in google.environ.items() if "_CLIENT_" not in k}
    ran = alhena("-p", "hi", **environ)
    assert (ran.code, ran.out) == (0, "hello\n"), ran.err
    assert google.paths()[0] == "/token"


@pytest.mark.requirement("WIRE-16")
def test_a_run_uses_the_login_of_the_reference_as_long_as_it_holds(
    google: GoogleServer, gemini: Path
) -> None:
    keep(gemini, google.cached(expires_in=3000))
    environ = {"CODE_ASSIST_ENDPOINT": google.url} | GCA
    ran = alhena("-p", "hi", "-m", "gemini-2.5-flash", **environ)
    assert (ran.code, ran.out) == (0, "hello\n"), ran.err
    sent = google.requests[-1].json
    assert sent["model"] == "gemini-2.5-flash"
    assert sent["project"] == "a-project"
    session = sent["request"]["session_id"]
    assert session
    assert sent["user_prompt_id"].startswith(f"{session}#")
    assert "/token" not in google.paths()


def test_a_run_with_an_access_token_of_the_environment(google: GoogleServer, home: Path) -> None:
    environ = {"CODE_ASSIST_ENDPOINT": google.url, "GOOGLE_CLOUD_ACCESS_TOKEN": google.give()} | GCA
    ran = alhena("-p", "hi", **environ)
    assert (ran.code, ran.out) == (0, "hello\n"), ran.err
    google.access_tokens.clear()
    ran = alhena("-p", "hi", **environ)
    assert ran.code == 41
    assert "GOOGLE_CLOUD_ACCESS_TOKEN" in ran.err
    silent(ran)


def test_a_new_user_is_signed_up_by_the_first_run_and_told_what_to_read(
    google: GoogleServer, home: Path
) -> None:
    notice = {"showNotice": True, "noticeText": "We read along.\x1b[31m"}
    google.load = {
        "allowedTiers": [{"id": "free-tier", "isDefault": True, "privacyNotice": notice}]
    }
    done = {"done": True, "response": {"cloudaicompanionProject": {"id": "given"}}}
    google.routes["/v1internal:onboardUser"] = lambda _: json_reply(done)
    environ = {"CODE_ASSIST_ENDPOINT": google.url, "GOOGLE_CLOUD_ACCESS_TOKEN": google.give()} | GCA
    ran = alhena("-p", "hi", **environ)
    assert (ran.code, ran.out) == (0, "hello\n"), ran.err
    assert "We read along." in ran.err
    assert "\x1b" not in ran.err
    assert google.requests[-1].json["project"] == "given"


def test_what_is_recorded_holds_no_token(google: GoogleServer, gemini: Path, project: Path) -> None:
    keep(gemini, google.cached(expires_in=-1))
    log = project / "t.log"
    environ = google.environ | GCA
    environ |= {"GEMINI_TELEMETRY_ENABLED": "true", "GEMINI_TELEMETRY_OUTFILE": str(log)}
    ran = alhena("-p", "hi", "-d", "--record-responses", "r.jsonl", "-o", "stream-json", **environ)
    assert ran.code == 0, ran.err
    silent(ran)
    everything = b"".join(
        path.read_bytes()
        for root in (project, gemini)
        for path in root.rglob("*")
        if path.is_file() and path.name != "oauth_creds.json"
    )
    assert b"hello" in everything
    for secret in SECRETS:
        assert secret.encode() not in everything


def test_nobody_is_let_in_without_a_login() -> None:
    ran = alhena("-p", "hi", **GCA)
    assert ran.code == 41
    assert "alhena auth login" in ran.err


def test_the_status_says_who_answers_and_never_a_token(google: GoogleServer, gemini: Path) -> None:
    keep(gemini, google.cached(expires_in=3000))
    (gemini / "google_accounts.json").write_text('{"active": "ada@example.com"}', encoding="utf-8")
    ran = alhena("auth", "status", "--json", **google.environ, **GCA)
    assert ran.code == 0
    found = ran.json
    assert found["authType"] == "oauth-personal"
    assert found["ready"] is True
    assert found["problem"] is None
    assert found["login"]["account"] == "ada@example.com"
    assert found["login"]["expiresAt"].endswith("Z")
    assert (found["login"]["expired"], found["login"]["refreshable"]) == (False, True)
    assert found["oauthClient"] is True
    assert found["tokenSource"] == "oauth_creds.json"
    silent(ran)
    told = alhena("auth", "status", **google.environ, **GCA)
    assert "ada@example.com" in told.out
    assert "oauth-personal" in told.out
    silent(told)
    assert google.requests == []


@pytest.mark.parametrize(
    ("environ", "kind", "code"),
    [
        ({"GEMINI_API_KEY": "abc"}, "gemini-api-key", 0),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_API_KEY": "k"}, "vertex-ai", 0),
        ({"GOOGLE_GENAI_USE_VERTEXAI": "true"}, "vertex-ai", 41),
        ({"GOOGLE_GENAI_USE_GCA": "true"}, "oauth-personal", 41),
        ({}, None, 41),
    ],
)
def test_the_status_is_that_of_any_transport(
    environ: dict[str, str], kind: str | None, code: int
) -> None:
    ran = alhena("auth", "status", "--json", **environ)
    assert ran.code == code
    assert ran.json["authType"] == kind
    assert ran.json["ready"] is (code == 0)
    assert (ran.json["problem"] is None) is (code == 0)


def test_a_login_that_has_ended_for_good_is_not_ready(google: GoogleServer, gemini: Path) -> None:
    keep(gemini, google.cached(expires_in=-1))
    given = alhena("auth", "status", "--json", GOOGLE_CLOUD_ACCESS_TOKEN="very-secret-9", **GCA)
    assert (given.code, given.json["tokenSource"]) == (0, "GOOGLE_CLOUD_ACCESS_TOKEN")
    silent(given)
    ran = alhena("auth", "status", "--json", **GCA)
    assert ran.code == 41
    assert ran.json["login"]["expired"] is True
    assert "alhena auth login" in ran.json["problem"]


def test_a_damaged_login_is_told(gemini: Path) -> None:
    (gemini / "oauth_creds.json").write_text("{", encoding="utf-8")
    ran = alhena("auth", "status", "--json", **GCA)
    assert ran.code == 41
    assert "oauth_creds.json" in ran.json["problem"]
    assert alhena("auth", "logout").out == "Signed out.\n"
    assert not (gemini / "oauth_creds.json").exists()


def test_the_quota_is_told_on_demand(google: GoogleServer, gemini: Path) -> None:
    keep(gemini, google.cached(expires_in=3000))
    ran = alhena("auth", "status", "--quota", "--json", **google.environ, **GCA)
    assert ran.code == 0, ran.err
    assert ran.json["project"] == "a-project"
    assert ran.json["quota"][0]["remainingFraction"] == 0.75
    told = alhena("auth", "status", "--quota", **google.environ, **GCA)
    assert "Quota of gemini-2.5-pro: 75% left, full again at 2030-01-01T00:00:00Z" in told.out
    other = alhena("auth", "status", "--quota", GEMINI_API_KEY="k")
    assert other.code == 41
    assert "Code Assist" in other.err


def test_logging_out_forgets_the_login_and_remembers_the_account(
    google: GoogleServer, gemini: Path
) -> None:
    keep(gemini, google.cached(expires_in=3000))
    (gemini / "google_accounts.json").write_text('{"active": "ada@example.com"}', encoding="utf-8")
    first = alhena("auth", "logout")
    assert (first.code, first.out) == (0, "Signed out.\n")
    assert [path.name for path in gemini.iterdir()] == ["google_accounts.json"]
    assert accounts(gemini) == {"active": None, "old": ["ada@example.com"]}
    assert alhena("auth", "logout").out == "You are not signed in.\n"


def test_help_and_wrong_words() -> None:
    assert "alhena auth login" in alhena("auth", "--help").out
    assert alhena("auth").code == 2
    assert alhena("auth", "lgoin").code == 2
    assert "auth login" in alhena("--help").out


@pytest.mark.parametrize("arguments", [(), ("--no-browser",)])
def test_a_login_begins_with_what_has_ended_and_what_works(
    google: GoogleServer, arguments: tuple[str, ...]
) -> None:
    with signing_in(google, *arguments) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
    assert all(each in first for each in ENDED)
    assert not google.requests


def test_without_a_client_of_ones_own_a_login_still_begins_with_what_has_ended() -> None:
    ran = alhena("auth", "login")
    assert ran.code != 0
    assert all(each in ran.out for each in ENDED)
    assert "ALHENA_OAUTH_CLIENT_ID" in ran.err
