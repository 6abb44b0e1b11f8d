"""A rule as policy files write it."""

from typing import Any

from alhena.policy.model import PolicyRule


def rule_fields(rule: PolicyRule) -> dict[str, Any]:
    """What the rule says, under the keys of a `[[rule]]` table: only what it sets."""
    fields: dict[str, Any] = {
        "toolName": list(rule.tool_names) or None,
        "mcpName": rule.mcp_name,
        "argsPattern": rule.args_pattern,
        "commandPrefix": list(rule.command_prefixes) or None,
        "commandRegex": rule.command_regex,
        "commandClass": None if rule.command_class is None else str(rule.command_class),
        "paths": list(rule.paths) or None,
        "decision": str(rule.decision),
        "priority": rule.priority,
        "modes": [str(mode) for mode in rule.modes] or None,
        "interactive": rule.interactive,
        "allowRedirection": rule.allow_redirection or None,
        "denyMessage": rule.deny_message,
    }
    return {key: value for key, value in fields.items() if value is not None}
