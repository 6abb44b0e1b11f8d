"""Hooks that know tools and parameters by the names of another generation."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.runner import SessionRunner
from alhena.policy.model import ApprovalMode
from tests.agent.delegating import turn
from tests.agent.kit import agent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, text


@pytest.fixture
def files(project: Path) -> Path:
    (project / "sub").mkdir()
    (project / "secret.txt").write_text("SECRET\n", encoding="utf-8")
    (project / "ok.txt").write_text("fine\n", encoding="utf-8")
    (project / "sub" / "q.txt").write_text("fine too\n", encoding="utf-8")
    return project


def agent_with_hook(generator: ScriptedGenerator, command: str, matcher: str = "") -> SessionRunner:
    group = {"matcher": matcher, "hooks": [{"type": "command", "command": command}]}
    hooks = {"hooks": {"BeforeTool": [group]}}
    return agent(generator, hooks=hooks, approval_mode=ApprovalMode.YOLO)


async def read_response(name: str, args: dict[str, Any], command: str, matcher: str = "") -> Any:
    generator = ScriptedGenerator(turn(call(name, args, id="c")), [text("ok")])
    async with agent_with_hook(generator, command, matcher) as running:
        assert await running.ask("go") == "ok"
    (part,) = generator.seen(1)[-1]["parts"]
    return part["functionResponse"]["response"]


def guard(field: str, value: str) -> str:
    """Blocks when a field of the event is this."""
    script = f"import json, sys; sys.exit(2 * (json.load(sys.stdin){field} == {value!r}))"
    return f"python3 -c {shlex.quote(script)} || {{ echo no secrets >&2; exit 2; }}"


def gives(**given: Any) -> str:
    said = {"hookSpecificOutput": {"tool_input": given}}
    return f"cat >/dev/null; echo {shlex.quote(json.dumps(said))}"


@pytest.mark.requirement("HOOK-01")
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("asked", ["file_path", "absolute_path"])
@pytest.mark.parametrize("known", ["file_path", "absolute_path"])
async def test_a_guard_sees_the_path_by_whichever_name_it_and_the_model_know_it(asked, known):
    command = guard(f'["tool_input"]["{known}"]', "secret.txt")
    answer = await read_response("read_file", {asked: "secret.txt"}, command)
    if (asked, known) == ("file_path", "absolute_path"):
        # As in the reference a name that was not given is not there: this guard fails, and so blocks.
        assert answer["error"].startswith("Tool execution blocked: ")
        assert "KeyError: 'absolute_path'" in answer["error"]
    else:
        assert answer == {"error": "Tool execution blocked: no secrets"}


@pytest.mark.requirement("HOOK-01")
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("called", ["grep_search", "search_file_content", "ripGrep"])
@pytest.mark.parametrize(
    ("matcher", "known"),
    [
        ("grep_search", "grep_search"),
        ("^grep_", "grep_search"),
        ("search_file_content", "search_file_content"),
        ("read_file|search_file_content", "search_file_content"),
    ],
)
async def test_a_guard_hears_the_name_that_its_matcher_knows(called, matcher, known):
    command = guard('["tool_name"]', known)
    answer = await read_response(called, {"pattern": "SECRET"}, command, matcher)
    assert answer == {"error": "Tool execution blocked: no secrets"}


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("called", "told"),
    [
        ("grep_search", "grep_search"),
        ("search_file_content", "search_file_content"),
        ("ripGrep", "search_file_content"),
        ("GrepTool", "search_file_content"),
    ],
)
async def test_without_a_matcher_a_name_that_is_merely_accepted_is_not_told(called, told):
    answer = await read_response(called, {"pattern": "SECRET"}, guard('["tool_name"]', told))
    assert answer == {"error": "Tool execution blocked: no secrets"}


@pytest.mark.requirement("HOOK-01")
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("name", "args", "given", "wanted", "noted"),
    [
        (
            "read_file",
            {"file_path": "secret.txt"},
            {"file_path": "ok.txt"},
            "fine",
            "absolute_path",
        ),
        (
            "read_file",
            {"absolute_path": "secret.txt"},
            {"file_path": "ok.txt", "absolute_path": "secret.txt"},
            "fine",
            "absolute_path",
        ),
        ("list_directory", {"dir_path": "."}, {"dir_path": "sub"}, "q.txt", "path"),
        ("glob", {"pattern": "*.txt"}, {"dir_path": "sub"}, "q.txt", "path"),
        ("grep_search", {"pattern": "fine"}, {"dir_path": "sub"}, "q.txt", "path"),
        (
            "run_shell_command",
            {"command": "ls", "description": "d"},
            {"dir_path": "sub", "description": "d"},
            "q.txt",
            "directory",
        ),
    ],
)
async def test_what_a_hook_sets_by_another_name_is_what_runs(name, args, given, wanted, noted):
    answer = await read_response(name, args, gives(**given))
    assert wanted in answer["output"]
    assert "SECRET" not in answer["output"]
    assert answer["output"].endswith(f"parameters ({noted}) were modified by hook")


@pytest.mark.usefixtures("files")
async def test_a_hook_that_gives_back_what_it_was_told_has_changed_nothing():
    script = (
        "import json, sys; told = json.load(sys.stdin)['tool_input'];"
        "print(json.dumps({'hookSpecificOutput': {'tool_input': told}}))"
    )
    command = f"python3 -c {shlex.quote(script)}"
    args = {"file_path": "ok.txt", "start_line": 1, "end_line": 1}
    answer = await read_response("read_file", args, command)
    assert "fine" in answer["output"]
    assert "modified by hook" not in answer["output"]


@pytest.mark.parametrize(
    "matcher", ["codebase_investigator", "delegate_to_agent", "invoke_agent", "^codebase"]
)
@pytest.mark.parametrize("name", ["codebase_investigator", "delegate_to_agent", "invoke_agent"])
async def test_a_hook_hears_of_an_agent_by_each_of_its_names(name: str, matcher: str):
    args = {"objective": "go"}
    if name != "codebase_investigator":
        args["agent_name"] = "codebase_investigator"
    answer = await read_response(name, args, "echo no >&2; exit 2", matcher)
    assert answer == {"error": "Tool execution blocked: no"}
