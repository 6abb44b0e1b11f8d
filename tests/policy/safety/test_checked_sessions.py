"""Checkers over whole sessions: nothing runs past them, whoever calls it."""

import json
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.runner import SessionRunner
from alhena.errors import ConfigError
from alhena.frontends.main import run
from alhena.policy.model import ApprovalMode
from alhena.scheduler.question import Answer, ConfirmationRequest
from tests.agent.kit import answers
from tests.policy.safety.kit import directory, external, program, table
from tests.support.agents import scripted_agent
from tests.support.command import alhena
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

YOLO = ApprovalMode.YOLO
NO = "answer('deny', reason='Not today.')"


def policy(home: Path, *tables: str, name: str = "checks.toml") -> None:
    folder = home / ".gemini" / "policies"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(tables), encoding="utf-8")


def checker(home: Path, name: str, body: str) -> None:
    program(directory(home / ".gemini"), name, body)


def write(path: str = "x", id: str = "w") -> dict[str, Any]:
    return call("write_file", {"file_path": path, "content": "y"}, id=id)


def script(*calls: dict[str, Any]) -> ScriptedGenerator:
    return ScriptedGenerator([chunk(*calls, finish="STOP")], [text("done")])


def agent(generator: ScriptedGenerator, mode: ApprovalMode = YOLO, **options: Any) -> SessionRunner:
    return scripted_agent(generator, approval_mode=mode, **options.pop("more", {}), **options)


@pytest.mark.requirement("POL-10")
async def test_what_a_checker_denies_does_not_run_and_the_model_is_told_why(
    home: Path, project: Path
) -> None:
    checker(home, "strict", NO)
    policy(home, external("strict", toolName='"edit_nothing"'), external("strict"))
    generator = script(write())
    async with agent(generator) as running:
        assert await running.ask("go") == "done"
    assert answers(generator) == [
        {"error": 'Tool execution denied by policy. Safety checker "strict": Not today.'}
    ]
    assert not (project / "x").exists()


@pytest.mark.requirement("POL-10")
async def test_what_checkers_allow_runs_as_the_rules_say(home: Path, project: Path) -> None:
    checker(home, "fine", "answer('allow')")
    policy(home, external("fine"), table())
    generator = script(write())
    async with agent(generator) as running:
        await running.ask("go")
    assert (project / "x").read_text(encoding="utf-8") == "y"


@pytest.mark.requirement("POL-10")
async def test_a_person_is_asked_when_a_checker_wants_it_also_in_yolo_mode(
    home: Path, project: Path
) -> None:
    policy(home, table(toolName='"write_file"'))
    asked: list[ConfirmationRequest] = []

    def approve(request: ConfirmationRequest) -> bool | Answer:
        asked.append(request)
        return request.args["file_path"].endswith("yes") or Answer.no("not that")

    generator = script(write(".vscode/yes", "a"), write(".vscode/no", "b"), write("free", "c"))
    async with agent(generator, approve=approve) as running:
        await running.ask("go")
    assert [request.args["file_path"] for request in asked] == [".vscode/yes", ".vscode/no"]
    assert 'the safety checker "allowed-path"' in asked[0].decision.reason
    assert (project / ".vscode" / "yes").exists()
    assert not (project / ".vscode" / "no").exists()
    assert (project / "free").exists()


@pytest.mark.requirement("POL-10")
async def test_where_nobody_can_be_asked_a_question_is_a_denial(home: Path, project: Path) -> None:
    policy(home, table())
    generator = script(write(".vscode/x"))
    async with agent(generator) as running:
        await running.ask("go")
    (answer,) = answers(generator)
    assert "requires user confirmation" in answer["error"]
    assert "lies in .vscode" in answer["error"]
    assert not (project / ".vscode").exists()


@pytest.mark.requirement("POL-10")
async def test_a_checker_is_told_the_arguments_as_they_will_be_used_and_the_conversation(
    home: Path, project: Path
) -> None:
    checker(
        home, "curious", f"open({str(project / 'seen')!r}, 'a').write(sys.stdin.read() + '\\n')\n"
        "answer('allow')"
    )  # fmt: skip
    policy(home, external("curious", toolName='"read_file"'))
    (project / "a").write_text("b", encoding="utf-8")
    generator = ScriptedGenerator(
        [chunk({"text": "I look."}, call("read_file", {"file_path": "a"}, id="r"), finish="STOP")],
        [text("done")],
    )
    async with agent(generator) as running:
        await running.ask("Read it.")
    (line,) = (project / "seen").read_text(encoding="utf-8").splitlines()
    told = json.loads(line)
    assert told["toolCall"] == {"name": "read_file", "args": {"absolute_path": "a"}}
    assert told["context"]["environment"] == {"cwd": str(project), "workspaces": [str(project)]}
    (turn,) = told["context"]["history"]["turns"]
    assert turn == {
        "user": {"text": "Read it."},
        "model": {
            "text": "I look.",
            "toolCalls": [{"name": "read_file", "args": {"file_path": "a"}}],
        },
    }


@pytest.mark.requirement("POL-10")
async def test_the_checkers_program_sees_no_secrets(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "secret-key")
    monkeypatch.setenv("MY_TOKEN", "secret-token")
    monkeypatch.setenv("PLAIN", "kept")
    names = "('GEMINI_API_KEY', 'MY_TOKEN', 'PLAIN')"
    checker(home, "curious", f"answer('deny', reason=str([os.environ.get(n) for n in {names}]))")
    policy(home, external("curious"))
    generator = script(write())
    async with agent(generator) as running:
        await running.ask("go")
    assert answers(generator)[0]["error"].endswith("[None, None, 'kept']")


@pytest.mark.requirement("POL-10")
def test_a_checker_that_had_to_be_dropped_ends_the_run_before_it_begins(
    home: Path, project: Path
) -> None:
    policy(home, table("no-such"))
    ran = alhena("--yolo", "--skip-trust", "-p", "x", GEMINI_API_KEY="k")
    assert ran.code == ConfigError.exit_code
    place = f"{home}/.gemini/policies/checks.toml:1: safety_checker 1, checker.name"
    assert place in ran.err


@pytest.mark.requirement("POL-10")
async def test_a_program_that_is_not_there_is_told_of_and_denies_what_it_is_for(
    home: Path, project: Path
) -> None:
    policy(home, external("gone", toolName='"write_file"'))
    (project / "a").write_text("b", encoding="utf-8")
    generator = script(write(), call("read_file", {"absolute_path": "a"}, id="r"))
    async with agent(generator) as running:
        assert running._session is not None
        (warning,) = running._session.bench.warnings
        assert "safety_checker 1, checker.name 'gone' cannot be run" in warning
        await running.ask("go")
    denied, read = answers(generator)
    assert "it failed, which counts as a denial: there is no" in denied["error"]
    assert "b" in read["output"]
    assert not (project / "x").exists()


@pytest.mark.requirement("POL-10")
@pytest.mark.parametrize("trusted", [True, False])
async def test_a_trusted_workspace_can_bring_checkers(
    home: Path, project: Path, *, trusted: bool
) -> None:
    folder = project / ".gemini" / "policies"
    folder.mkdir(parents=True)
    (folder / "p.toml").write_text(table(), encoding="utf-8")
    generator = script(write(".vscode/x"))
    async with agent(generator, more={"skip_trust": trusted}) as running:
        await running.ask("go")
    assert (project / ".vscode" / "x").exists() is not trusted


@pytest.mark.requirement("POL-10")
async def test_the_calls_of_a_subagent_are_checked_like_all_others(
    home: Path, project: Path
) -> None:
    policy(home, table(toolName='"read_file"'))
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("hidden", encoding="utf-8")
    work = {"agent_name": "codebase_investigator", "objective": "look"}
    generator = ScriptedGenerator(
        [chunk(call("delegate_to_agent", work, id="d"), finish="STOP")],
        [chunk(call("read_file", {"absolute_path": ".git/config"}, id="r"), finish="STOP")],
        [text("It is denied.")],
        [text("Still.")],
        [text("done")],
    )
    async with agent(generator) as running:
        await running.ask("go")
    (answer,) = answers(generator, 2)
    assert "lies in .git, which is protected" in answer["error"]


def explain_policy(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    code = run(["policy", "explain", "--tool", "write_file", "--args", '{"file_path": "x"}', *argv])
    out, _ = capsys.readouterr()
    assert code == 0
    return out


def test_an_explanation_names_the_checkers_that_would_be_asked_and_asks_none(
    home: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checker(home, "mine", f"open({str(project / 'ran')!r}, 'w')")
    policy(home, external("mine", toolName='"write_file"'), table(toolName='"glob"'))
    source = f"{home}/.gemini/policies/checks.toml:1, safety_checker 1"
    assert f'  before it runs, the safety checker "mine" ({source}) is asked\n' in explain_policy(
        capsys
    )
    told = json.loads(explain_policy(capsys, "--json"))
    assert told["checkers"] == [{"name": "mine", "type": "external", "source": source}]
    assert "checkers" not in json.loads(explain_policy(capsys, "--json", "--mode", "plan"))
    assert not (project / "ran").exists()


def test_a_call_from_the_command_line_is_checked(home: Path, project: Path) -> None:
    (project / "a").write_text("b", encoding="utf-8")
    policy(home, table())
    checked = alhena("tools", "call", "read_file", '{"absolute_path": ".git/HEAD"}', "--json")
    assert (checked.code, checked.json["error"]["type"]) == (54, "policy_violation")
    assert "allowed-path" in checked.json["error"]["message"]
    assert alhena("tools", "call", "read_file", '{"absolute_path": "a"}', "--json").code == 0
