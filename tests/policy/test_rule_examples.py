"""The examples beside a rule: a rule that does not keep them does not hold."""

from typing import Any

from alhena.policy.load import LoadedPolicies, ProblemLevel, load_tables
from alhena.policy.model import Tier
from tests.policy.support import rule, shell_rule
from tests.support.each import for_each


def load(table: dict[str, Any]) -> LoadedPolicies:
    return load_tables([table], file="p.toml", tier=Tier.USER, lines=[7])


KEPT = [
    shell_rule("allow", commandPrefix="git status", match="git status -s", not_match="git push"),
    shell_rule("allow", commandPrefix="git", not_match=["git log > x", "env git log", "$(git)"]),
    shell_rule("deny", commandPrefix="rm", match=["rm x", "ls; rm x", "sudo rm x"]),
    shell_rule("deny", commandRegex="git (push|pull)", not_match="git log"),
    shell_rule("ask_user", commandPrefix="make", match="make all", not_match="ls"),
    shell_rule("deny", match="ls", modes=["plan"]),
    shell_rule("ask_user", match="ls", interactive=False),
    shell_rule(
        "deny", match="ls", modes=["yolo"], not_match={"args": {"command": "ls"}, "mode": "plan"}
    ),
    rule("deny", toolName="write_file", argsPattern=r"\.lock", match='{"file_path": "a.lock"}'),
    rule("deny", toolName="write_file", argsPattern=r"\.lock", not_match="{}"),
    rule("allow", toolName=["glob", "ls"], match=[{"tool": "ls"}, {"tool": "glob", "args": {}}]),
    rule("allow", toolName="*", match={"tool": "anything"}),
    rule("allow", mcpName="jira", match={"tool": "search"}, not_match={"tool": "x", "server": "y"}),
    rule("deny", mcpName="*", toolName="search", match={"tool": "search", "server": "s"}),
    rule("allow", toolName="jira__*", match={"tool": "find", "server": "jira"}),
    rule("allow", toolName="jira__*", not_match={"tool": "find", "server": "other"}),
    rule("deny", toolName="*", interactive=True, not_match={"tool": "x", "interactive": False}),
    rule("deny", toolName="write_file", paths="secrets/", match='{"file_path": "secrets/a"}'),
    rule("deny", toolName="write_file", paths="*.pem", not_match='{"file_path": "a.txt"}'),
]


@for_each("table", KEPT)
def test_a_rule_that_keeps_its_examples_loads(table: dict[str, Any]) -> None:
    loaded = load(table)
    assert loaded.problems == ()
    assert len(loaded.rules) == 1
    assert loaded.reports[0].examples == sum(
        len(table[key]) if isinstance(table.get(key), list) else key in table
        for key in ("match", "not_match")
    )


BROKEN = [
    (shell_rule("allow", commandPrefix="git", match="git log > x"), "match", "ask_user"),
    (shell_rule("allow", commandPrefix="git", match="git log; ls"), "match", "git log; ls"),
    (shell_rule("allow", commandPrefix="git", not_match="git log"), "not_match", "matches"),
    (shell_rule("deny", commandPrefix="git pull", match="git push"), "match", "git push"),
    (shell_rule("deny", commandPrefix="rm", not_match="ls && rm x"), "not_match", "part 'rm x'"),
    (shell_rule("deny", commandRegex="git psh", match="git push"), "match", "git push"),
    (rule("deny", toolName="write_file", argsPattern="lok", match='{"a":"lock"}'), "match", "lock"),
    (rule("allow", toolName="glob", match={"tool": "read_file"}), "match", "read_file"),
    (rule("allow", toolName="glob", not_match={"tool": "glob"}), "not_match", "matches"),
    (rule("allow", mcpName="a", match={"tool": "x", "server": "b"}), "match", '"b"'),
]


@for_each(("table", "field", "said"), BROKEN)
def test_a_rule_that_breaks_an_example_is_dropped_and_the_example_named(
    table: dict[str, Any], field: str, said: str
) -> None:
    loaded = load(table)
    assert loaded.rules == ()
    (problem,) = loaded.problems
    assert (problem.file, problem.line, problem.rule) == ("p.toml", 7, 1)
    assert (problem.field, problem.level) == (field, ProblemLevel.ERROR)
    assert said in problem.message
    assert "\n" not in problem.message
    assert problem.remedy == "Correct the rule or the example."
    assert problem.weakens is (table["decision"] != "allow")


UNREADABLE = [
    (rule("deny", toolName="glob", match="not JSON"), "not a JSON object"),
    (rule("deny", toolName="glob", match="[]"), "not a JSON object"),
    (rule("deny", toolName="glob", match=["\ud800"]), "not a JSON object"),
    (rule("deny", toolName="glob", match=3), "neither a string nor a table"),
    (rule("deny", toolName="*", match="{}"), "which tool"),
    (rule("deny", toolName="jira__*", match="{}"), "which tool"),
    (rule("deny", mcpName="jira", match="{}"), "which tool"),
    (rule("deny", toolName="glob", match={"tool": 3}), "tool cannot be 3"),
    (rule("deny", toolName="glob", match={"args": "x"}), "args cannot be 'x'"),
    (rule("deny", toolName="glob", match={"mode": "fast"}), "'fast'"),
    (rule("deny", toolName="glob", match={"interactive": "perhaps"}), "cannot be 'perhaps'"),
    (rule("deny", toolName="glob", match={"path": "x"}), "'path'"),
]


@for_each(("table", "said"), UNREADABLE)
def test_an_example_that_is_none_is_an_error_with_a_remedy(
    table: dict[str, Any], said: str
) -> None:
    loaded = load(table)
    assert loaded.rules == ()
    (problem,) = loaded.problems
    assert problem.field == "match"
    assert said in problem.message
    assert problem.remedy


def test_the_other_rules_of_a_file_load_beside_one_that_breaks_its_example() -> None:
    good = rule("deny", toolName="x")
    bad = rule("allow", toolName="glob", not_match={"tool": "glob"})
    loaded = load_tables([good, bad, good], file="p.toml", tier=Tier.USER)
    assert len(loaded.rules) == 2
    assert [report.rule is None for report in loaded.reports] == [False, True, False]
