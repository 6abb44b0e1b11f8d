"""The `[[safety_checker]]` tables of a policy file."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from alhena.policy.load import LoadedPolicies, PolicyProblem, ProblemLevel, RuleReport
from alhena.policy.model import Tier
from alhena.policy.parse import RulePlace
from alhena.policy.rule_error import RuleError
from alhena.policy.safety.model import SafetyChecker
from alhena.policy.safety.parse import TABLE, parse_checker


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
