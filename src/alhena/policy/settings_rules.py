"""Rules that stand in settings.json instead of a policy file."""

from collections.abc import Iterable

from alhena.config.errors import ConfigError
from alhena.policy.model import PolicyOutcome, PolicyRule, Tier
from alhena.policy.names import SHELL_NAMES

EXCLUDE_PRIORITY = Tier.USER + 0.9995
"""Where `tools.exclude` stands: above every rule of the user's tier, below an administrator's."""


def excluded_rules(entries: Iterable[str]) -> list[PolicyRule]:
    """The deny rules of `tools.exclude`: tool names, or `run_shell_command(prefix)`.

    Raises ConfigError for a prefix on another tool.
    """
    rules: list[PolicyRule] = []
    for entry in entries:
        name, bracket, rest = entry.partition("(")
        name = name.strip()
        prefixes: tuple[str, ...] = (rest.strip().removesuffix(")").strip(),) if bracket else ()
        if not name or (prefixes and name not in SHELL_NAMES):
            raise ConfigError(
                f"settings: tools.exclude has the entry {entry!r}, which names no tool, or gives a "
                "prefix to one that takes none.",
                remedy="Write a tool's name, or run_shell_command(PREFIX).",
            )
        rules.append(
            PolicyRule(
                decision=PolicyOutcome.DENY,
                priority=EXCLUDE_PRIORITY,
                tool_names=(name,),
                command_prefixes=prefixes,
                source="settings: tools.exclude",
            )
        )
    return rules
