"""The command under awkward circumstances: odd files, closed streams, words that are no prompt."""

import re
import subprocess
from pathlib import Path

import pytest

from alhena.frontends.main import COMMANDS
from alhena.frontends.shared.arguments import EPILOG
from tests.support.command import ALHENA, alhena, alhena_reads, message_lines
from tests.support.each import for_each
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, json_reply, sse, text
from tests.support.terminal import Terminal

DEMO = ("-m", "demo", "-p", "hi")


def shell(line: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line.replace("ALHENA", ALHENA)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("make", ["mkfifo {0}", "mkdir {0}", "truncate -s 1G {0}"])
def test_settings_that_are_no_small_file_are_named_at_once(home: Path, make: str):
    (home / ".gemini").mkdir()
    file = home / ".gemini" / "settings.json"
    assert shell(make.format(file)).returncode == 0
    ran = alhena(*DEMO)
    assert ran.code == 52
    assert str(file) in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", [("wire", "check"), ("policy", "explain", "--batch")])
@pytest.mark.parametrize("file", ["folder", "missing"])
def test_inputs_that_cannot_be_read_are_named(project: Path, command: tuple[str, ...], file: str):
    (project / "folder").mkdir()
    ran = alhena(*command, file)
    assert ran.code == 42
    assert file in ran.err
    assert ran.err.count("\n") == 1


def test_wire_check_tells_the_rules_that_a_request_breaks(project: Path):
    (project / "bad.json").write_text(
        '{"contents": [{"role": "model", "parts": [{"text": "x", "zz": 1}]}]}', encoding="utf-8"
    )
    ran = alhena("wire", "check", "bad.json")
    assert ran.code == 1
    found = {(item["rule"], item["level"]) for item in ran.json["violations"]}
    assert ("C4", "error") in found
    good = b'{"contents": [{"role": "user", "parts": [{"text": "x"}]}]}'
    ran = alhena_reads(good, "wire", "check", "-")
    assert (ran.code, ran.json) == (0, {"violations": []})
    ran = alhena_reads(b"[" * 100_000, "wire", "check", "-")
    assert ran.code == 42
    piped = shell("ALHENA wire check <(echo '{\"contents\": []}')")
    assert piped.returncode == 1
    assert "C1" in piped.stdout


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        ("<&-", 0, ""),
        (">&-", 1, "standard output is closed"),
        (">/dev/full", 1, "cannot write the result: No space left"),
        ("2>&-", 0, ""),
    ],
)
def test_closed_and_full_streams_are_no_defects(redirection: str, code: int, said: str):
    for arguments in ("-m demo -p hi", "tools list", "--help", "--version"):
        ran = shell(f"ALHENA {arguments} {redirection}")
        if arguments == "--version" and redirection == ">&-":
            continue  # nothing is left to say it with but the exit code
        assert ran.returncode == code, (arguments, ran.stderr)
        assert said in ran.stderr
        assert "Traceback" not in ran.stderr
        assert "defect" not in ran.stderr
        assert ran.stderr.count("\n") <= 1


def test_a_reader_that_goes_away_is_nothing_to_talk_about():
    ran = shell("ALHENA tools list --json | head -1; exit ${PIPESTATUS[0]}")
    assert ran.stderr == ""
    assert ran.stdout == "[\n"


@for_each("name", COMMANDS)
def test_the_help_names_every_command_and_what_it_can_be_told(name: str):
    told = EPILOG.partition(f"\n  alhena {name} ")[2].partition("\n  alhena ")[0]
    assert told
    assert [word for word in COMMANDS[name] if not re.search(rf"\b{word}\b", told)] == []


def test_a_deleted_working_directory_is_named(tmp_path: Path):
    for arguments in ("-m demo -p hi", "tools list"):
        ran = shell(f"mkdir gone && cd gone && rmdir ../gone && ALHENA {arguments}", cwd=tmp_path)
        assert ran.returncode == 42
        assert "working directory" in ran.stderr
        assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (["tools", "nope"], 2),
        (["tools"], 2),
        (["policy", "--nope"], 2),
        (["mcp", "lost"], 2),
        (["sessions"], 2),
        (["-m", "", "-p", "x"], 2),
        (["tools", "are", "missing", "docs"], 41),
    ],
)
def test_a_mistyped_command_is_no_prompt(line: list[str], code: int):
    ran = alhena(*line)
    assert ran.code == code
    assert len(message_lines(ran.err)) == 1


@pytest.mark.parametrize(
    ("name", "args", "kind"),
    [
        ("read_file", '{"absolute_path": "/etc/passwd"}', "path_not_in_workspace"),
        ("read_file", '{"absolute_path": 5}', "invalid_tool_params"),
        ("nope", "{}", "tool_not_registered"),
        ("write_file", '{"file_path": "x", "content": "y"}', "policy_violation"),
        ("read_file", "[]", "invalid_tool_params"),
    ],
)
def test_a_failed_call_is_the_same_object_as_a_successful_one(name: str, args: str, kind: str):
    ran = alhena("tools", "call", name, args, "--json")
    assert ran.code == 54
    document = ran.json
    assert set(document) == {"status", "llmContent", "returnDisplay", "error", "responseParts"}
    assert document["error"]["type"] == kind
    assert "error" in document["responseParts"][0]["functionResponse"]["response"]
    ran = alhena("tools", "call", "list_directory", '{"path": "."}', "--json")
    assert ran.code == 0
    assert set(ran.json) == set(document)
    assert ran.json["error"] is None


@pytest.mark.requirement("CLI-02")
def test_a_word_that_looks_like_a_command_is_asked_about(server: ScriptedServer):
    environ = {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": server.url}
    for word, hint in (
        ("doctor", "See alhena --help"),
        ("setings", "Did you mean alhena settings?"),
    ):
        ran = alhena(word, **environ)
        assert (ran.code, hint in ran.err) == (2, True)
        for answer in ("n", "y"):
            server.reply(sse(text("As you wish.")))
            with Terminal(word, "-o", "text", **environ) as terminal:
                terminal.until("Send it to the model as a prompt? [y/N]")
                terminal.send(f"{answer}\r")
                assert terminal.ended() == (0 if answer == "y" else 2)
                assert ("As you wish." in terminal.screen.text) is (answer == "y")
    assert len(server.requests) == 2


def test_a_served_model_of_a_similar_name_is_suggested(server: ScriptedServer):
    server.reply(json_reply({"error": {"code": 404, "message": "no such model"}}, status=404))
    served = {"name": "models/gemini-3.8-flash", "supportedGenerationMethods": ["generateContent"]}
    server.reply(json_reply({"models": [served]}))
    environ = {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": server.url}
    ran = alhena("-m", "gemini-3.8-falsh", "-p", "hi", **environ)
    assert ran.code == 1
    assert "such as gemini-3.8-flash" in ran.err
