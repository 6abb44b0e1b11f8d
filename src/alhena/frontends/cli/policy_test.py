"""`alhena policy test`: do the examples beside rules hold?"""

import os
from pathlib import Path
from typing import Any

from alhena.config.errors import ConfigError
from alhena.config.home import user_policies_path
from alhena.display_text import escaped
from alhena.frontends.cli.policy_words import rule_json
from alhena.frontends.here import place_here
from alhena.frontends.streams import write_json, write_stderr, write_stdout
from alhena.policy.gather import load_path
from alhena.policy.load import (
    LoadedPolicies,
    PolicyProblem,
    RuleReport,
    load_directory,
)
from alhena.policy.model import Tier
from alhena.policy.settings_rules import with_slips
from alhena.tools.names import ALIASES, BUILT_IN

FAILED = 1


def test(argv: list[str]) -> int:
    """Carries out `alhena policy test ARGV`: 0 when all is well, 1 when a rule is wrong or does not
    keep its examples, 52 when a file cannot be read as one of rules."""
    from alhena.frontends.cli.arguments import Parser

    parser = Parser(prog="alhena policy test", add_help=False, allow_abbrev=False)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-d", "--debug", action="store_true")
    options = parser.parse_args(argv)
    loaded = _named(options.files) if options.files else _own()
    loaded = with_slips(loaded, {*BUILT_IN, *ALIASES})
    unusable = [item for item in loaded.errors if item.rule is None]
    failed = [item for item in loaded.errors if item.rule is not None]
    others = [item for item in failed if item.table != "rule"]
    if options.json:
        write_json(_document(loaded, [*others, *unusable]))
    else:
        lines = [*_words(loaded.reports), *(f"FAILED {item}" for item in others)]
        write_stdout("".join(f"{escaped(line)}\n" for line in lines))
        write_stdout(f"{_summary(loaded)}\n")
        for problem in unusable:
            write_stderr(f"alhena: {escaped(str(problem))}\n")
    if unusable:
        return ConfigError.exit_code
    return FAILED if failed else 0


def _named(names: list[str]) -> LoadedPolicies:
    return LoadedPolicies.joined(load_path(Path(name), Tier.USER) for name in names)


def _own() -> LoadedPolicies:
    settings = place_here().settings
    own = load_directory(user_policies_path(os.environ), Tier.USER)
    return LoadedPolicies.joined((own, _named(list(settings.policy_paths))))


def _words(reports: tuple[RuleReport, ...]) -> list[str]:
    """One line a rule; each warning on a line below."""
    lines: list[str] = []
    for report in reports:
        place = report.file if report.line is None else f"{report.file}:{report.line}"
        head = f"{place} {report.table} {report.number}"
        if report.rule is None:
            lines.append(f"FAILED {head}: {_said(report.problems[0])}")
            continue
        count = _counted(report.examples, "example")
        what = f": {report.rule.decision}, {count}" if report.table == "rule" else ""
        lines.append(f"ok     {head}{what}")
        lines += [f"       warning: {_said(problem)}" for problem in report.problems]
    return lines


def _said(problem: PolicyProblem) -> str:
    field = "" if problem.field is None else f"{problem.field} "
    return f"{field}{problem.message}" + (f". {problem.remedy}" if problem.remedy else "")


def _summary(loaded: LoadedPolicies) -> str:
    counts = _counts(loaded)
    words = (_counted(counts[f"{noun}s"], noun) for noun in ("rule", "example"))
    return f"{', '.join(words)}, {counts['failed']} failed"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _counts(loaded: LoadedPolicies) -> dict[str, int]:
    return {
        "rules": len(loaded.reports),
        "examples": sum(report.examples for report in loaded.reports),
        "failed": sum(item.rule is not None for item in loaded.errors),
    }


def _document(loaded: LoadedPolicies, problems: list[PolicyProblem]) -> dict[str, Any]:
    """{ok, rules: [{file, number, line, ok, examples, rule, problems}], problems, summary};
    `problems` are those of no rule."""
    return {
        "ok": not loaded.errors,
        "rules": [
            {
                "file": report.file,
                "number": report.number,
                "line": report.line,
                "ok": report.rule is not None,
                "examples": report.examples,
                "rule": None if report.rule is None else rule_json(report.rule),
                "problems": report.problems,
            }
            for report in loaded.reports
        ],
        "problems": problems,
        "summary": _counts(loaded),
    }
