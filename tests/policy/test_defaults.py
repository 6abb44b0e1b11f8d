"""The packaged policies, mode by mode, and what need not be declared."""

import pytest

from alhena.policy.engine import PolicyEngine, always_rule
from alhena.policy.gather import load_policies
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    Tier,
)
from alhena.tools.registry import all_names
from tests.policy.support import ALLOW, ASK, DENY, SHELL, rule, rules, shell_rule
from tests.support.each import for_each

READING = [
    *("read_file", "read_many_files", "list_directory", "glob", "search_file_content"),
    *("google_web_search", "get_internal_docs", "write_todos", "delegate_to_agent"),
]
EDITING = ["write_file", "replace", "smart_edit"]
ACTING = [*EDITING, SHELL, "web_fetch", "save_memory"]
MODES = list(ApprovalMode)


def engine(*tables: dict[str, object]) -> PolicyEngine:
    loaded = load_policies(None)
    assert loaded.problems == ()
    return PolicyEngine((*loaded.rules, *rules(*tables)))


def decide_by_default(
    given: PolicyEngine, tool: str, mode: ApprovalMode, *, interactive: bool = True, **args: str
) -> Decision:
    call = PolicyCall(names=all_names(tool), args=args)
    return given.decide(call, PolicyContext(mode=mode, interactive=interactive))


@pytest.mark.requirement("POL-08")
@pytest.mark.parametrize("tool", READING)
def test_reading_and_delegating_are_allowed_in_every_mode(tool: str) -> None:
    for mode in MODES:
        assert decide_by_default(engine(), tool, mode).outcome is ALLOW
        assert decide_by_default(engine(), tool, mode, interactive=False).outcome is ALLOW


@pytest.mark.requirement("POL-08")
@pytest.mark.parametrize("tool", ACTING)
def test_acting_is_asked_about_and_denied_when_nobody_can_be_asked(tool: str) -> None:
    assert decide_by_default(engine(), tool, ApprovalMode.DEFAULT).outcome is ASK
    assert (
        decide_by_default(engine(), tool, ApprovalMode.DEFAULT, interactive=False).outcome is DENY
    )


@pytest.mark.requirement("POL-08")
@pytest.mark.parametrize("tool", ACTING)
def test_auto_edit_allows_edits_and_nothing_more(tool: str) -> None:
    expected = ALLOW if tool in EDITING else ASK
    assert decide_by_default(engine(), tool, ApprovalMode.AUTO_EDIT).outcome is expected


@pytest.mark.requirement("POL-08")
def test_yolo_allows_all_even_redirections() -> None:
    for tool in (*READING, *ACTING, "some_new_tool"):
        assert (
            decide_by_default(engine(), tool, ApprovalMode.YOLO, interactive=False).outcome is ALLOW
        )
    for command in ("echo a > f", "a | sh", "$(x)"):
        assert (
            decide_by_default(engine(), SHELL, ApprovalMode.YOLO, command=command).outcome is ALLOW
        )
        assert (
            decide_by_default(engine(), SHELL, ApprovalMode.DEFAULT, command=command).outcome is ASK
        )


@pytest.mark.requirement("POL-08")
@pytest.mark.parametrize("mode", MODES)
def test_a_command_that_only_reads_runs_unasked_in_every_mode(mode: ApprovalMode) -> None:
    for command in ("ls -la", "git log | head -3", "grep -rn x src"):
        done = decide_by_default(engine(), SHELL, mode, interactive=False, command=command)
        assert done.outcome is ALLOW


@pytest.mark.requirement("POL-08")
def test_plan_mode_only_reads_and_says_so() -> None:
    for tool in (*EDITING, SHELL, "save_memory", "some_new_tool"):
        decision = decide_by_default(engine(), tool, ApprovalMode.PLAN)
        assert decision.outcome is DENY
        assert "Plan mode" in (decision.deny_message or "")


def test_every_default_rule_is_of_the_lowest_tier() -> None:
    given = engine().rules
    assert given
    assert {r.author for r in given} == {"default"}
    assert all(r.source.startswith(f"{r.file}:{r.line}, rule ") for r in given)


@pytest.mark.requirement("POL-03")
def test_a_users_rule_overrides_the_defaults_at_any_priority() -> None:
    given = engine(rule("deny", 0, toolName="read_file"), rule("allow", 0, toolName="write_file"))
    assert decide_by_default(given, "read_file", ApprovalMode.YOLO).outcome is DENY
    assert decide_by_default(given, "write_file", ApprovalMode.DEFAULT).outcome is ALLOW


@pytest.mark.requirement("POL-07", "POL-08")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("interactive", [True, False])
def test_what_is_excluded_is_denied_and_what_is_not_can_be_had(
    mode: ApprovalMode, interactive: bool
) -> None:
    context = PolicyContext(mode=mode, interactive=interactive)
    given = engine()
    for tool in (*READING, *ACTING, "some_new_tool", "ask_user"):
        args = {"command": "ls"} if tool == SHELL else {}
        denied = (
            decide_by_default(given, tool, mode, interactive=interactive, **args).outcome is DENY
        )
        assert given.excludes(all_names(tool), context) == denied


@pytest.mark.requirement("POL-07")
def test_a_tool_with_a_condition_that_may_allow_it_stays() -> None:
    headless = PolicyContext(interactive=False)
    shell = all_names(SHELL)
    assert not engine().excludes(shell, headless)
    asks = shell_rule("ask_user", 90)
    assert engine(asks).excludes(shell, headless)
    assert not engine(asks, shell_rule("allow", commandPrefix="git")).excludes(shell, headless)
    assert not engine(asks, shell_rule("allow", argsPattern="x")).excludes(shell, headless)
    assert engine(asks, shell_rule("ask_user", commandPrefix="git")).excludes(shell, headless)
    assert engine(asks, shell_rule("deny", commandPrefix="git")).excludes(shell, headless)
    hidden = engine(shell_rule("deny", 500), shell_rule("allow", 100, commandPrefix="git"))
    assert hidden.excludes(shell, PolicyContext())
    narrowed = engine(rule("deny", toolName="read_file", argsPattern="secret"))
    assert not narrowed.excludes(("read_file",), headless)
    other_mode = engine(asks, shell_rule("allow", modes=["yolo"]))
    assert other_mode.excludes(shell, headless)
    server = engine(rule("allow", mcpName="jira"))
    assert not server.excludes(("search", "jira__search"), headless, "jira")
    assert server.excludes(("search", "x__search"), headless, "x")


def test_an_always_rule_allows_what_begins_like_this_and_no_more() -> None:
    given = engine()
    call = PolicyCall(names=all_names(SHELL), args={"command": "npm test -- -x | head -5"})
    remembered = always_rule(call)
    assert remembered is not None
    assert remembered.command_prefixes == ("npm test", "head")
    given.add_rule(remembered)
    assert given.decide(call, PolicyContext()).outcome is ALLOW
    for command in ("npm test", "npm test -- -y", "head x", "npm test; head -3"):
        assert (
            decide_by_default(given, SHELL, ApprovalMode.DEFAULT, command=command).outcome is ALLOW
        )
    for command in ("npm tests", "npm", "npm test; x", "npm test > f", "A=1 npm test", "npm run a"):
        assert decide_by_default(given, SHELL, ApprovalMode.DEFAULT, command=command).outcome is ASK
    assert decide_by_default(given, SHELL, ApprovalMode.PLAN, command="npm test").outcome is DENY


def test_an_always_rule_for_a_tool_covers_the_tool_of_that_server() -> None:
    given = engine()
    names = ("search", "jira__search", "mcp_jira_search")
    remembered = always_rule(PolicyCall(names=names, args={}, server_name="jira"))
    assert remembered is not None
    given.add_rule(remembered)
    own = given.decide(PolicyCall(names=names, args={}, server_name="jira"), PolicyContext())
    other = given.decide(
        PolicyCall(names=("search", "x__search"), args={}, server_name="x"), PolicyContext()
    )
    assert (own.outcome, other.outcome) == (ALLOW, ASK)
    edits = always_rule(PolicyCall(names=("write_file",), args={"path": "a"}))
    assert edits is not None
    given.add_rule(edits)
    assert decide_by_default(given, "write_file", ApprovalMode.DEFAULT).outcome is ALLOW


@for_each(
    "command",
    [
        *("ls; rm b", "ls > f", "sudo a", "", "bash -c ls", "git", "npx a", "python -c x", None),
        *("git log \u202e", "git log '\u2800'", "git log" + " " * 40 + "x", "git log '\u05d0'"),
        *("git log '\u0430b'", "\u0441\u0441 a.c", "git log \x1b[2J", "git log\n\n\n\n\n\nls"),
    ],
)
def test_there_is_no_always_for_what_no_rule_can_allow(command: str | None) -> None:
    assert always_rule(PolicyCall(names=(SHELL,), args={"command": command})) is None


def test_an_added_rule_stands_behind_its_equals_and_below_administrators() -> None:
    given = PolicyEngine(rules(rule("deny", 950, toolName="x")))
    added = always_rule(PolicyCall(names=("x",), args={}))
    assert added is not None
    given.add_rule(added)
    assert given.decide(PolicyCall(names=("x",), args={}), PolicyContext()).outcome is DENY
    admin = rules(rule("deny", 0, toolName="y"), tier=Tier.ADMIN)
    strict = PolicyEngine(admin)
    second = always_rule(PolicyCall(names=("y",), args={}))
    assert second is not None
    strict.add_rule(second)
    outcome = strict.decide(PolicyCall(names=("y",), args={}), PolicyContext()).outcome
    assert outcome is PolicyOutcome.DENY
