"""`[[safety_checker]]` tables: what loads, and what is said of the rest."""

import pytest

from alhena.policy.checker import CheckerType, ContextPart
from alhena.policy.load import LoadedPolicies, ProblemLevel, load_text
from alhena.policy.model import ApprovalMode, Tier
from tests.policy.safety.kit import ALLOW, external, table
from tests.support.each import for_each

RULE = '[[rule]]\ntoolName = "x"\ndecision = "allow"\npriority = 1\n'


def load(source: str, tier: Tier = Tier.USER) -> LoadedPolicies:
    return load_text(source, file="p.toml", tier=tier)


@pytest.mark.requirement("POL-10")
def test_every_field_of_a_checker_is_read() -> None:
    loaded = load(
        """
        # [[safety_checker]]
        [[rule]]
        toolName = "x"
        decision = "allow"
        priority = 1

        [[safety_checker]]
        toolName = ["write_file", "replace"]
        argsPattern = '"file_path":"src/'
        priority = 7
        modes = ["autoEdit", "yolo"]
        interactive = true
        description = "Keeps to the sources."
        [safety_checker.checker]
        type = "in-process"
        name = "allowed-path"
        required_context = ["environment"]
        [safety_checker.checker.config]
        included_args = ["to"]
        excluded_args = ["from"]

        [[safety_checker]]
        commandPrefix = "git push"
        [safety_checker.checker]
        type = "external"
        name = "ask-the-team-2"
        config = { level = 3, names = ["a"] }
        """
    )
    assert loaded.problems == ()
    assert [rule.decision for rule in loaded.rules] == [ALLOW]
    one, two = loaded.checkers
    assert (one.name, one.type, one.number) == ("allowed-path", CheckerType.IN_PROCESS, 1)
    assert one.rule.tool_names == ("write_file", "replace")
    assert one.rule.args_pattern == '"file_path":"src/'
    assert one.rule.final_priority == pytest.approx(2.007)
    assert one.rule.modes == (ApprovalMode.AUTO_EDIT, ApprovalMode.YOLO)
    assert one.rule.interactive
    assert one.required_context == (ContextPart.ENVIRONMENT,)
    assert one.config == {"included_args": ["to"], "excluded_args": ["from"]}
    assert (one.rule.file, one.rule.line) == ("p.toml", 8)
    assert one.label == 'the safety checker "allowed-path" (p.toml:8, safety_checker 1)'
    assert (two.name, two.type) == ("ask-the-team-2", CheckerType.EXTERNAL)
    assert (two.rule.command_prefixes, two.rule.final_priority) == (("git push",), 2)
    assert (two.required_context, two.config) == (None, {"level": 3, "names": ["a"]})
    assert two.rule.line == 23


BAD = [
    ("[[safety_checker]]\n", "checker", "is missing"),
    ("[[safety_checker]]\nchecker = 3\n", "checker", "is no table"),
    ("[[safety_checker]]\nchecker = {name = 'a'}\n", "checker.type", "is missing"),
    (table(type="internal"), "checker.type", "'internal'"),
    ("[[safety_checker]]\nchecker = {type = []}\n", "checker.type", "[]"),
    ("[[safety_checker]]\nchecker = {type = 'external'}\n", "checker.name", "is missing"),
    (table("conseca"), "checker.name", "names no checker of this program: 'conseca'"),
    (external("../x"), "checker.name", "'../x'"),
    (external("Upper"), "checker.name", "'Upper'"),
    (external(""), "checker.name", "''"),
    (external("a\\n"), "checker.name", "'a\\n'"),
    (table(checker_required_context="{a = 1}"), "checker.required_context", "cannot be"),
    (table(checker_required_context='["weather"]'), "checker.required_context", "weather"),
    (table(checker_required_context="[{}]"), "checker.required_context", "{}"),
    (table(checker_config="3"), "checker.config", "cannot be 3"),
    (table(checker_config="{included_args = {a = 1}}"), "checker.config", "included_args"),
    (table(checker_config="{include = ['x']}"), "checker.config", "include"),
    (table(checker_timeout="3"), "checker.timeout", "is no field"),
    (table(priority="1000"), "priority", "1000"),
    (table(priority="-1"), "priority", "-1"),
    (table(priority="1.5"), "priority", "1.5"),
    (table(priority="true"), "priority", "True"),
    (table(argsPattern="'('"), "argsPattern", "no"),
    (table(modes='["fast"]'), "modes", "fast"),
    (table(toolName='""'), "toolName", "cannot be"),
    (table(toolName='"x"', commandPrefix='"git"'), "toolName", "commandPrefix"),
]


@pytest.mark.requirement("POL-10")
@for_each(("source", "field", "reason"), BAD)
def test_a_checker_that_cannot_be_used_is_named_and_no_run_goes_on_without_it(
    source: str, field: str, reason: str
) -> None:
    loaded = load(f"{table()}{source}{RULE}{external('good')}")
    assert [checker.name for checker in loaded.checkers] == ["allowed-path", "good"]
    assert len(loaded.rules) == 1
    (problem,) = loaded.problems
    assert (problem.table, problem.rule, problem.field) == ("safety_checker", 2, field)
    assert reason in problem.message
    assert (problem.level, problem.weakens) == (ProblemLevel.ERROR, True)
    assert problem.remedy
    assert str(problem).startswith(f"p.toml:5: safety_checker 2, {field} ")


@pytest.mark.parametrize("source", ["safety_checker = 3\n", "[safety_checker]\ntoolName='x'\n"])
def test_checkers_that_are_no_array_of_tables_are_one_problem(source: str) -> None:
    (problem,) = load(source).problems
    assert (problem.is_error, problem.weakens) == (True, True)
    assert "[[safety_checker]]" in problem.message


def test_an_entry_that_is_no_table_is_a_problem() -> None:
    (problem,) = load("safety_checker = [3]\n").problems
    assert (problem.rule, problem.message, problem.line) == (1, "is no table", None)


def test_a_key_that_is_no_condition_is_a_warning_and_the_checker_looks_at_more() -> None:
    loaded = load(table(toolName='"x"', toolAnnotations="{readOnlyHint = true}"))
    (problem,) = loaded.problems
    assert (problem.field, problem.level) == ("toolAnnotations", ProblemLevel.WARNING)
    assert len(loaded.checkers) == 1


def test_a_misspelt_table_says_what_it_should_be() -> None:
    (problem,) = load("[[safety_checkers]]\nx = 1\n").problems
    assert problem.remedy == "Write [[safety_checker]]."
