"""Selection of the rule that decides a call."""

from itertools import permutations
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.policy.engine import PolicyEngine
from alhena.policy.model import PolicyCall, PolicyContext, PolicyOutcome, PolicyRule, Tier
from alhena.values import FieldError
from tests.policy.support import ALLOW, ASK, DENY, SHELL, ask, rule, rules, shell_rule

OUTCOMES = st.sampled_from(list(PolicyOutcome))
NAMES = st.sampled_from(["read_file", "glob", "*", "re*"])
RULES = st.lists(
    st.builds(
        lambda decision, priority, tier, name: PolicyRule(
            decision=decision, priority=priority, tier=tier, tool_names=(name,)
        ),
        OUTCOMES,
        st.integers(0, 999),
        st.sampled_from(list(Tier)),
        NAMES,
    ),
    max_size=12,
)


@pytest.mark.requirement("POL-01")
def test_the_matching_rule_of_highest_priority_decides() -> None:
    given_rules = rules(
        rule("deny", 10, toolName="*"),
        rule("allow", 30, toolName="read_file"),
        rule("ask_user", 20, toolName="read_file"),
        rule("deny", 999, toolName="write_file"),
    )
    for order in permutations(given_rules):
        decision = ask(order, "read_file")
        assert (decision.outcome, decision.rule) == (ALLOW, given_rules[1])
        assert ask(order, "glob").outcome is DENY


@pytest.mark.requirement("POL-01")
def test_a_rule_added_after_a_decision_decides_the_next_call() -> None:
    given_engine = PolicyEngine(rules(rule("deny", 10, toolName="x")))
    call, context = PolicyCall(names=("x",), args={}), PolicyContext()
    assert given_engine.decide(call, context).outcome is DENY
    given_engine.add_rule(*rules(rule("allow", 11, toolName="x")))
    assert given_engine.decide(call, context).outcome is ALLOW
    given_engine.add_rule(*rules(rule("deny", 9, toolName="x")))
    given_engine.add_rule(*rules(rule("deny", 11, toolName="x")))
    assert given_engine.decide(call, context).outcome is ALLOW


@pytest.mark.requirement("POL-01")
def test_a_call_that_no_rule_matches_is_asked_about() -> None:
    decision = ask(rules(rule("allow", toolName="read_file")), "new_tool")
    assert (decision.outcome, decision.rule) == (ASK, None)
    assert "no rule matches" in decision.reason
    assert "new_tool" in decision.reason


@given(RULES)
def test_the_winner_is_the_first_loaded_of_the_strongest(given_rules: list[PolicyRule]) -> None:
    decision = ask(tuple(given_rules), "read_file")
    matching = [r for r in given_rules if r.tool_names[0] in {"read_file", "*", "re*"}]
    if not matching:
        assert decision.rule is None
        return
    top = max(r.final_priority for r in matching)
    assert decision.rule is next(r for r in matching if r.final_priority == top)
    assert decision.outcome is max(matching, key=lambda r: r.final_priority).decision


@given(RULES, st.integers(0, 999), st.integers(0, 999))
def test_a_higher_tier_always_wins(below: list[PolicyRule], strong: int, weak: int) -> None:
    admin = rules(rule("deny", weak, toolName="*"), tier=Tier.ADMIN)
    user = rules(rule("allow", strong, toolName="read_file"), tier=Tier.USER)
    lower = tuple(r for r in below if r.tier < Tier.ADMIN)
    assert ask((*lower, *user, *admin), "read_file").outcome is DENY


def test_every_name_of_a_tool_is_matched() -> None:
    names = ("search_file_content", "grep", "GrepTool")
    for name in names:
        assert ask(rules(rule("deny", toolName=name)), names).outcome is DENY
    assert ask(rules(rule("deny", toolName=["x", "GrepTool"])), names).outcome is DENY
    assert ask(rules(rule("deny", toolName=["x", "grept", "gre"])), names).outcome is ASK
    assert ask(rules(rule("deny", toolName="GREP-TOOL")), names).outcome is DENY


@pytest.mark.requirement("POL-04")
def test_a_wildcard_covers_the_tools_of_one_server() -> None:
    for pattern in ("jira__*", "mcp_jira_*", "mcp_*"):
        given_rules = rules(rule("allow", toolName=pattern))
        names = ("search", "jira__search", "mcp_jira_search")
        assert ask(given_rules, names, server="jira").outcome is ALLOW
        assert ask(given_rules, "read_file").outcome is ASK
        if pattern != "mcp_*":
            other = ("search", "jira__x__search", "mcp_jira_x_search")
            assert ask(given_rules, other, server="jira_x").outcome is ASK
            assert ask(given_rules, ("jira__x__s",), server="jira__x").outcome is ASK
    assert ask(rules(rule("allow", toolName="jira__*")), "jira__search").outcome is ALLOW
    assert ask(rules(rule("allow", toolName="discovered_*")), "discovered_x").outcome is ALLOW


@pytest.mark.requirement("POL-04")
def test_a_server_name_alone_means_all_its_tools_and_with_a_tool_the_one() -> None:
    whole = rules(rule("deny", mcpName="my server"))
    names = ("search", "my_server__search", "mcp_my_server_search")
    assert ask(whole, names, server="my server").outcome is DENY
    assert ask(whole, names, server="other").outcome is ASK
    assert ask(whole, "search").outcome is ASK
    for tool in ("search", "my_server__search", "mcp_my_server_search"):
        one = rules(rule("allow", mcpName="my server", toolName=tool))
        assert ask(one, names, server="my server").outcome is ALLOW
        assert ask(one, names, server="other").outcome is ASK
        assert ask(one, ("list", "my_server__list"), server="my server").outcome is ASK
    assert ask(rules(rule("deny", mcpName="*")), names, server="x").outcome is DENY
    assert ask(rules(rule("deny", mcpName="jira")), ("jira__search",)).outcome is DENY


def test_a_server_cannot_borrow_the_name_of_an_allowed_tool() -> None:
    names = ("read_file", "evil__read_file", "mcp_evil_read_file")
    assert ask(rules(rule("allow", toolName="read_file")), names, server="evil").outcome is ASK
    assert ask(rules(rule("allow", toolName="read*")), names, server="evil").outcome is ASK
    assert ask(rules(rule("deny", toolName="read_file")), names, server="evil").outcome is DENY
    own = rules(rule("allow", toolName="evil__read_file"))
    assert ask(own, names, server="evil").outcome is ALLOW
    prefix = rules(shell_rule("allow", commandPrefix="git"))
    shell = (SHELL, f"evil__{SHELL}")
    assert ask(prefix, shell, {"command": "git x"}, server="evil").outcome is ASK


@pytest.mark.requirement("POL-05")
def test_an_arguments_pattern_is_searched_in_the_stable_json() -> None:
    pattern = rules(rule("deny", toolName="*", argsPattern='"command":"(git|npm)'))
    assert ask(pattern, "task", {"z": 1, "command": "npm i"}).outcome is DENY
    assert ask(pattern, "task", {"command": "pnpm i"}).outcome is ASK
    order = rules(rule("allow", toolName="t", argsPattern=r'^\{"a":1,"b":\[2,3\]\}$'))
    assert ask(order, "t", {"b": [2, 3], "a": 1}).outcome is ALLOW
    assert ask(order, "t", {"b": [2, 3], "a": 1, "c": 0}).outcome is ASK


@pytest.mark.requirement("POL-06")
@pytest.mark.parametrize("mode", ["default", "autoEdit", "yolo", "plan"])
def test_a_rule_holds_in_its_modes_and_without_modes_in_all(mode: str) -> None:
    bound = rules(rule("allow", toolName="x", modes=["autoEdit", "yolo"]))
    assert (ask(bound, "x", mode=mode).outcome is ALLOW) == (mode in {"autoEdit", "yolo"})
    assert ask(rules(rule("allow", toolName="x")), "x", mode=mode).outcome is ALLOW
    snake = rules(rule("allow", toolName="x", modes=["auto_edit"]))
    assert (ask(snake, "x", mode=mode).outcome is ALLOW) == (mode == "autoEdit")


@pytest.mark.requirement("POL-07")
def test_with_nobody_to_ask_asking_is_denying() -> None:
    asking = rules(rule("ask_user", toolName="x"), shell_rule("allow", commandPrefix="git"))
    for tool, args in (("x", {}), ("y", {}), (SHELL, {"command": "git a; b"})):
        assert ask(asking, tool, args).outcome is ASK
        decision = ask(asking, tool, args, interactive=False)
        assert decision.outcome is DENY
        assert "cannot ask" in decision.reason
    assert ask(asking, SHELL, {"command": "git a"}, interactive=False).outcome is ALLOW


@pytest.mark.requirement("POL-06", "POL-07")
def test_a_rule_can_be_bound_to_interactive_or_unattended_runs() -> None:
    bound = rules(
        rule("allow", toolName="x", interactive=True),
        rule("allow", toolName="y", interactive=False),
    )
    assert ask(bound, "x").outcome is ALLOW
    assert ask(bound, "y").outcome is ASK
    assert ask(bound, "x", interactive=False).outcome is DENY
    assert ask(bound, "y", interactive=False).outcome is ALLOW


def test_command_conditions_say_nothing_about_other_tools() -> None:
    bound = (
        PolicyRule(
            decision=DENY, priority=0, tier=Tier.ADMIN, tool_names=("*",), command_prefixes=("git",)
        ),
        PolicyRule(
            decision=DENY, priority=0, tier=Tier.ADMIN, tool_names=("*",), command_regex=".*"
        ),
    )
    assert ask(bound, "x", {"command": "git"}).rule is None


def test_a_pattern_that_takes_too_long_restricts_and_never_allows() -> None:
    slow = r"(?:(?:a+)+)+\d(?:b+)+$|^.*(?:(?:[ac]+)*[ab]*)*d$"
    args = {"text": "a" * 4000 + "bc" * 2000}
    for decision, outcome in (("allow", ASK), ("deny", DENY), ("ask_user", ASK)):
        assert (
            ask(rules(rule(decision, toolName="x", argsPattern=slow)), "x", args).outcome is outcome
        )
    many = rules(*[rule("allow", n, toolName="x", argsPattern=f"{slow}{n}") for n in range(200)])
    assert ask(many, "x", args).outcome is ASK


def test_arguments_without_json_form_are_never_allowed_by_a_pattern() -> None:
    args = {"a": object()}
    assert ask(rules(rule("allow", toolName="x", argsPattern=".")), "x", args).outcome is ASK
    assert ask(rules(rule("deny", toolName="x", argsPattern="z")), "x", args).outcome is DENY


def test_the_reason_names_the_tier_the_file_and_the_rule() -> None:
    decision = ask(rules(rule("deny", toolName="x", denyMessage="Not here.")), "x")
    assert decision.reason == "denied by the user policy (test.toml, rule 1)"
    assert decision.deny_message == "Not here."


def test_an_explanation_tells_what_a_pattern_matched_beside_the_command() -> None:
    allowed = rules(shell_rule("allow", argsPattern="git status"))
    decision = ask(allowed, SHELL, {"command": "rm x", "description": "git status"})
    assert decision.outcome is ASK
    assert "what its argsPattern matches is not what decides what runs" in decision.reason


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({}, "the call names no command"),
        ({"command": ["rm", "x"]}, "the command is not a text"),
        ({"command": None}, "the command is not a text"),
        ({"command": "rm\0x"}, "it contains a NUL character"),
    ],
)
def test_a_call_without_a_command_is_asked_about_and_says_so(
    args: dict[str, Any], reason: str
) -> None:
    for table in (shell_rule("ask_user"), shell_rule("allow")):
        decision = ask(rules(table), SHELL, args)
        assert decision.outcome is ASK
    both = rules(shell_rule("ask_user", 10), shell_rule("allow", commandPrefix="rm"))
    decision = ask(both, SHELL, args)
    assert decision.outcome is ASK
    assert reason in decision.reason


@pytest.mark.parametrize("text", ["", " ", "("])
@pytest.mark.parametrize("field", ["command_regex", "args_pattern"])
def test_a_rule_with_a_broken_pattern_is_refused(field: str, text: str) -> None:
    with pytest.raises(FieldError, match="Rule"):
        PolicyRule(decision=ALLOW, priority=1, **cast("dict[str, Any]", {field: text}))


def test_names_of_a_rule_are_trimmed_and_not_empty() -> None:
    assert (
        ask((PolicyRule(decision=DENY, priority=1, tool_names=(" pay ",)),), "pay").outcome is DENY
    )
    with pytest.raises(FieldError, match="Rule"):
        PolicyRule(decision=DENY, priority=1, tool_names=("pay", " "))


@pytest.mark.parametrize("name", ["*__search", "mcp_*_search", "se*ch", "**"])
def test_a_rule_with_a_wildcard_that_is_not_at_the_end_of_a_name_is_refused(name: str) -> None:
    with pytest.raises(FieldError, match="not at its end"):
        PolicyRule.allow(name)
