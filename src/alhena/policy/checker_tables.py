"""The [[safety_checker]] tables of a policy file."""

from collections.abc import Mapping
from typing import Any, cast

from msgspec.structs import replace

from alhena.policy.allowed_path import NAME as ALLOWED_PATH
from alhena.policy.allowed_path import allowed_path_config
from alhena.policy.checker import CheckerType, ContextPart, SafetyChecker
from alhena.policy.model import PolicyRule, RuleError, Tier
from alhena.policy.parse import ParsedRule, RulePlace, one_of, parse_rule
from alhena.policy.safety_checks import NAMES

TABLE = "safety_checker"
_CONDITIONS = ("toolName", "mcpName", "argsPattern", "commandPrefix", "commandRegex",
               "commandClass", "paths", "modes", "interactive")  # fmt: skip
_SHELL = frozenset({"commandPrefix", "commandRegex", "commandClass"})
_NOTES = frozenset({"description"})
_CHECKER = frozenset({"type", "name", "required_context", "config"})


def parse_checker(table: Mapping[str, Any], *, tier: Tier, place: RulePlace) -> ParsedRule:
    """The checker that a table describes. Its conditions are those of a rule, its priority is 0
    when none is given. Without conditions it is for every call.

    Raises RuleError.
    """
    written = table.get("checker")
    if not isinstance(written, Mapping):
        message = "is missing" if written is None else f"is no table, but {written!r}"
        raise RuleError("checker", message, f"Write it under [{TABLE}.checker].")
    fields = cast("Mapping[str, Any]", written)
    kind = _kind(fields)
    checker = SafetyChecker(
        name=_name(fields, kind),
        type=kind,
        rule=_rule(table, tier, place),
        number=place.number,
        required_context=_required(fields),
        config=_config(fields, kind),
    )
    unknown = next((key for key in fields if key not in _CHECKER), None)
    if unknown is not None:
        known = ", ".join(sorted(_CHECKER))
        raise RuleError(f"checker.{unknown}", "is no field of a checker", f"There are {known}.")
    return ParsedRule(checker.rule, (), _strange(table), checker)


def _rule(table: Mapping[str, Any], tier: Tier, place: RulePlace) -> PolicyRule:
    """The conditions, as a rule that denies: uncertain ones count as fulfilled."""
    fields = {key: table[key] for key in _CONDITIONS if key in table}
    if not _SHELL.intersection(fields) and "mcpName" not in fields:
        fields.setdefault("toolName", "*")
    fields |= {"decision": "deny", "priority": table.get("priority", 0)}
    rule = parse_rule(fields, tier=tier, place=place).rule
    line = "" if place.line is None else f":{place.line}"
    return replace(rule, source=f"{place.file}{line}, {TABLE} {place.number}")


def _kind(fields: Mapping[str, Any]) -> CheckerType:
    known = ", ".join(f'"{item}"' for item in CheckerType)
    return one_of(CheckerType, fields.get("type"), "checker.type", f"There are {known}.")


def _name(fields: Mapping[str, Any], kind: CheckerType) -> str:
    name = fields.get("name")
    remedy = "Write lower-case letters, digits and dashes."
    if name is None:
        raise RuleError("checker.name", "is missing", remedy)
    if not isinstance(name, str) or NAMES.fullmatch(name) is None:
        raise RuleError("checker.name", f"cannot be {name!r}", remedy)
    if kind is CheckerType.IN_PROCESS and name != ALLOWED_PATH:
        message = f"names no checker of this program: {name!r}"
        raise RuleError("checker.name", message, f'There is "{ALLOWED_PATH}".')
    return name


def _required(fields: Mapping[str, Any]) -> tuple[ContextPart, ...] | None:
    value = fields.get("required_context")
    if value is None:
        return None
    known = ", ".join(f'"{item}"' for item in ContextPart)
    remedy = f"Write an array of {known}."
    if not isinstance(value, list):
        raise RuleError("checker.required_context", f"is no array, but {value!r}", remedy)
    try:
        return tuple(dict.fromkeys(ContextPart(item) for item in cast("list[Any]", value)))
    except (ValueError, TypeError) as error:
        raise RuleError("checker.required_context", str(error), remedy) from error


def _config(fields: Mapping[str, Any], kind: CheckerType) -> dict[str, Any]:
    value = fields.get("config", {})
    if not isinstance(value, dict):
        raise RuleError("checker.config", f"is no table, but {value!r}", "Write a table.")
    config = cast("dict[str, Any]", value)
    if kind is CheckerType.IN_PROCESS:
        try:
            allowed_path_config(config)
        except ValueError as error:
            remedy = "Write included_args and excluded_args, arrays of strings."
            raise RuleError("checker.config", f"cannot be used: {error}", remedy) from error
    return config


def _strange(table: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Keys that mean nothing here. A condition that is lost only makes a checker look at more."""
    known = {*_CONDITIONS, *_NOTES, "priority", "checker"}
    return tuple(
        (key, f"is no field of a {TABLE}; it is ignored") for key in table if key not in known
    )
