"""The command line as the reference takes it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from alhena.frontends.main import COMMANDS
from tests.config.places import user, write
from tests.support.command import ALHENA, alhena, alhena_reads, keyed
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, sse, text


def bundle(home: Path, name: str = "one") -> Path:
    return write(
        home.parent / name / "gemini-extension.json", {"name": name, "version": "1"}
    ).parent


WRITTEN = '{"file_path": "new.txt", "content": "x"}'


@pytest.mark.requirement("WORLD-04")
@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("--debug", "extensions", "list"), "no extensions"),
        (("-m", "x", "hooks", "list"), "hook"),
        (("--model=x", "-y", "policy", "explain", "--tool", "glob", "--args", "{}"), "allow"),
        (("-o", "json", "extensions", "list"), "[]"),
        (("--skip-trust", "agents", "list", "--json"), "codebase_investigator"),
        (("--sandbox", "mcp", "list"), "server"),
        (("-y", "--skip-trust", "tools", "call", "write_file", WRITTEN), "created and wrote"),
        (
            (
                "--approval-mode",
                "yolo",
                "-m",
                "x",
                "--skip-trust",
                "tools",
                "call",
                "write_file",
                WRITTEN,
            ),
            "created and wrote",
        ),
        (
            (
                "-m",
                "demo",
                "--skip-trust",
                "batch",
                "--each-file",
                "*.txt",
                "--prompt",
                "list {path}",
                "--out",
                "r.jsonl",
            ),
            "",
        ),
    ],
)
def test_flags_may_come_before_a_command(argv: tuple[str, ...], told: str) -> None:
    Path("a.txt").touch()
    ran = alhena(*argv)
    assert ran.code == 0, ran.err
    assert told in ran.out.lower()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_tracebacks_can_be_asked_for_before_every_command(name: str) -> None:
    ran = alhena("--debug", name, "--nonsense")
    assert ran.code == 2
    assert "--debug" not in ran.err.splitlines()[-1]


def test_words_of_a_prompt_behind_flags_stay_a_prompt(server: ScriptedServer) -> None:
    for argv in (("-p", "hooks"), ("-m", "gemini-3.8-flash", "policy changes since May?")):
        server.reply(sse(text("fine")))
        assert alhena(*argv, **keyed(server)).out == "fine\n"


@pytest.mark.requirement("WORLD-04")
@pytest.mark.parametrize(("typed", "there"), [(b"y\n", True), (b"YES\n", True), (b"n\n", False)])
def test_consent_can_be_given_on_a_pipe(typed: bytes, there: bool, home: Path) -> None:
    ran = alhena_reads(typed, "extensions", "install", str(bundle(home)))
    assert ran.code == 0
    assert (home / ".gemini" / "extensions" / "one").exists() is there
    assert ("Nothing was changed." in ran.out) is not there


def test_a_pipe_without_an_answer_is_no_consent(home: Path) -> None:
    reading, writing = os.pipe()
    ran = subprocess.run(
        [ALHENA, "extensions", "install", str(bundle(home))],
        stdin=reading,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    os.close(reading)
    os.close(writing)
    assert ran.returncode == 2
    assert "no person can be asked" in ran.stderr


@pytest.mark.requirement("WORLD-04")
@pytest.mark.parametrize("words", [("-i", "a"), ("-i", "a", "b"), ("-i", "a", "-p", "b")])
def test_an_interactive_prompt_with_piped_input_ends_with_42(words: tuple[str, ...]) -> None:
    ran = alhena_reads(b"piped", *words)
    assert ran.code == 42
    assert "cannot be used when input is piped" in ran.err


@pytest.mark.parametrize(
    ("settings", "environ", "said"),
    [
        ({}, {}, "GEMINI_API_KEY"),
        (
            {"security": {"auth": {"enforcedType": "gemini-api-key"}}},
            {"GOOGLE_GENAI_USE_GCA": "true"},
            "enforced authentication type is 'gemini-api-key'",
        ),
        ({"security": {"auth": {"selectedType": "carrier-pigeon"}}}, {}, "carrier-pigeon"),
    ],
)
def test_the_json_error_of_a_missing_sign_in_has_the_references_type(
    settings: object, environ: dict[str, str], said: str, home: Path
) -> None:
    user(home, settings)
    ran = alhena("-p", "hi", "-o", "json", **environ)
    assert ran.code == 41
    error = json.loads(ran.err)["error"]
    assert (error["type"], error["code"]) == ("Error", 41)
    assert said in error["message"]
