"""The policy of a session, and what it says of the program's own tools."""

import msgspec

from alhena.agent.workbench import WorkbenchOptions
from alhena.config.errors import ConfigError
from alhena.policy.gather import GatheredPolicy, PolicyRequest, gather_policy, told_together
from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule, Tier
from alhena.policy.settings_rules import ToolNames
from alhena.tools.contract import Tool
from alhena.tools.names import ALIASES, BUILT_IN, declared_name

OWN_TOOL_PRIORITY = 60
"""In the default tier, above what its policies say of built-in tools: a name is no permission."""


def session_policy(options: WorkbenchOptions) -> GatheredPolicy:
    """The policy of all sources.

    A file that was named must be usable. Of the others, a rule that could only have permitted
    something may be dropped with a warning; what may have restricted something may not.
    """
    gathered = gather_policy(
        PolicyRequest(
            cwd=options.cwd,
            environ=options.environ,
            settings=options.settings,
            tool_names=ToolNames(BUILT_IN, tuple(ALIASES)),
            paths=tuple(item for item in options.policy if not isinstance(item, PolicyRule)),
            rules=tuple(item for item in options.policy if isinstance(item, PolicyRule)),
            allowed_tools=options.allowed_tools,
            skip_trust=options.skip_trust,
        )
    )
    if gathered.fatal:
        raise ConfigError(
            f"the policy cannot be used: {told_together(gathered.fatal)}.",
            remedy="Until then nothing runs." if gathered.fatal[0].remedy else "Correct it.",
        )
    return gathered


def require_own_name(name: str) -> None:
    """Refuses the other names of a built-in tool: rules for one would be rules for both."""
    declared = declared_name(name)
    if declared != name:
        raise ConfigError(
            f"a tool of the program is called {name!r}, which is another name of {declared}.",
            remedy="Give it a name of its own: @tool(name=...).",
        )


def own_tool_rules(tool: Tool) -> tuple[PolicyRule, ...]:
    """The default rules for a tool that the program brings, whatever its name: asked about unless
    its program says otherwise (`confirm=False`), and not part of plan mode."""
    asked = getattr(tool, "confirm", True) is not False
    rule = PolicyRule(
        decision=PolicyOutcome.ASK_USER if asked else PolicyOutcome.ALLOW,
        priority=OWN_TOOL_PRIORITY,
        tier=Tier.DEFAULT,
        tool_names=(tool.name,),
        modes=(ApprovalMode.DEFAULT, ApprovalMode.AUTO_EDIT),
        source="the program's own tool" + ("" if asked else " (confirm=False)"),
    )
    return (
        rule,
        msgspec.structs.replace(
            rule,
            decision=PolicyOutcome.DENY,
            modes=(ApprovalMode.PLAN,),
            deny_message="Plan mode does not run this program's own tools.",
        ),
    )
