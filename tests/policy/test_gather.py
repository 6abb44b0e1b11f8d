"""The policy of a session from all its sources, as a run and `policy explain` see it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from alhena.config.settings import settings_of
from alhena.errors import ConfigError
from alhena.policy.gather import GatheredPolicy, PolicyRequest, gather_policy, join_problems
from alhena.policy.model import PolicyOutcome, PolicyRule
from alhena.policy.saved import save_rule
from alhena.policy.settings_rules import ToolNames
from alhena.tools.contract import ToolConfirmationOutcome
from alhena.tools.registry import BUILT_IN
from tests.agent.delegating import turn
from tests.support.agents import scripted_agent
from tests.support.command import alhena
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, text

DENY_GLOB = '[[rule]]\ntoolName = "glob"\ndecision = "deny"\npriority = 1\n'
ALLOW_WRITE = '[[rule]]\ntoolName = "write_file"\ndecision = "allow"\npriority = 999\n'
TRUSTED = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
EVERY_MODE = ("default", "auto_edit", "yolo", "plan")


def write(file: Path, source: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(source, encoding="utf-8")
    return file


@pytest.fixture
def workspace(project: Path) -> Path:
    """The workspace's own policy, which denies one thing and allows another."""
    return write(project / ".gemini" / "policies" / "own.toml", DENY_GLOB + ALLOW_WRITE)


def gather(project: Path, settings: dict[str, Any] | None = None, **fields: Any) -> GatheredPolicy:
    return gather_policy(
        PolicyRequest(
            cwd=project,
            **{"environ": os.environ, "settings": settings_of(settings or {}, "test"), **fields},
        )
    )


def explain_policy(*argv: str, **environ: str) -> tuple[str, str]:
    ran = alhena("policy", "explain", "--json", *argv, **environ)
    assert ran.code == 0, ran.err
    return ran.json["decision"], ran.json["reason"]


def test_a_trusted_workspace_can_forbid_and_never_permit(workspace: Path) -> None:
    for mode in EVERY_MODE:
        decision, reason = explain_policy("--tool", "glob", "--mode", mode, **TRUSTED)
        assert decision == "deny"
        assert f"denied by the workspace policy ({workspace}:1, rule 1)" in reason
    assert explain_policy("--tool", "write_file", **TRUSTED)[0] == "ask_user"
    assert explain_policy("--tool", "write_file", "--mode", "plan", **TRUSTED)[0] == "deny"


def test_the_policies_of_a_folder_that_is_not_trusted_are_not_read(workspace: Path) -> None:
    workspace.write_text("[[rule]", encoding="utf-8")
    assert explain_policy("--tool", "glob")[0] == "allow"
    ran = alhena("policy", "explain", "--tool", "glob", "-d")
    assert str(workspace.parent) in ran.err
    assert "not trusted" in ran.err
    assert alhena("policy", "explain", "--tool", "glob").err == ""


def test_every_way_of_trust_reads_them(workspace: Path, home: Path) -> None:
    assert explain_policy("--tool", "glob", "--skip-trust")[0] == "deny"
    listed = {str(workspace.parent.parent.parent): "TRUST_FOLDER"}
    file = write(home / ".gemini" / "trustedFolders.json", json.dumps(listed))
    assert explain_policy("--tool", "glob")[0] == "deny"
    file.unlink()
    off = {"security": {"folderTrust": {"enabled": False}}}
    write(home / ".gemini" / "settings.json", json.dumps(off))
    assert explain_policy("--tool", "glob")[0] == "deny"
    assert explain_policy("--tool", "glob", GEMINI_CLI_TRUST_WORKSPACE="false")[0] == "allow"


def test_what_stands_in_the_home_directory_is_the_users_own(home: Path) -> None:
    write(home / ".gemini" / "policies" / "own.toml", DENY_GLOB + ALLOW_WRITE)
    found = gather(home, skip_trust=True)
    assert found.filters == ()
    assert sum(rule.author == "user" for rule in found.rules) == 2


def test_an_extensions_policy_is_a_filter_with_its_name(project: Path, home: Path) -> None:
    write(home / "ext" / "policies" / "p.toml", DENY_GLOB)
    found = gather(project, extensions=(("linter", home / "ext" / "policies"),))
    (only,) = found.filters
    assert "linter" in only.name
    assert [rule.author for rule in only.rules] == ["extension"]


@pytest.mark.parametrize(
    ("source", "fatal"),
    [
        ("[[rule]", True),
        (DENY_GLOB.replace("1", "1000"), True),
        (ALLOW_WRITE.replace("999", "1000"), False),
        (ALLOW_WRITE + 'not_match = "{}"\n', False),
        (DENY_GLOB + 'not_match = "{}"\n', True),
    ],
)
@pytest.mark.parametrize("place", ["user", "workspace", "settings", "named"])
def test_a_run_does_not_go_on_with_less_policy_than_was_written(
    project: Path, home: Path, place: str, source: str, fatal: bool
) -> None:
    files = {
        "user": home / ".gemini" / "policies" / "p.toml",
        "workspace": project / ".gemini" / "policies" / "p.toml",
        "settings": project / "p.toml",
        "named": project / "p.toml",
    }
    write(files[place], source)
    found = gather(
        project,
        {"policyPaths": ["p.toml"] if place == "settings" else []},
        skip_trust=True,
        paths=("p.toml",) if place == "named" else (),
    )
    assert len(found.problems) == 1
    assert bool(found.fatal) == (fatal or place == "named")
    assert str(files[place]) in str(found.problems[0])


@pytest.mark.parametrize("place", [".gemini/policies/p.toml", "p.toml"])
def test_a_slip_in_a_rule_that_restricts_ends_the_run(project: Path, place: str) -> None:
    write(project / place, DENY_GLOB.replace('"glob"', '"golb"'))
    found = gather(
        project,
        skip_trust=True,
        paths=() if "/" in place else (place,),
        tool_names=ToolNames(BUILT_IN),
    )
    (problem,) = found.problems
    assert str(problem).endswith(
        f"{place}:1: rule 1, toolName 'golb' is no built-in tool. Did you mean glob?"
    )
    assert found.fatal == (problem,)


@pytest.mark.parametrize("name", ["p.TOML", "p.Toml", "below/p.toml", "below/more/p.TOML"])
def test_a_file_that_somebody_takes_for_a_policy_ends_the_run(
    name: str, project: Path, home: Path
) -> None:
    write(home / ".gemini/policies" / name, DENY_GLOB)
    (problem,) = gather(project).fatal
    assert str(home / ".gemini/policies" / name) in str(problem)
    assert "is not read: policies are the *.toml files of the folder itself" in str(problem)


@pytest.mark.parametrize("name", ["p.toml.bak", "p.txt", ".git/p.toml", "README.md", "p.toml~"])
def test_what_nobody_takes_for_a_policy_is_left_alone(name: str, project: Path, home: Path) -> None:
    write(home / ".gemini/policies" / name, DENY_GLOB)
    assert gather(project).problems == ()


def test_everything_that_ends_a_run_is_named_at_once(project: Path, home: Path) -> None:
    bad = DENY_GLOB.replace("1", "1000")
    write(home / ".gemini/policies/p.toml", bad * 2 + "[[rule]]\n")
    write(project / "named.toml", "rule = [3]\n")
    found = gather(project, paths=("named.toml",))
    assert len(found.fatal) == 4
    told = join_problems(found.fatal)
    assert told.startswith(f"{project}/named.toml: rule 1 is no table. Write each rule under")
    for number in (1, 2):
        assert f"rule {number}, priority cannot be" in told
    assert "rule 3, decision is missing" in told
    assert join_problems(found.fatal * 4).endswith("; and 8 more such problems")


def test_without_always_saved_approvals_do_not_count_and_refusals_do(
    project: Path, home: Path
) -> None:
    saved = home / ".gemini" / "policies" / "auto-saved.toml"
    for decision, tool in ((PolicyOutcome.ALLOW, "write_file"), (PolicyOutcome.DENY, "glob")):
        rule = PolicyRule(decision=decision, priority=950, tool_names=(tool,))
        save_rule(rule, saved)
    write(saved.with_name("own.toml"), ALLOW_WRITE.replace("write_file", "replace"))
    own = {rule.tool_names[0] for rule in gather(project).rules if rule.author == "user"}
    assert own == {"write_file", "glob", "replace"}
    off = gather(project, {"security": {"disableAlwaysAllow": True}})
    assert {rule.tool_names[0] for rule in off.rules if rule.author == "user"} == {
        "glob",
        "replace",
    }
    assert explain_policy("--tool", "write_file")[0] == "allow"


async def test_without_always_an_approval_holds_for_its_call_alone(project: Path) -> None:
    asked: list[str] = []

    def approve(request: Any) -> ToolConfirmationOutcome:
        asked.append(request.tool_name)
        return ToolConfirmationOutcome.PROCEED_ALWAYS

    async def prompts(settings: dict[str, Any]) -> int:
        asked.clear()
        calls = [
            turn(call("save_memory", {"fact": f"fact {number}"}, id=str(number)))
            for number in range(2)
        ]
        generator = ScriptedGenerator(*calls, [text("ok")])
        given = {"generator": generator, "settings": settings_of(settings, "test")}
        async with scripted_agent(approve=approve, **given) as agent:
            await agent.ask("go")
        return len(asked)

    assert await prompts({}) == 1
    assert await prompts({"security": {"disableAlwaysAllow": True}}) == 2


async def test_a_model_is_not_told_of_tools_that_settings_leave_out(project: Path) -> None:
    generator = ScriptedGenerator(turn(call("ls", {"path": "."}, id="1")), [text("ok")])
    settings = settings_of({"tools": {"core": ["read_file", "glob"], "exclude": ["glob"]}}, "test")
    given = {"generator": generator, "settings": settings}
    async with scripted_agent(**given) as agent:
        await agent.ask("go")
    declared = set(generator.requests[0].config.function_names())
    assert declared & BUILT_IN == {"read_file"}
    (part,) = generator.seen(1)[-1]["parts"]
    assert 'Tool "ls" not found' in part["functionResponse"]["response"]["error"]


async def test_a_trusted_workspaces_policy_holds_in_a_run(workspace: Path) -> None:
    generator = ScriptedGenerator(turn(call("glob", {"pattern": "*"}, id="1")), [text("ok")])
    given = {"generator": generator, "skip_trust": True}
    async with scripted_agent(**given) as agent:
        assert agent.toolset.notes == ()
        await agent.ask("go")
    assert "glob" not in generator.requests[0].config.function_names()
    async with scripted_agent(generator=generator) as agent:
        assert str(workspace.parent) in agent.toolset.notes[0]


def test_the_program_takes_allowed_tools_and_says_what_it_left_out(workspace: Path) -> None:
    arguments = json.dumps({"file_path": "new.txt", "content": "x"})
    denied = alhena("tools", "call", "write_file", arguments, "--json")
    assert denied.code == 54
    done = alhena("tools", "call", "write_file", arguments, "--allowed-tools", "write_file,x")
    assert (done.code, Path("new.txt").read_text(encoding="utf-8")) == (0, "x")
    wrong = alhena("tools", "list", "--allowed-tools", "write_file(x)")
    assert (wrong.code, "--allowed-tools: the entry" in wrong.err) == (52, True)
    forbidden = alhena("tools", "call", "glob", '{"pattern": "*"}', "--skip-trust", "--json")
    assert forbidden.json["error"]["type"] == "policy_violation"
    run = alhena("-m", "demo", "-p", "hi", "-d")
    assert (run.code, f"{workspace.parent} is not read" in run.err) == (0, True)
    assert "is not read" not in alhena("-m", "demo", "-p", "hi").err


def test_settings_that_cannot_be_meant_end_a_run_and_an_explanation(home: Path) -> None:
    bad = {"tools": {"exclude": ["run_shell_command(git"]}}
    write(home / ".gemini" / "settings.json", json.dumps(bad))
    for argv in (["policy", "explain", "--tool", "glob"], ["tools", "list"]):
        ran = alhena(*argv)
        assert (ran.code, ran.out) == (52, "")
        assert "tools.exclude: the entry 'run_shell_command(git'" in ran.err


def test_a_list_of_trusted_folders_that_cannot_be_read_is_an_error(
    project: Path, home: Path
) -> None:
    write(home / ".gemini" / "trustedFolders.json", "{")
    with pytest.raises(ConfigError, match="trustedFolders"):
        gather(project)
