"""The first start without a key: said before the first prompt, with ways to a model."""

import os
from pathlib import Path

import pytest

from alhena.config.effective_settings import open_place
from alhena.frontends.shared.arguments import RunArguments
from alhena.frontends.terminal.access_dialog import ask_access
from alhena.frontends.terminal.drawing.lines import Line, plain
from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.session import ENTER, PLACEHOLDER, answer, leave
from tests.support.command import alhena
from tests.support.disk import mode
from tests.support.server import ScriptedServer, json_reply, sse, text
from tests.support.terminal import Terminal

KEY = "AIzaSyPastedByAPerson"
UNREACHABLE = {"HTTPS_PROXY": "http://127.0.0.1:9"}


async def asked(project: Path, *answers: str | None) -> tuple[RunArguments | None, str]:
    shown: list[Line] = []
    screen = ListScreen(*answers)
    place = open_place(project, os.environ)
    arguments = await ask_access(RunArguments(), place, screen, shown.extend)
    return arguments, plain(shown)


@pytest.mark.requirement("CLI-02")
@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_pasted_key_is_kept_without_a_network_and_used_by_later_runs(
    server: ScriptedServer, home: Path, project: Path, term: str
):
    with Terminal(term=term, **UNREACHABLE) as terminal:
        terminal.until("No API key found")
        if term == "dumb":
            terminal.until("Number (empty: no)")
            terminal.send("1" + ENTER)
        else:
            answer(terminal, "1" + ENTER)
        terminal.until("API key (hidden):")
        terminal.send(KEY + ENTER)
        terminal.until("could not be checked")
        terminal.until("/help lists")
        if term == "dumb":
            terminal.send("\x04")
            assert terminal.ended() == 0
        else:
            terminal.until(PLACEHOLDER)
            leave(terminal)
    assert KEY not in terminal.raw
    files = [path for path in home.rglob("*") if path.is_file()]
    assert [path.name for path in files if KEY.encode() in path.read_bytes()] == ["api_key.json"]
    assert mode(home / ".gemini" / "api_key.json") == 0o600
    server.reply(sse(text("Hello.")))
    ran = alhena("-p", "hi", GOOGLE_GEMINI_BASE_URL=server.url)
    assert (ran.code, ran.out) == (0, "Hello.\n")
    assert server.requests[0].headers["x-goog-api-key"] == KEY
    assert "api_key.json" in alhena("auth", "status").out
    assert "The saved API key is deleted." in alhena("auth", "logout").out
    assert alhena("-p", "hi").code == 41


async def test_a_key_that_the_service_refuses_is_not_kept(
    server: ScriptedServer, home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    body = {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}
    server.reply(json_reply(body, status=400), json_reply({"models": []}))
    arguments, shown = await asked(project, "Paste", "wrong", "Paste", "with blank", "Paste", KEY)
    assert arguments is not None
    assert shown.count("✗") == 2
    assert "not saved" in shown
    assert arguments.model is None
    assert KEY in (home / ".gemini" / "api_key.json").read_text(encoding="utf-8")


async def test_sign_in_says_what_it_needs_and_demo_mode_is_a_choice(project: Path):
    arguments, shown = await asked(project, "Sign in", "Paste", None, "Demo mode")
    assert arguments is not None
    assert arguments.model == "demo"
    assert "ALHENA_OAUTH_CLIENT_ID" in shown
    assert "Standard and Enterprise licences work" in shown


async def test_who_leaves_at_the_first_start_is_asked_again(home: Path, project: Path):
    arguments, _ = await asked(project, "Paste", None, None)
    assert arguments is None
    assert not [path for path in home.rglob("*") if path.is_file()]


def test_chosen_demo_mode_is_remembered_until_there_is_a_key(server: ScriptedServer, home: Path):
    with Terminal() as terminal:
        terminal.until("No API key found")
        answer(terminal, "4" + ENTER)
        terminal.until("default  demo")
        terminal.send("/about" + ENTER)
        terminal.until("sign-in    none: demo mode")
        leave(terminal)
    with Terminal() as terminal:
        shown = terminal.until("default  demo")
        assert "Connect to a model" not in shown
        leave(terminal)
    server.reply(sse(text("Hello.")))
    with Terminal(GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=server.url) as terminal:
        terminal.until("/help lists")
        terminal.send("hi" + ENTER)
        terminal.until("Hello.")
        leave(terminal)


async def test_a_local_model_is_chosen_and_used_from_then_on(
    server: ScriptedServer, home: Path, project: Path
):
    (home / ".gemini").mkdir()
    (home / ".gemini" / ".env").write_text("A=b", encoding="utf-8")
    server.hides_windows = False  # /v1/models is the list to choose from
    server.reply(json_reply({"data": [{"id": "small"}, {"id": "large"}]}))
    arguments, _ = await asked(project, "local model", f"{server.url}/v1", "large")
    assert arguments is not None
    assert arguments.model is None
    place = open_place(project, os.environ)
    assert place.environ["OPENAI_BASE_URL"] == f"{server.url}/v1"
    assert place.environ["A"] == "b"
    assert place.settings.model.name == "openai:large"


@pytest.mark.requirement("TERM-01")
def test_a_key_is_given_inside_a_session(server: ScriptedServer, home: Path):
    server.reply(json_reply({"models": []}), sse(text("One.")))
    with Terminal(GOOGLE_GEMINI_BASE_URL=server.url, GEMINI_MODEL="m") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("/auth" + ENTER)
        answer(terminal, "1" + ENTER)
        terminal.until("API key (hidden):")
        terminal.send(KEY + ENTER)
        terminal.until("Session restarted with the project's settings.")
        terminal.send("hi" + ENTER)
        terminal.until("One.")
        leave(terminal)
    assert server.requests[-1].headers["x-goog-api-key"] == KEY
    assert KEY not in terminal.raw
