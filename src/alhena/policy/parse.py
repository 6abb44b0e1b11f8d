"""One `[[rule]]` table to a rule, or to what is wrong with it (POL-02)."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule, Tier
from alhena.policy.names import SHELL_NAMES

SHELL = "run_shell_command"
MAX_PRIORITY = 999
_CONDITIONS = ("toolName", "mcpName", "argsPattern", "commandPrefix", "commandRegex", "modes",
               "interactive")  # fmt: skip
_FIELDS = frozenset(
    {*_CONDITIONS, "decision", "priority", "allowRedirection", "allow_redirection", "denyMessage",
     "deny_message"}
)  # fmt: skip
_NOTES = frozenset({"name", "description", "match", "not_match"})
_UNSUPPORTED = frozenset({"subagent", "toolAnnotations"})


class RuleError(Exception):
    """A table that is no rule: the field and what is wrong with it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


class ParsedRule(msgspec.Struct, frozen=True):
    """A rule and what is odd about it, as (field, message) pairs."""

    rule: PolicyRule
    warnings: tuple[tuple[str, str], ...] = ()


def parse_rule(table: Mapping[str, Any], *, tier: Tier, source: str) -> ParsedRule:
    """The rule a table describes; its final priority is tier + priority/1000 (POL-03).

    Raises RuleError.
    """
    decision = _decision(table)
    warnings = _unknown_keys(table, decision)
    prefixes = _texts(table, "commandPrefix")
    pattern = _pattern(table, "commandRegex")
    rule = PolicyRule(
        decision=decision,
        priority=tier + _priority(table) / 1000,
        tool_names=_tool_names(table, shell_only=bool(prefixes or pattern)),
        mcp_name=_text(table, "mcpName"),
        args_pattern=_pattern(table, "argsPattern"),
        command_prefixes=prefixes,
        command_regex=pattern,
        modes=_modes(table),
        interactive=_flag(table, "interactive"),
        allow_redirection=bool(_flag(table, _spelling(table, "allowRedirection"))),
        deny_message=_text(table, _spelling(table, "denyMessage")),
        source=source,
    )
    _check_together(rule)
    return ParsedRule(rule, (*warnings, *_useless_prefixes(rule)))


def _decision(table: Mapping[str, Any]) -> PolicyOutcome:
    value = table.get("decision")
    if value is None:
        raise RuleError("decision", 'is missing; it must be "allow", "deny" or "ask_user"')
    try:
        return PolicyOutcome(value)
    except ValueError as error:
        raise RuleError(
            "decision", f'must be "allow", "deny" or "ask_user", not {value!r}'
        ) from error


def _priority(table: Mapping[str, Any]) -> int:
    value = table.get("priority")
    if value is None:
        raise RuleError("priority", f"is missing; it must be an integer from 0 to {MAX_PRIORITY}")
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_PRIORITY:
        raise RuleError("priority", f"must be an integer from 0 to {MAX_PRIORITY}, not {value!r}")
    return value


def _text(table: Mapping[str, Any], field: str) -> str | None:
    value = table.get(field)
    if value is None:
        return None
    if not isinstance(value, str):
        raise RuleError(field, f"must be a string, not {value!r}")
    if not value.strip():
        raise RuleError(field, "is empty")
    return value


def _texts(table: Mapping[str, Any], field: str) -> tuple[str, ...]:
    value = table.get(field)
    if value is None:
        return ()
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not items:
        raise RuleError(field, "is an empty array")
    for item in items:
        if not isinstance(item, str):
            raise RuleError(field, f"must be a string or an array of strings, not {value!r}")
        if not item.strip():
            raise RuleError(field, "is empty" if len(items) == 1 else "holds an empty string")
    return tuple(items)


def _flag(table: Mapping[str, Any], field: str) -> bool | None:
    value = table.get(field)
    if value is not None and not isinstance(value, bool):
        raise RuleError(field, f"must be true or false, not {value!r}")
    return value


def _spelling(table: Mapping[str, Any], field: str) -> str:
    """The spelling the table uses: `allow_redirection` is `allowRedirection`."""
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in field)
    if field in table and snake in table:
        raise RuleError(field, f"is given twice, as {field} and as {snake}")
    return snake if snake in table else field


def _tool_names(table: Mapping[str, Any], *, shell_only: bool) -> tuple[str, ...]:
    names = _texts(table, "toolName")
    if shell_only:
        strange = [name for name in names if name not in SHELL_NAMES]
        if strange:
            raise RuleError(
                "toolName",
                f"commandPrefix and commandRegex look at {SHELL} alone, not at {strange[0]!r}",
            )
        return names or (SHELL,)
    for name in names:
        if "*" in name[:-1]:
            raise RuleError("toolName", f"{name!r}: a wildcard stands at the end of a name only")
    if not names and table.get("mcpName") is None:
        raise RuleError("toolName", 'is missing; "*" means every tool')
    return names


def _pattern(table: Mapping[str, Any], field: str) -> str | None:
    pattern = _text(table, field)
    if pattern is not None:
        from alhena.policy.patterns import compile_pattern

        try:
            compile_pattern(pattern)
        except ValueError as error:
            raise RuleError(field, str(error)) from error
    return pattern


def _modes(table: Mapping[str, Any]) -> tuple[ApprovalMode, ...]:
    if not isinstance(table.get("modes", []), list):
        raise RuleError("modes", "must be an array of mode names")
    modes: list[ApprovalMode] = []
    for name in _texts(table, "modes"):
        try:
            modes.append(ApprovalMode.parse(name))
        except ValueError as error:
            known = ", ".join(ApprovalMode)
            raise RuleError("modes", f"{name!r} is no mode; there are {known}") from error
    return tuple(modes)


def _check_together(rule: PolicyRule) -> None:
    if rule.command_prefixes and rule.command_regex:
        raise RuleError("commandRegex", "cannot stand beside commandPrefix; write two rules")
    if rule.mcp_name is not None and (rule.command_prefixes or rule.command_regex):
        field = "commandPrefix" if rule.command_prefixes else "commandRegex"
        raise RuleError(field, f"looks at {SHELL} alone, and mcpName names a server's tools")


def _useless_prefixes(rule: PolicyRule) -> tuple[tuple[str, str], ...]:
    if rule.decision is not PolicyOutcome.ALLOW or not rule.command_prefixes:
        return ()
    from alhena.policy.shell import plain_words

    return tuple(
        ("commandPrefix", f"{prefix!r} allows nothing: it begins no single plain command")
        for prefix in rule.command_prefixes
        if plain_words(prefix) is None
    )


def _unknown_keys(table: Mapping[str, Any], decision: PolicyOutcome) -> tuple[tuple[str, str], ...]:
    """Warnings for keys that mean nothing here. An allow without a condition it was meant to have
    would be broader than written, so there a key that may be one is an error."""
    warnings: list[tuple[str, str]] = []
    for key in table:
        if key in _FIELDS or key in _NOTES:
            continue
        near = _nearest(key)
        hint = f"; did you mean {near}?" if near else ""
        message = "is not supported" if key in _UNSUPPORTED else f"is no field of a rule{hint}"
        if decision is PolicyOutcome.ALLOW and (key in _UNSUPPORTED or near in _CONDITIONS):
            raise RuleError(key, f"{message} (without it the rule would allow more than it says)")
        warnings.append((key, f"{message}; it is ignored"))
    return tuple(warnings)


def _nearest(key: str) -> str | None:
    from difflib import get_close_matches

    flat = {field.replace("_", "").lower(): field for field in sorted(_FIELDS)}
    flat["tool"] = flat["tools"] = "toolName"
    flat["mode"] = "modes"
    near = get_close_matches(key.replace("_", "").lower(), flat, n=1, cutoff=0.75)
    return flat[near[0]] if near else None
