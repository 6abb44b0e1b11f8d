"""Names of tools that look like slips of the pen. Any other name may be a program's own tool."""

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from alhena.policy.load import LoadedPolicies, PolicyProblem, ProblemLevel, RuleReport


def slip(name: str, known: Collection[str]) -> str | None:
    """The known name that was probably meant, None when the name is known, a wildcard, a server's
    tool or unlike all of them."""
    if not known or name in known or "*" in name or "__" in name or name.startswith("mcp_"):
        return None
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=0.75)), None)


def with_slips(loaded: LoadedPolicies, known: Collection[str]) -> LoadedPolicies:
    """The same with a warning for each rule that names no tool there is, but nearly one."""
    reports: list[RuleReport] = []
    found: list[PolicyProblem] = []
    for report in loaded.reports:
        slips = tuple(_slips(report, known))
        reports.append(replace(report, problems=(*report.problems, *slips)) if slips else report)
        found += slips
    if not found:
        return loaded
    return replace(loaded, problems=(*loaded.problems, *found), reports=tuple(reports))


def _slips(report: RuleReport, known: Collection[str]) -> Iterator[PolicyProblem]:
    rule = report.rule
    if rule is None or rule.mcp_name is not None:
        return
    for name in rule.tool_names:
        near = slip(name, known)
        if near is not None:
            yield PolicyProblem(
                file=report.file,
                table=report.table,
                rule=report.number,
                line=report.line,
                field="toolName",
                message=f"{name!r} is no built-in tool",
                remedy=f"Did you mean {near}?",
                level=ProblemLevel.WARNING,
            )
