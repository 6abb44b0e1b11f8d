"""`alhena policy explain`, as a program."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from alhena.frontends.main import run
from tests.support.command import message_lines

PREFIX = {"toolName": "run_shell_command", "commandPrefix": "git", "decision": "allow"}


class Done(NamedTuple):
    code: int
    stdout: str
    stderr: str


Alhena = Callable[..., Done]


@pytest.fixture
def alhena(capsys: pytest.CaptureFixture[str]) -> Alhena:
    def alhena(*argv: str) -> Done:
        code = run(["policy", *argv])
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return alhena


@pytest.fixture
def batch(alhena: Alhena, project: Path) -> Callable[..., tuple[int, list[dict[str, Any]]]]:
    def batch(*lines: Any, argv: tuple[str, ...] = ()) -> tuple[int, list[dict[str, Any]]]:
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        (project / "batch.jsonl").write_text(text, encoding="utf-8")
        done = alhena("explain", "--batch", "batch.jsonl", *argv)
        return done.code, [json.loads(line) for line in done.stdout.splitlines()]

    return batch


Batch = Callable[..., tuple[int, list[dict[str, Any]]]]


def shell(command: str) -> str:
    return json.dumps({"command": command})


def test_a_decision_is_json_with_its_reason_rule_and_parts(alhena: Alhena, home: Path) -> None:
    policies = home / ".gemini" / "policies"
    policies.mkdir(parents=True)
    (policies / "own.toml").write_text(
        '[[rule]]\ncommandPrefix = "rm"\ndecision = "deny"\npriority = 20\ndenyMessage = "No."\n',
        encoding="utf-8",
    )
    done = alhena("explain", "--tool", "shell", "--args", shell("ls; rm x"), "--json")
    assert (done.code, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer == {
        "decision": "deny",
        "reason": f"denied by the user policy ({policies / 'own.toml'}:1, rule 1)",
        "rule": {
            "toolName": ["run_shell_command"],
            "commandPrefix": ["rm"],
            "decision": "deny",
            "priority": 2.02,
            "denyMessage": "No.",
            "source": f"{policies / 'own.toml'}:1, rule 1",
            "tier": "user",
            "file": str(policies / "own.toml"),
            "line": 1,
        },
        "parts": ["rm x"],
    }
    words = alhena("explain", "--tool", "shell", "--args", shell("ls; rm x"))
    assert words.stdout.startswith("deny: denied by the user policy")
    assert "the rule says: No." in words.stdout
    assert words.stdout.endswith("decided by this part of the command: rm x\n")
    escape = alhena("explain", "--tool", "shell", "--args", shell("rm '\x1b[2J\n'"))
    assert escape.stdout.endswith(r"part of the command: rm '\x1b[2J\n'" + "\n")


@pytest.mark.requirement("POL-07")
def test_mode_and_company_change_the_answer(alhena: Alhena, project: Path) -> None:
    def outcome(*argv: str) -> str:
        return str(json.loads(alhena("explain", "--json", *argv).stdout)["decision"])

    assert outcome("--tool", "write_file") == "ask_user"
    assert outcome("--tool", "write_file", "--interactive") == "ask_user"
    assert outcome("--tool", "write_file", "--non-interactive") == "deny"
    assert outcome("--tool", "write_file", "--mode", "auto_edit") == "allow"
    assert outcome("--tool", "EditTool", "--mode", "autoEdit", "--non-interactive") == "allow"
    assert outcome("--tool", "write_file", "--approval-mode", "plan") == "deny"
    (project / "more.toml").write_text(
        '[[rule]]\ntoolName = "EditTool"\ndecision = "deny"\npriority = 1\n', encoding="utf-8"
    )
    assert outcome("--tool", "replace", "--policy", "more.toml", "--mode", "yolo") == "deny"


def test_a_batch_answers_line_by_line_with_the_rules_of_each_line(batch: Batch) -> None:
    code, answers = batch(
        {"id": 1, "rules": [{**PREFIX, "priority": 100}], "tool": "run_shell_command",
         "args": {"command": "git push"}, "mode": "default", "interactive": True},
        {"id": "b", "rules": [], "tool": "run_shell_command", "args": {"command": "git push"}},
        "",
        {"id": None, "tool": "ls", "mode": "plan", "interactive": False},
    )  # fmt: skip
    assert code == 0
    assert [a["id"] for a in answers] == [1, "b", None]
    assert [a["decision"] for a in answers] == ["allow", "ask_user", "allow"]
    assert all(a["reason"] and a["ms"] >= 0 for a in answers)


def test_the_rules_of_a_batch_line_replace_the_users_and_a_named_policy_stays(
    batch: Batch, home: Path, project: Path
) -> None:
    policies = home / ".gemini" / "policies"
    policies.mkdir(parents=True)
    deny = '[[rule]]\ntoolName = "{}"\ndecision = "deny"\npriority = 1\n'
    (policies / "own.toml").write_text(deny.format("glob"), encoding="utf-8")
    (project / "more.toml").write_text(deny.format("read_file"), encoding="utf-8")
    lines = [
        {"id": 1, "tool": "glob"},
        {"id": 2, "tool": "glob", "rules": []},
        {"id": 3, "tool": "read_file", "rules": []},
    ]
    _, answers = batch(*lines, argv=("--policy", "more.toml"))
    assert [a["decision"] for a in answers] == ["deny", "allow", "deny"]


def test_a_batch_is_read_from_standard_input_by_the_program_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "alhena", "policy", "explain", "--batch", "-"],
        input='{"id": "é", "tool": "glob"}\n{"id": 2}',
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["id"], first["decision"]) == ("é", "allow")
    assert (second["id"], done.returncode, done.stderr) == (2, 2, "")
    assert "tool" in second["error"]


def test_bad_lines_are_answered_with_an_error_and_the_others_still_are(batch: Batch) -> None:
    code, answers = batch(
        "{",
        "[1]",
        {"id": 3},
        {"id": 4, "tool": "glob", "mode": "fast"},
        {"id": 5, "tool": "glob", "rules": [{**PREFIX, "priority": 1000}]},
        {"id": 6, "tool": "glob", "surprise": 1},
        {"id": 7, "tool": "glob", "args": []},
        {"id": 8, "tool": "glob"},
    )
    assert code == 2
    assert [a["id"] for a in answers] == [None, None, 3, 4, 5, 6, 7, 8]
    assert ["error" in a for a in answers] == [True] * 7 + [False]
    assert "priority" in answers[4]["error"]
    assert all(str(n) in a["error"] for n, a in enumerate(answers[:7], start=1))


@pytest.mark.parametrize(
    ("argv", "code", "names"),
    [
        (("explain",), 2, "--tool or --batch"),
        (("explain", "--tool", "a", "--batch", "-"), 2, "--tool or --batch"),
        (("explain", "--tool", "a", "--args", "{"), 2, "--args"),
        (("explain", "--tool", "a", "--args", "[]"), 2, "--args"),
        (("explain", "--tool", "a", "--mode", "x"), 2, "'x'"),
        (("explain", "--tool", "a", "--what"), 2, "--what"),
        (("explain", "--batch", "/nowhere/x"), 42, "/nowhere/x"),
        (("explain", "--tool", "a", "--policy", "nowhere.toml"), 52, "nowhere.toml"),
        ((), 2, "policy --help"),
    ],
)
def test_what_cannot_be_carried_out_is_one_line_and_its_exit_code(
    alhena: Alhena, argv: tuple[str, ...], code: int, names: str
) -> None:
    done = alhena(*argv)
    assert (done.code, done.stdout) == (code, "")
    assert names in done.stderr
    assert len(message_lines(done.stderr)) == 1
    assert "Traceback" not in done.stderr


@pytest.mark.requirement("POL-02")
def test_a_faulty_file_of_the_user_is_shown_and_the_answer_still_given(
    alhena: Alhena, home: Path
) -> None:
    policies = home / ".gemini" / "policies"
    policies.mkdir(parents=True)
    (policies / "bad.toml").write_text('[[rule]]\ntoolName = "x"\n', encoding="utf-8")
    done = alhena("explain", "--tool", "glob", "--json")
    assert done.code == 0
    assert json.loads(done.stdout)["decision"] == "allow"
    assert f"{policies / 'bad.toml'}:1: rule 1, decision is missing" in done.stderr


def test_explaining_loads_nothing_it_does_not_need() -> None:
    heavy = {"asyncio", "httpx2", "regex", "jsonschema_rs", "pathspec", "difflib", "subprocess"}
    script = (
        "import sys; from alhena.frontends.cli.policy import run; "
        "run(['explain', '--tool', 'shell', '--args', '{\"command\": \"ls; rm\"}']); "
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, encoding="utf-8"
    )
    assert done.stdout.splitlines()[-1] == "[]"
