"""The examples beside a rule, `match` and `not_match`: does it mean what its author thinks?"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from alhena.policy.conditions import SHELL_NAMES
from alhena.policy.model import (
    ApprovalMode,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    RuleError,
)

FIELDS = ("match", "not_match")
_KEYS = ("tool", "args", "server", "mode", "interactive")
_FORMS = (
    "Write a shell command for a shell rule, the arguments as a JSON object, or a table "
    '{ tool = "NAME", args = { … } }.'
)


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """One example: a call that the rule is meant to decide (`field` is match), or not to
    (not_match). `text` is how it is written."""

    field: str
    text: str
    call: PolicyCall
    context: PolicyContext


def parse_examples(table: Mapping[str, Any], rule: PolicyRule) -> tuple[Example, ...]:
    """The examples of a `[[rule]]` table. Raises RuleError for one that is none."""
    return tuple(
        _example(field, item, rule) for field in FIELDS for item in _items(table.get(field))
    )


def check_examples(rule: PolicyRule, examples: tuple[Example, ...]) -> None:
    """Raises RuleError, naming the first example that the rule decides otherwise than its author
    thinks. The rule is asked alone, so nothing else can hide what it does."""
    for example in examples:
        objection = _objection(rule, example)
        if objection is not None:
            raise RuleError(example.field, objection, "Correct the rule or the example.")


def _objection(rule: PolicyRule, example: Example) -> str | None:
    from alhena.policy.decide import decide

    decision = decide(example.call, [rule], example.context)
    wanted = rule.decision
    if wanted is PolicyOutcome.ASK_USER and not example.context.interactive:
        wanted = PolicyOutcome.DENY
    matches = decision.rule is not None and decision.outcome is wanted
    if matches is (example.field == "match"):
        return None
    if matches:
        part = f", by its part {_shown(decision.parts[0])}" if decision.parts else ""
        return f"example {example.text} is one the rule matches{part}"
    found = f"{decision.outcome} ({decision.reason})" if decision.rule else "not its own"
    return f"example {example.text} is not matched: by this rule alone the decision is {found}"


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from cast("list[Any]", value)
    elif value is not None:
        yield value


def _example(field: str, item: Any, rule: PolicyRule) -> Example:
    if isinstance(item, str):
        if _is_shell_rule(rule):
            return _of(field, item, {"args": {"command": item}}, rule)
        try:
            args = msgspec.json.decode(item.encode("utf-8"), type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            message = f"example {_shown(item)} is no JSON object, and the rule is none for commands"
            raise RuleError(field, message, _FORMS) from error
        return _of(field, item, {"args": args}, rule)
    if not isinstance(item, Mapping):
        raise RuleError(field, f"example {_shown(item)} is neither a string nor a table", _FORMS)
    table = cast("Mapping[str, Any]", item)
    unknown = next((key for key in table if key not in _KEYS), None)
    if unknown is not None:
        known = ", ".join(_KEYS)
        raise RuleError(field, f"example has the key {unknown!r}; there are {known}", _FORMS)
    return _of(field, table, table, rule)


def _of(field: str, written: Any, table: Mapping[str, Any], rule: PolicyRule) -> Example:
    return Example(
        field=field,
        text=_shown(written),
        call=_call(field, table, rule),
        context=_context(field, table, rule),
    )


def _call(field: str, table: Mapping[str, Any], rule: PolicyRule) -> PolicyCall:
    tool = _value(field, table, "tool", str) or _only_tool(rule)
    if tool is None:
        message = f"example {_shown(dict(table))} does not say which tool is called"
        raise RuleError(field, message, 'Write { tool = "NAME", args = { … } }.')
    server = _value(field, table, "server", str)
    if server is None and rule.mcp_name != "*":
        server = rule.mcp_name
    args: dict[str, Any] = _value(field, table, "args", dict) or {}
    if server is not None:
        return PolicyCall(
            names=(tool, f"{server}__{tool}", f"mcp_{server}_{tool}"),
            args=args,
            server_name=server,
        )
    names = dict.fromkeys((tool, *(SHELL_NAMES if tool in SHELL_NAMES else ())))
    return PolicyCall(names=tuple(names), args=args)


def _context(field: str, table: Mapping[str, Any], rule: PolicyRule) -> PolicyContext:
    """The circumstances of the example; where it says nothing, those the rule is for."""
    name = _value(field, table, "mode", str)
    interactive = _value(field, table, "interactive", bool)
    try:
        mode = rule.modes[0] if rule.modes else ApprovalMode.DEFAULT
        mode = mode if name is None else ApprovalMode(name)
    except ValueError as error:
        known = ", ".join(ApprovalMode)
        raise RuleError(
            field, f"example has the mode {name!r}", f"There are the modes {known}."
        ) from error
    if interactive is None:
        interactive = rule.interactive is not False
    return PolicyContext(mode=mode, interactive=interactive)


def _value(field: str, table: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    value = table.get(key)
    if value is not None and not isinstance(value, kind):
        words = {str: "a string", bool: "true or false", dict: "a table"}[kind]
        raise RuleError(field, f"example: {key} must be {words}, not {value!r}", _FORMS)
    return value


def _only_tool(rule: PolicyRule) -> str | None:
    """The tool that an example means when it names none."""
    if _is_shell_rule(rule):
        return next(name for name in rule.tool_names if name in SHELL_NAMES)
    return next((name for name in rule.tool_names if not name.endswith("*")), None)


def _is_shell_rule(rule: PolicyRule) -> bool:
    return rule.mcp_name is None and not SHELL_NAMES.isdisjoint(rule.tool_names)


def _shown(value: Any) -> str:
    """An example on one line, control characters escaped."""
    if isinstance(value, str):
        return repr(value)
    return msgspec.json.encode(value, enc_hook=str).decode("utf-8", "replace")
