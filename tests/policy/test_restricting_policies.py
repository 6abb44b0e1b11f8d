"""Policies that can only make things stricter."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.policy.engine import PolicyFilter, decide, tighten
from alhena.policy.model import (
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    strictness,
)
from tests.policy.support import ALLOW, ASK, DENY, SHELL, rule, rules, shell_rule

CONTEXT = PolicyContext()


def given_decision(outcome: PolicyOutcome) -> Decision:
    return Decision(outcome=outcome, reason="as the engine says")


def filter_of(*tables: dict[str, Any]) -> PolicyFilter:
    return PolicyFilter("the workspace (w)", rules(*tables))


def tighten_outcome(
    outcome: PolicyOutcome, call: PolicyCall, *tables: dict[str, Any], context: Any = CONTEXT
) -> Decision:
    return tighten(given_decision(outcome), call, [filter_of(*tables)], context)


GLOB = PolicyCall(names=("glob",), args={"pattern": "x"})


def command(text: str) -> PolicyCall:
    return PolicyCall(names=(SHELL,), args={"command": text})


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        (ALLOW, "deny", DENY),
        (ALLOW, "ask_user", ASK),
        (ASK, "deny", DENY),
        (ASK, "ask_user", ASK),
        (DENY, "ask_user", DENY),
        (ALLOW, "allow", ALLOW),
        (ASK, "allow", ASK),
        (DENY, "allow", DENY),
    ],
)
def test_the_stricter_outcome_counts(
    before: PolicyOutcome, wanted: str, after: PolicyOutcome
) -> None:
    assert tighten_outcome(before, GLOB, rule(wanted, toolName="glob")).outcome is after


def test_a_filter_says_nothing_of_what_no_rule_of_it_speaks_of() -> None:
    quiet = (rule("deny", toolName="read_file"), shell_rule("deny", commandPrefix="rm"))
    for call in (GLOB, command("ls"), command("ls | wc; echo $x")):
        decision = tighten_outcome(ALLOW, call, *quiet)
        assert (decision.outcome, decision.reason) == (ALLOW, "as the engine says")


def test_the_reason_names_the_file_and_what_it_would_have_been() -> None:
    decision = tighten_outcome(ALLOW, GLOB, rule("deny", toolName="glob", denyMessage="Not here."))
    assert decision.reason == (
        "denied by the user policy (test.toml, rule 1); "
        "without the policy of the workspace (w): allowed"
    )
    assert decision.deny_message == "Not here."


def test_one_part_of_a_command_is_enough_and_is_named() -> None:
    deny = shell_rule("deny", commandPrefix="rm")
    assert tighten_outcome(ALLOW, command("ls; rm x"), deny).parts == ("rm x",)
    ask = shell_rule("ask_user", commandPrefix="make")
    assert tighten_outcome(ALLOW, command("ls; make x; pwd"), ask).outcome is ASK


def test_an_allow_shields_from_weaker_rules_of_the_same_filter_only() -> None:
    shield = shell_rule("allow", 200, commandPrefix="git status")
    deny = shell_rule("deny", 100)
    assert tighten_outcome(ALLOW, command("git status"), shield, deny).outcome is ALLOW
    assert tighten_outcome(ALLOW, command("git push"), shield, deny).outcome is DENY
    assert tighten_outcome(ALLOW, command("git status; git push"), shield, deny).outcome is DENY
    both = [filter_of(shield), filter_of(deny)]
    assert tighten(given_decision(ALLOW), command("git status"), both, CONTEXT).outcome is DENY


def test_of_several_filters_the_strictest_counts_and_of_equals_the_first() -> None:
    ask, deny, again = (
        PolicyFilter(name, rules(rule(wanted, toolName="glob")))
        for name, wanted in (("a", "ask_user"), ("b", "deny"), ("c", "deny"))
    )
    decision = tighten(given_decision(ALLOW), GLOB, [ask, deny, again], CONTEXT)
    assert (decision.outcome, "policy of b" in decision.reason) == (DENY, True)


def test_where_nobody_can_be_asked_a_filters_question_is_a_refusal() -> None:
    alone = PolicyContext(interactive=False)
    decision = tighten_outcome(ALLOW, GLOB, rule("ask_user", toolName="glob"), context=alone)
    assert decision.outcome is DENY
    assert "cannot ask" in decision.reason
    assert tighten_outcome(ALLOW, GLOB, rule("deny", toolName="x"), context=alone).outcome is ALLOW


def test_a_tool_is_hidden_only_where_each_call_would_be_denied() -> None:
    whole = filter_of(rule("deny", toolName="glob"))
    some = filter_of(rule("deny", toolName="glob", argsPattern="x"))
    shielded = filter_of(shell_rule("allow", 9, commandPrefix="ls"), shell_rule("deny", 1))
    assert whole.excludes(("glob",), CONTEXT)
    assert not whole.excludes(("read_file",), PolicyContext(interactive=False))
    assert not some.excludes(("glob",), CONTEXT)
    assert not shielded.excludes((SHELL,), CONTEXT)


OUTCOMES = st.sampled_from(list(PolicyOutcome))
RULES = st.builds(
    lambda decision, priority, names, pattern: PolicyRule(
        decision=decision, priority=priority, tool_names=names, args_pattern=pattern
    ),
    OUTCOMES,
    st.integers(0, 999),
    st.sampled_from([(), ("*",), ("glob",), ("read_file",)]),
    st.sampled_from([None, "x", "y"]),
)


@given(OUTCOMES, st.lists(st.lists(RULES, max_size=4), max_size=3), st.booleans())
def test_no_filter_ever_makes_a_decision_laxer(
    before: PolicyOutcome, sources: list[list[PolicyRule]], interactive: bool
) -> None:
    context = PolicyContext(interactive=interactive)
    filters = [PolicyFilter(str(number), each) for number, each in enumerate(sources)]
    decision = tighten(given_decision(before), GLOB, filters, context)
    assert strictness(decision) >= strictness(given_decision(before))
    alone = [decide(GLOB, each, context) for each in sources]
    wanted = [item for item in alone if item.rule is not None]
    most = max([strictness(given_decision(before)), *map(strictness, wanted)])
    assert strictness(decision) == most
