"""Looking rules up by program decides as trying them all does."""

import pytest

from alhena.policy.conditions import ActiveRules, RuleCandidate
from alhena.policy.engine import decide_among
from alhena.policy.model import Decision, PolicyCall, PolicyContext, PolicyRule
from alhena.shell.parse.model import Part
from tests.policy.corpus import Line, adversarial, everyday, profiles
from tests.policy.support import SHELL, rules, shell_rule

MANY = rules(
    shell_rule("deny", 800, commandPrefix=["npm publish", "git push --force", "rm -rf"]),
    shell_rule("allow", 700, commandPrefix=["git status", "GIT_PAGER=cat git log", "env A=1 git"]),
    shell_rule("ask_user", 600, commandPrefix=["npm test", "./npm", "Git", "evil", "'a b' c"]),
    shell_rule("allow", 500, commandPrefix=["npm", "npm test", "find . -name", "cat $x", "> x"]),
    shell_rule("deny", 450, commandRegex="git (push|fetch)"),
    shell_rule("allow", 400, commandPrefix="ls", paths=["src/**"]),
    shell_rule("allow", 300, commandClass="read-only"),
    shell_rule("ask_user", 200, commandClass="read-only"),
    shell_rule("allow", 100, commandPrefix=["echo", "sort a.txt", "sed -n", "xargs evil"]),
    shell_rule("allow", 50),
)


class AllRules(ActiveRules):
    """Takes every rule for one that may be meant."""

    def about(self, programs: frozenset[str | None]) -> list[RuleCandidate]:
        return super().candidates_for(programs | {None})

    def deciding(self, programs: frozenset[str | None], part: Part) -> list[PolicyRule]:
        del programs, part
        return self.rules


@pytest.mark.parametrize("given", [MANY, profiles()["prefixes"], profiles()["yolo"]])
def test_a_decision_does_not_depend_on_how_the_rules_are_found(
    given: tuple[PolicyRule, ...],
) -> None:
    ordered = sorted(given, key=lambda rule: -rule.final_priority)
    looked_up, tried = ActiveRules(ordered), AllRules(ordered)
    for line in everyday() + adversarial():
        assert decide_line(looked_up, line) == decide_line(tried, line), line.command


def decide_line(active: ActiveRules, line: Line) -> Decision:
    call = PolicyCall(names=(SHELL,), args={"command": line.command})
    return decide_among(call, active, PolicyContext())


def test_rules_for_other_programs_and_other_subcommands_are_passed_over() -> None:
    active = ActiveRules(sorted(MANY, key=lambda rule: -rule.final_priority))
    everything = active.candidates_for(frozenset({None}))
    assert [each.rule for each in everything] == active.rules
    about_ls = [each.rule.priority for each in active.candidates_for(frozenset({"ls"}))]
    assert about_ls == [500, 450, 400, 300, 200, 50]
