"""Rules and calls in the words of policy files."""

from typing import Any

from alhena.policy.engine import decide
from alhena.policy.load import ProblemLevel, load_tables
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    Tier,
)

ALLOW, ASK, DENY = PolicyOutcome.ALLOW, PolicyOutcome.ASK_USER, PolicyOutcome.DENY
SHELL = "run_shell_command"
YOLO = {"toolName": "*", "decision": "allow", "priority": 998, "allowRedirection": True}


def rules(*tables: dict[str, Any], tier: Tier = Tier.USER) -> tuple[PolicyRule, ...]:
    """Rules as a file would give them; none may be faulty."""
    loaded = load_tables(tables, file="test.toml", tier=tier)
    assert not [p for p in loaded.problems if p.level is ProblemLevel.ERROR]
    return loaded.rules


def rule(decision: str, priority: int = 100, **fields: Any) -> dict[str, Any]:
    return {"decision": decision, "priority": priority, **fields}


def shell_rule(decision: str, priority: int = 100, **fields: Any) -> dict[str, Any]:
    return rule(decision, priority, toolName=SHELL, **fields)


def ask(
    given: tuple[PolicyRule, ...],
    tool: str | tuple[str, ...],
    args: dict[str, Any] | None = None,
    *,
    server: str | None = None,
    mode: str = "default",
    interactive: bool = True,
) -> Decision:
    names = (tool,) if isinstance(tool, str) else tool
    call = PolicyCall(names=names, args=args or {}, server_name=server)
    context = PolicyContext(mode=ApprovalMode(mode), interactive=interactive)
    return decide(call, given, context)


def run(given: tuple[PolicyRule, ...], command: str) -> Decision:
    """The decision on a shell command."""
    return ask(given, SHELL, {"command": command})
