"""Rules that stand in settings and on the command line."""

from typing import Any

import pytest

from alhena.config.settings import settings_of
from alhena.errors import ConfigError
from alhena.frontends.shared.arguments import parse_run
from alhena.policy.engine import PolicyEngine, tighten
from alhena.policy.gather import load_policies
from alhena.policy.load import ProblemLevel
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
)
from alhena.policy.settings_rules import ToolNames, settings_policy
from alhena.tools.registry import ALIASES, BUILT_IN, all_names
from tests.policy.support import ALLOW, ASK, DENY, SHELL, rule, rules

NAMES = ToolNames(BUILT_IN, tuple(ALIASES))


def decide_by_settings(
    settings: dict[str, Any],
    tool: str,
    args: dict[str, Any] | None = None,
    *,
    files: tuple[PolicyRule, ...] = (),
    server: str | None = None,
    mode: str = "default",
    interactive: bool = True,
    allowed_tools: tuple[str, ...] = (),
) -> Decision:
    """The decision in a session with these settings, over the default policies."""
    written = settings_policy(settings_of(settings, "test"), NAMES, allowed_tools)
    engine = PolicyEngine((*written.rules, *load_policies(None).rules, *files))
    names = all_names(tool)
    if server is not None:
        names = (*names, f"{server}__{tool}", f"mcp_{server}_{tool}")
    call = PolicyCall(names=names, args=args or {}, server_name=server)
    context = PolicyContext(mode=ApprovalMode(mode), interactive=interactive)
    return tighten(engine.decide(call, context), call, written.filters, context)


def outcome(settings: dict[str, Any], tool: str, *args: Any, **options: Any) -> PolicyOutcome:
    return decide_by_settings(settings, tool, *args, **options).outcome


def shell(settings: dict[str, Any], command: str, **options: Any) -> PolicyOutcome:
    return outcome(settings, SHELL, {"command": command}, **options)


def tools(**lists: list[str]) -> dict[str, Any]:
    return {"tools": lists}


@pytest.mark.requirement("TOOLS-06")
def test_an_excluded_tool_is_denied_whatever_the_users_rules_say() -> None:
    files = rules(rule("allow", 999, toolName="*", allowRedirection=True))
    excluded = tools(exclude=["WriteFileTool"])
    decision = decide_by_settings(excluded, "write_file", files=files)
    assert (decision.outcome, outcome(excluded, "glob", files=files)) == (DENY, ALLOW)
    assert "settings: tools.exclude" in decision.reason
    assert "the user policy" in decision.reason
    prefix = tools(exclude=["run_shell_command(git push)"], allowed=["run_shell_command"])
    assert shell(prefix, "ls; git -C . push", files=files) is DENY
    assert shell(prefix, "git log", files=files) is ALLOW


def test_an_allowed_tool_needs_no_approval_below_the_users_rules() -> None:
    allowed = tools(allowed=["write_file", "run_shell_command(git status)"])
    assert outcome(allowed, "write_file", interactive=False) is ALLOW
    assert outcome(allowed, "replace", interactive=False) is DENY
    assert shell(allowed, "git status -s") is ALLOW
    assert shell(allowed, "git push") is ASK
    assert shell(allowed, "git status > x") is ASK
    files = rules(rule("ask_user", 0, toolName="write_file"))
    assert outcome(allowed, "write_file", files=files) is ASK
    flag = decide_by_settings({}, "write_file", allowed_tools=("write_file",))
    assert (flag.outcome, "--allowed-tools" in flag.reason) == (ALLOW, True)


def test_an_approval_in_settings_does_not_reach_into_plan_mode() -> None:
    settings = {**tools(allowed=["write_file"]), "mcpServers": {"s": {"trust": True}}}
    assert outcome(settings, "write_file", mode="plan") is DENY
    assert outcome(settings, "write_file", mode="auto_edit") is ALLOW
    assert outcome(settings, "search", server="s", mode="plan") is DENY


def test_a_server_that_may_be_there_but_says_it_is_not_trusted_is_asked_about() -> None:
    settings = {"mcp": {"allowed": ["s", "t"]}, "mcpServers": {"s": {"trust": False}, "t": {}}}
    assert outcome(settings, "search", server="s") is ASK
    assert outcome(settings, "search", server="t") is ALLOW


def test_where_no_person_can_be_asked_servers_need_no_approval_if_settings_say_so() -> None:
    entries = {"s": {}, "t": {"trust": False}}
    settings = {"mcp": {"autoAllowInHeadless": True}, "mcpServers": entries}
    assert outcome(settings, "search", server="s", interactive=False) is ALLOW
    assert outcome(settings, "search", server="s") is ASK
    assert outcome(settings, "search", server="s", interactive=False, mode="plan") is DENY
    assert outcome(settings, "search", server="t", interactive=False) is DENY
    ask = rules(rule("ask_user", 0, mcpName="s"))
    assert outcome(settings, "search", server="s", interactive=False, files=ask) is DENY
    found = decide_by_settings(settings, "search", server="s", interactive=False)
    assert "settings: mcp.autoAllowInHeadless" in found.reason


def test_a_star_in_the_settings_means_all_servers() -> None:
    entries = {"s": {}, "t": {"trust": False}}
    allowed = {"mcp": {"allowed": ["*"]}, "mcpServers": entries}
    assert outcome(allowed, "search", server="s") is ALLOW
    assert outcome(allowed, "search", server="t") is ASK
    excluded = {"mcp": {"excluded": ["*"], "allowed": ["*"]}, "mcpServers": entries}
    assert outcome(excluded, "search", server="s") is DENY


def test_nobody_is_asked_where_nobody_is_though_asking_is_allowed() -> None:
    assert outcome(tools(allowed=["*"]), "ask_user", interactive=False) is DENY
    assert outcome(tools(allowed=["*"]), "enter_plan_mode", interactive=False) is DENY
    assert outcome(tools(allowed=["*"]), "save_memory", interactive=False) is ALLOW


def test_only_core_tools_are_there_and_they_are_still_asked_about() -> None:
    core = tools(core=["ReadFileTool", "write_file"])
    assert outcome(core, "read_file") is ALLOW
    assert outcome(core, "write_file") is ASK
    gone = decide_by_settings(core, "replace", mode="yolo")
    assert gone.outcome is DENY
    assert "settings: tools.core" in gone.reason
    assert "tools.core" in str(gone.deny_message)
    files = rules(rule("allow", 999, toolName="*"))
    assert outcome(core, "glob", files=files) is DENY
    assert outcome(tools(core=[]), "glob") is DENY
    assert outcome({}, "glob") is ALLOW


def test_core_speaks_of_built_in_tools_only() -> None:
    core = {**tools(core=["glob"]), "mcpServers": {"s": {"trust": True}}}
    assert outcome(core, "ls", server="s") is ALLOW
    assert outcome(core, "read_file", server="s") is ALLOW
    own = rules(rule("allow", toolName="lookup"))
    assert outcome(core, "lookup", files=own) is ALLOW
    assert outcome(core, "complete_task") is ALLOW


def test_core_with_a_prefix_leaves_only_commands_that_begin_so() -> None:
    core = tools(core=["run_shell_command(git)", "ShellTool(make test)", "glob"])
    yolo = {"mode": "yolo"}
    assert shell(core, "git log", **yolo) is ALLOW
    assert shell(core, "make test && git log", **yolo) is ALLOW
    assert shell(core, "make install", **yolo) is DENY
    assert shell(core, "git log; ls", **yolo) is DENY
    assert shell(core, "env git log", **yolo) is ASK
    assert shell(core, "env git log", interactive=False, **yolo) is DENY
    assert shell(core, "env make install", **yolo) is DENY
    assert shell(core, "git log") is ALLOW
    assert shell(core, "git push") is ASK
    assert outcome(core, "read_file") is DENY
    message = decide_by_settings(core, SHELL, {"command": "ls"}, mode="yolo").deny_message
    assert message == "Only these shell commands are there: git, make test."
    whole = tools(core=["run_shell_command(git)", "run_shell_command"])
    assert shell(whole, "ls", **yolo) is ALLOW


def test_servers_are_excluded_trusted_and_limited() -> None:
    settings = {
        "mcp": {"excluded": ["bad"], "allowed": ["good", "bad"]},
        "mcpServers": {"bad": {"trust": True}, "good": {}, "other": {"trust": True}},
    }
    files = rules(rule("allow", 999, mcpName="*"))
    assert outcome(settings, "find", server="bad", files=files) is DENY
    assert outcome(settings, "find", server="good") is ALLOW
    gone = decide_by_settings(settings, "find", server="other", files=files)
    assert (gone.outcome, "settings: mcp.allowed" in gone.reason) == (DENY, True)
    ask = rules(rule("ask_user", 0, mcpName="good"))
    assert outcome(settings, "find", server="good", files=ask) is ASK
    assert outcome(settings, "glob") is ALLOW
    assert outcome({"mcp": {"allowed": []}}, "find", server="good") is ASK
    trust = {"mcpServers": {"a b": {"trust": True}, "other": {}}}
    assert outcome(trust, "find", server="a b") is ALLOW
    assert (
        "settings: mcpServers.a b.trust" in decide_by_settings(trust, "find", server="a b").reason
    )
    assert outcome(trust, "find", server="other") is ASK


def test_priorities_stand_in_the_order_of_the_table() -> None:
    settings = {
        "mcp": {"excluded": ["a"], "allowed": ["b"]},
        "mcpServers": {"c": {"trust": True}},
        **tools(exclude=["x"], allowed=["y"]),
    }
    written = settings_policy(settings_of(settings, "test"), NAMES, ("z",)).rules
    ordered = [item.source for item in sorted(written, key=lambda item: -item.final_priority)]
    assert ordered == [
        "settings: mcp.excluded",
        "settings: tools.exclude",
        "settings: tools.allowed",
        "--allowed-tools",
        "settings: mcpServers.c.trust",
        "settings: mcp.allowed",
    ]
    assert {item.author for item in written} == {"user"}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("", "names no tool"),
        ("(git)", "names no tool"),
        ("write_file(x)", "only run_shell_command"),
        ("run_shell_command(git", "between two brackets"),
        ("run_shell_command()", "between two brackets"),
        ("run_shell_command(git) x", "between two brackets"),
        ("mcp_*_search", "wildcard"),
        ("read file", "no tool's name"),
        ("glob)", "no tool's name"),
    ],
)
def test_an_entry_that_cannot_be_meant_is_named_with_its_key_and_a_remedy(
    entry: str, said: str
) -> None:
    for key in ("exclude", "confirmationRequired"):
        with pytest.raises(ConfigError) as caught:
            settings_policy(settings_of(tools(**{key: [entry]}), "test"), NAMES)
        assert f"settings: tools.{key}: the entry {entry!r}" in str(caught.value)
        assert said in str(caught.value)
        assert caught.value.remedy
    for key in ("allowed", "core"):
        (problem,) = settings_policy(settings_of(tools(**{key: [entry]}), "test"), NAMES).problems
        assert str(problem).startswith(f"settings: tools.{key}: the entry {entry!r}")
        assert said in problem.message
        assert not problem.is_error
    with pytest.raises(ConfigError, match=r"^--allowed-tools: the entry"):
        settings_policy(settings_of({}, "test"), NAMES, (entry,))


@pytest.mark.parametrize("key", ["allowed", "excluded"])
@pytest.mark.parametrize("name", ["", " "])
def test_a_name_of_no_server_is_an_error(key: str, name: str) -> None:
    with pytest.raises(ConfigError, match=rf"settings: mcp\.{key}: the entry"):
        settings_policy(settings_of({"mcp": {key: [name]}}, "test"), NAMES)


def test_a_slip_in_a_restriction_is_an_error_and_elsewhere_a_warning() -> None:
    settings = settings_of(tools(allowed=["run_shel_command"], exclude=["read_files"]), "test")
    problems = settings_policy(settings, NAMES).problems
    assert {each.level for each in problems} == {ProblemLevel.WARNING}
    settings = settings_of(tools(exclude=["run_shel_command", "lookup", "s__globb"]), "test")
    (problem,) = settings_policy(settings, NAMES).problems
    assert problem.level is ProblemLevel.ERROR
    assert "'run_shel_command'" in str(problem)
    assert "run_shell_command" in str(problem.remedy)


def test_a_prefix_that_lets_nothing_through_is_a_warning() -> None:
    lists = tools(
        allowed=["shell(sudo)"], core=["shell(git $x)", "shell(ls)"], exclude=["shell(sudo)"]
    )
    problems = settings_policy(settings_of(lists, "test"), NAMES, ("shell(eval)",)).problems
    assert [(problem.file, problem.level) for problem in problems] == [
        ("settings: tools.allowed", ProblemLevel.WARNING),
        ("--allowed-tools", ProblemLevel.WARNING),
        ("settings: tools.core", ProblemLevel.WARNING),
    ]
    assert "shell(git $x) allows nothing" in problems[2].message


def test_allowed_tools_are_given_as_lists_or_again_and_again() -> None:
    arguments = parse_run(
        [
            *("--allowed-tools", "glob, run_shell_command(echo a,b) ,x"),
            *("--allowed-tools", "write_file", "-p", "hi"),
        ]
    )
    assert arguments.allowed_tools == (
        "glob", "run_shell_command(echo a,b)", "x", "write_file",
    )  # fmt: skip
