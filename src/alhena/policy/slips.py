"""Names of tools that look like slips of the pen. Any other name may be a program's own tool."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from alhena.policy.load import LoadedPolicies, PolicyProblem, ProblemLevel, RuleReport
from alhena.policy.model import PolicyCall, PolicyRule
from alhena.policy.names import names_server, names_tool


def slip(name: str, known: Collection[str]) -> str | None:
    """The known name that was probably meant, None when the name is known, a wildcard, a server's
    tool or unlike all of them."""
    if not known or name in known or "*" in name or "__" in name or name.startswith("mcp_"):
        return None
    return _near(name, known)


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


def unknown_server_tools(
    rules: Iterable[PolicyRule], servers: Mapping[str, Collection[str] | None]
) -> Iterator[str]:
    """A warning for each name in a rule that no tool of its MCP server has. `servers` has all names
    of each server's tools; None where the server has not listed them yet."""
    calls = {
        server: PolicyCall(names=tuple(names or ()), args={}, server_name=server)
        for server, names in servers.items()
    }
    for rule in rules:
        for name in rule.tool_names:
            one = replace(rule, tool_names=(name,))
            meant = [server for server, call in calls.items() if names_server(one, call)]
            unsure = any(servers[each] is None for each in meant)
            if not meant or unsure or any(names_tool(one, calls[each]) for each in meant):
                continue
            near = _near(name, {known for each in meant for known in calls[each].names})
            remedy = "" if near is None else f" Did you mean {near}?"
            source = rule.source or "a rule of the program"
            yield (
                f"policy: {source}: no tool of the MCP server {meant[0]!r} is called {name!r}, so "
                f"the rule has no effect there.{remedy}"
            )


def _near(name: str, known: Collection[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, sorted(known), n=1, cutoff=0.75)), None)
