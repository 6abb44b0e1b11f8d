"""Policy files: what loads, and what is said of the rest."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.policy.load import ProblemLevel, load_directory, load_file, load_tables, load_text
from alhena.policy.model import ApprovalMode, CommandClass, PolicyOutcome, Tier
from tests.support.each import for_each

GOOD = '[[rule]]\ntoolName = "x"\ndecision = "deny"\npriority = 1\n'


def text(source: str) -> Any:
    return load_text(source, file="p.toml", tier=Tier.USER)


@pytest.mark.requirement("POL-02")
def test_every_documented_field_is_read() -> None:
    loaded = text(
        """
        [[rule]]
        toolName = ["read_file", "glob"]
        argsPattern = '"path":"src/'
        decision = "allow"
        priority = 7
        modes = ["autoEdit", "auto_edit", "plan"]
        interactive = false

        [[rule]]
        mcpName = "jira"
        decision = "ask_user"
        priority = 0

        [[rule]]
        commandPrefix = ["git ", "npm test"]
        decision = "allow"
        priority = 999
        allow_redirection = true

        [[rule]]
        toolName = "ShellTool"
        commandRegex = "^git (commit|push)"
        decision = "deny"
        priority = 10
        denyMessage = "Ask first."

        [[rule]]
        toolName = "shell"
        commandClass = "read-only"
        decision = "allow"
        priority = 1

        [[rule]]
        toolName = "*"
        paths = ["/secrets/", "*.pem", "!test.pem"]
        decision = "deny"
        priority = 1
        """
    )
    assert loaded.problems == ()
    one, two, three, four, five, six = loaded.rules
    assert one.tool_names == ("read_file", "glob")
    assert one.args_pattern == '"path":"src/'
    assert one.modes == (ApprovalMode.AUTO_EDIT, ApprovalMode.PLAN)
    assert (one.interactive, one.decision) == (False, PolicyOutcome.ALLOW)
    assert (two.mcp_name, two.tool_names) == ("jira", ())
    assert three.command_prefixes == ("git ", "npm test")
    assert three.tool_names == ("run_shell_command",)
    assert three.allow_redirection
    assert (four.command_regex, four.deny_message) == ("^git (commit|push)", "Ask first.")
    assert (five.command_class, five.tool_names) == (CommandClass.READ_ONLY, ("shell",))
    assert six.paths == ("/secrets/", "*.pem", "!test.pem")
    assert (four.source, four.file, four.line, four.author) == (
        "p.toml:21, rule 4", "p.toml", 21, "user",
    )  # fmt: skip


@pytest.mark.requirement("POL-03")
def test_the_final_priority_is_the_tier_and_a_thousandth_of_the_priority() -> None:
    for tier, base in ((Tier.DEFAULT, 1), (Tier.USER, 2), (Tier.ADMIN, 3)):
        for priority in (0, 20, 50, 999):
            table = {"toolName": "x", "decision": "deny", "priority": priority}
            loaded = load_tables([table], file="f", tier=tier)
            assert loaded.rules[0].final_priority == pytest.approx(
                base + priority / 1000, abs=1e-12
            )


BAD = [
    ({"decision": None}, "decision"),
    ({"decision": "ALLOWED"}, "decision"),
    ({"decision": ["deny"]}, "decision"),
    ({"priority": None}, "priority"),
    ({"priority": -1}, "priority"),
    ({"priority": 1000}, "priority"),
    ({"priority": 1.5}, "priority"),
    ({"priority": True}, "priority"),
    ({"priority": "1st"}, "priority"),
    ({"toolName": None}, "toolName"),
    ({"toolName": ""}, "toolName"),
    ({"toolName": []}, "toolName"),
    ({"toolName": ["x", " "]}, "toolName"),
    ({"toolName": 3}, "toolName"),
    ({"toolName": "mcp_*_search"}, "toolName"),
    ({"mcpName": ""}, "mcpName"),
    ({"argsPattern": "("}, "argsPattern"),
    ({"argsPattern": "a" * 2049}, "argsPattern"),
    ({"commandPrefix": "git"}, "toolName"),
    ({"commandPrefix": " ", "toolName": None}, "commandPrefix"),
    ({"commandPrefix": [], "toolName": None}, "commandPrefix"),
    ({"commandPrefix": "a", "commandRegex": "b", "toolName": None}, "commandRegex"),
    ({"commandPrefix": "a", "mcpName": "s", "toolName": None}, "commandPrefix"),
    ({"commandRegex": "[", "toolName": None}, "commandRegex"),
    ({"modes": ["fast"]}, "modes"),
    ({"modes": "turbo"}, "modes"),
    ({"modes": []}, "modes"),
    ({"interactive": "perhaps"}, "interactive"),
    ({"allowRedirection": 2}, "allowRedirection"),
    ({"allowRedirection": True, "allow_redirection": True}, "allowRedirection"),
    ({"denyMessage": 1}, "denyMessage"),
    ({"commandClass": "safe", "toolName": None}, "commandClass"),
    ({"commandClass": ["read-only"], "toolName": None}, "commandClass"),
    ({"commandClass": "read-only"}, "toolName"),
    ({"commandClass": "read-only", "commandPrefix": "ls", "toolName": None}, "commandClass"),
    ({"commandClass": "read-only", "commandRegex": "ls", "toolName": None}, "commandClass"),
    ({"commandClass": "read-only", "mcpName": "s", "toolName": None}, "commandClass"),
    (
        {"commandClass": "read-only", "allowRedirection": True, "toolName": None},
        "allowRedirection",
    ),
    ({"paths": []}, "paths"),
    ({"paths": 3}, "paths"),
    ({"paths": ["a", ""]}, "paths"),
    ({"paths": ["a\nb"]}, "paths"),
    ({"paths": ["# all"]}, "paths"),
    ({"paths": ["!a", "b"]}, "paths"),
    ({"paths": ["a"], "toolName": "shell", "decision": "allow"}, "paths"),
]


@pytest.mark.requirement("POL-02")
@for_each(("change", "field"), BAD)
def test_a_bad_rule_is_named_by_file_rule_and_field_and_the_others_load(
    change: dict[str, Any], field: str
) -> None:
    good = {"toolName": "x", "decision": "deny", "priority": 1}
    bad = {k: v for k, v in {**good, **change}.items() if v is not None}
    loaded = load_tables([good, bad, good], file="p.toml", tier=Tier.USER)
    assert len(loaded.rules) == 2
    (problem,) = loaded.problems
    assert (problem.file, problem.rule, problem.field) == ("p.toml", 2, field)
    assert problem.level is ProblemLevel.ERROR
    assert problem.message
    assert problem.remedy
    assert problem.remedy.endswith(".")
    assert str(problem) == f"p.toml: rule 2, {field} {problem.message}. {problem.remedy}"
    assert problem.weakens is (bad.get("decision") != "allow")


def test_a_problem_knows_the_line_of_its_rule() -> None:
    loaded = text(f"# head\n\n{GOOD}\n[[ rule ]]  # bad\ntoolName = 'x'\n")
    assert str(loaded.problems[0]).startswith("p.toml:8: rule 2, decision is missing")
    hidden = text(f"{GOOD}denyMessage = '''\n[[rule]]\n'''\n[[rule]]\n")
    assert (hidden.problems[0].rule, hidden.problems[0].line) == (2, None)
    inline = text("rule = [{toolName = 'x'}]\n")
    assert (inline.problems[0].rule, inline.problems[0].line) == (1, None)


def test_an_unknown_key_is_a_warning_and_the_rule_loads() -> None:
    for decision in ("allow", "deny"):
        loaded = text(f'[[rule]]\ntoolName="x"\ndecision="{decision}"\npriority=1\nreviewed=true\n')
        assert len(loaded.rules) == 1
        (problem,) = loaded.problems
        assert (problem.level, problem.field) == (ProblemLevel.WARNING, "reviewed")
    assert text(GOOD + 'description = "why"\n').problems == ()


def test_an_allow_whose_condition_is_misspelt_does_not_become_broader() -> None:
    for key in ("commandPrefx", "command_prefix", "ArgsPattern", "mode", "toolAnnotations"):
        table = {"toolName": "run_shell_command", "decision": "allow", "priority": 1, key: "git"}
        loaded = load_tables([table], file="p.toml", tier=Tier.USER)
        assert loaded.rules == ()
        assert (loaded.problems[0].level, loaded.problems[0].field) == (ProblemLevel.ERROR, key)
        denied = load_tables([{**table, "decision": "deny"}], file="p.toml", tier=Tier.USER)
        assert len(denied.rules) == 1
        assert denied.problems[0].level is ProblemLevel.WARNING


@pytest.mark.parametrize(
    ("written", "field", "remedy"),
    [
        ('[rule.safety_checker]\ntype="in-process"\nname="allowed-path"', "safety_checker",
         "Write a [[safety_checker]] of its own"),
        ("enabled=false", "enabled", "Remove the rule if it is not to hold"),
        ("disabled=true", "disabled", "Remove the rule"),
        ('unless="main"', "unless", "Correct the key"),
        ('[rule.when]\nbranch="main"', "when", "Correct the key"),
    ],
)  # fmt: skip
def test_an_allow_with_a_limit_that_is_unknown_does_not_stand(
    written: str, field: str, remedy: str
) -> None:
    rule = '[[rule]]\ntoolName="write_file"\ndecision="{}"\npriority=1\n' + written
    loaded = text(rule.format("allow"))
    assert loaded.rules == ()
    (problem,) = loaded.problems
    assert (problem.is_error, problem.field, problem.weakens) == (True, field, False)
    assert "would allow more than it says" in problem.message
    assert (problem.remedy or "").startswith(remedy)
    for decision in ("deny", "ask_user"):
        restricting = text(rule.format(decision))
        assert len(restricting.rules) == 1
        assert [each.level for each in restricting.problems] == [ProblemLevel.WARNING]


def test_a_prefix_that_can_allow_nothing_is_pointed_out() -> None:
    loaded = text('[[rule]]\ncommandPrefix="eval make"\ndecision="allow"\npriority=1\n')
    assert len(loaded.rules) == 1
    assert loaded.problems[0].level is ProblemLevel.WARNING
    assert "'eval make' allows nothing" in loaded.problems[0].message


@pytest.mark.requirement("POL-02")
@pytest.mark.parametrize(
    "source",
    ["[[rule]", "rule = 1", "[rule]\ntoolName='x'", "a = " + "[" * 5000, "[[rule]]\nx = 1\nx = 2"],
)
def test_a_file_that_is_no_policy_is_one_problem(source: str) -> None:
    loaded = text(source)
    assert loaded.rules == ()
    (problem,) = loaded.problems
    assert (problem.file, problem.level) == ("p.toml", ProblemLevel.ERROR)


def test_tables_that_are_not_rules_are_never_passed_over_in_silence() -> None:
    loaded = text(f"{GOOD}\n[[rules]]\ntoolName='y'\n[[checkers]]\ntoolName='*'\n")
    assert len(loaded.rules) == 1
    assert [problem.field for problem in loaded.problems] == ["rules", "checkers"]
    assert all("[[rule]]" in str(problem.remedy) for problem in loaded.problems)


@given(st.text(max_size=40))
def test_any_text_is_rules_and_problems_and_never_a_crash(source: str) -> None:
    text(source)
    text(GOOD + source)


@pytest.mark.requirement("POL-03")
def test_all_toml_files_of_a_directory_are_combined_by_name(project: Path) -> None:
    for name, tool in (("b.toml", "second"), ("a.toml", "first"), ("c.txt", "no")):
        (project / name).write_text(GOOD.replace('"x"', f'"{tool}"'), encoding="utf-8")
    loaded = load_directory(project, Tier.USER)
    assert [r.tool_names[0] for r in loaded.rules] == ["first", "second"]
    assert load_directory(project / "missing", Tier.USER).problems == ()


@pytest.mark.requirement("POL-02")
def test_what_cannot_be_read_is_a_problem_and_the_other_files_load(project: Path) -> None:
    (project / "good.toml").write_text("\ufeff" + GOOD, encoding="utf-8")
    (project / "latin.toml").write_bytes(b"# caf\xe9\n" + GOOD.encode())
    (project / "large.toml").write_bytes(b"#" * (1024 * 1024 + 1))
    (project / "folder.toml").mkdir()
    (project / "gone.toml").symlink_to(project / "nowhere")
    (project / "loop.toml").symlink_to(project / "loop.toml")
    os.mkfifo(project / "pipe.toml")
    loaded = load_directory(project, Tier.USER)
    assert len(loaded.rules) == 1
    assert {Path(problem.file).name for problem in loaded.problems} == {
        "latin.toml", "large.toml", "folder.toml", "gone.toml", "loop.toml", "pipe.toml"
    }  # fmt: skip
    assert all(problem.level is ProblemLevel.ERROR for problem in loaded.problems)
    assert all(problem.remedy for problem in loaded.problems)


def test_a_named_file_that_is_missing_is_a_problem(project: Path) -> None:
    loaded = load_file(project / "no.toml", Tier.USER)
    assert "No such file" in loaded.problems[0].message
