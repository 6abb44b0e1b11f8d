"""The [[safety_checker]] tables of a policy file."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from alhena.policy.load import LoadedPolicies, PolicyProblem, ProblemLevel, RuleReport
from alhena.policy.model import PolicyRule, RuleError, Tier
from alhena.policy.parse import RulePlace, one_of, parse_rule
from alhena.policy.safety.allowed_path import NAME as ALLOWED_PATH
from alhena.policy.safety.allowed_path import allowed_path_config
from alhena.policy.safety.model import CheckerType, ContextPart, SafetyChecker
from alhena.policy.safety.runner import NAMES
from alhena.values import Value

TABLE = "safety_checker"
_CONDITIONS = ("toolName", "mcpName", "argsPattern", "commandPrefix", "commandRegex",
               "commandClass", "paths", "modes", "interactive")  # fmt: skip
_SHELL = frozenset({"commandPrefix", "commandRegex", "commandClass"})
_NOTES = frozenset({"description"})
_CHECKER = frozenset({"type", "name", "required_context", "config"})


class ParsedChecker(Value, frozen=True):
    """A checker, and what is odd about it, as (field, message) pairs."""

    checker: SafetyChecker
    warnings: tuple[tuple[str, str], ...] = ()


def parse_checker(table: Mapping[str, Any], *, tier: Tier, place: RulePlace) -> ParsedChecker:
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
    return ParsedChecker(checker, _strange(table))


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


def load_checkers(
    tables: Any, *, file: str, tier: Tier, lines: Sequence[int] = ()
) -> LoadedPolicies:
    """The checkers of a file's tables; a bad one is dropped and named, and as it may have
    restricted something, no run goes on without it. `lines` say where each begins, if known."""
    if not isinstance(tables, list):
        problem = PolicyProblem(
            file=file,
            field=TABLE,
            message=f"is not written as [[{TABLE}]]",
            remedy="Put two brackets around it.",
        )
        return LoadedPolicies(problems=(problem,))
    items = cast("list[Any]", tables)
    return LoadedPolicies.joined(
        _loaded(item, tier, RulePlace(file, number, lines[number - 1] if lines else None))
        for number, item in enumerate(items, start=1)
    )


def _loaded(table: Any, tier: Tier, place: RulePlace) -> LoadedPolicies:
    said = PolicyProblem(
        file=place.file,
        table=TABLE,
        rule=place.number,
        line=place.line,
        message="is no table",
        remedy=f"Write each checker under a [[{TABLE}]] of its own.",
    )
    checker: SafetyChecker | None = None
    problems: tuple[PolicyProblem, ...] = (said,)
    if isinstance(table, Mapping):
        try:
            parsed = parse_checker(cast("Mapping[str, Any]", table), tier=tier, place=place)
            checker = parsed.checker
            problems = tuple(
                replace(said, field=field, message=message, level=ProblemLevel.WARNING, remedy=None)
                for field, message in parsed.warnings
            )
        except RuleError as error:
            problems = (
                replace(said, field=error.field, message=error.message, remedy=error.remedy),
            )
    report = RuleReport(
        file=place.file,
        table=TABLE,
        number=place.number,
        line=place.line,
        rule=None if checker is None else checker.rule,
        examples=0,
        problems=problems,
    )
    return LoadedPolicies(
        problems=problems, reports=(report,), checkers=() if checker is None else (checker,)
    )
