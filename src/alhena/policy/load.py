"""Policy files to rules (POL-02, POL-03), each problem with file, line, field and remedy."""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from alhena.policy.model import PolicyOutcome, PolicyRule, RuleError, Tier
from alhena.policy.parse import Example, ParsedRule, RulePlace, parse_rule
from alhena.values import Value

if TYPE_CHECKING:
    from alhena.policy.checker import SafetyChecker

MAX_FILE_BYTES = 1024 * 1024
_RULE = "rule"
_CHECKER = "safety_checker"
_READABLE = "Put a file there that can be read, or do not name it."


class ProblemLevel(StrEnum):
    """ERROR: something that was written does not hold. WARNING: it holds, but oddly."""

    ERROR = "error"
    WARNING = "warning"


class PolicyProblem(Value, frozen=True, kw_only=True):
    """A problem in a policy file and its remedy. `rule` is the number of the `table` of the file;
    it and `line` count from 1. `weakens`: what was dropped may have restricted something. A `quiet`
    one has no consequence beyond its rule: no start repeats it."""

    file: str
    message: str
    table: str = "rule"
    rule: int | None = None
    field: str | None = None
    line: int | None = None
    level: ProblemLevel = ProblemLevel.ERROR
    weakens: bool = True
    quiet: bool = False
    remedy: str | None = None

    @property
    def is_error(self) -> bool:
        """Does something that was written not hold?"""
        return self.level is ProblemLevel.ERROR

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        rule = "" if self.rule is None else f" {self.table} {self.rule}"
        comma = "," if self.rule is not None and self.field is not None else ""
        field = "" if self.field is None else f"{comma} {self.field}"
        remedy = "" if self.remedy is None else f". {self.remedy}"
        return f"{place}:{rule}{field} {self.message}{remedy}"


class RuleReport(Value, frozen=True, kw_only=True):
    """One table of a file: the rule, or the conditions of the `checker`, unless it was dropped; the
    number of its examples; its problems."""

    file: str
    table: str = "rule"
    number: int
    line: int | None
    rule: PolicyRule | None
    examples: int
    problems: tuple[PolicyProblem, ...]
    checker: "SafetyChecker | None" = None


class LoadedPolicies(Value, frozen=True):
    """Rules and safety checkers in the order they were read, and the problems met on the way.
    `reports` tell of each rule of a file."""

    rules: tuple[PolicyRule, ...] = ()
    problems: tuple[PolicyProblem, ...] = ()
    reports: tuple[RuleReport, ...] = ()
    checkers: tuple["SafetyChecker", ...] = ()

    @property
    def errors(self) -> tuple[PolicyProblem, ...]:
        """The problems that keep something from holding."""
        return tuple(item for item in self.problems if item.is_error)

    @classmethod
    def join(cls, parts: Iterable["LoadedPolicies"]) -> "LoadedPolicies":
        """All of `parts`, in order."""
        rules: list[PolicyRule] = []
        problems: list[PolicyProblem] = []
        reports: list[RuleReport] = []
        checkers: list[SafetyChecker] = []
        for part in parts:
            rules += part.rules
            problems += part.problems
            reports += part.reports
            checkers += part.checkers
        return cls(tuple(rules), tuple(problems), tuple(reports), tuple(checkers))


def load_tables(
    tables: Iterable[Any],
    *,
    file: str,
    tier: Tier,
    lines: Iterable[int | None] = (),
    kind: str = _RULE,
) -> LoadedPolicies:
    """The rules of `[[rule]]` tables, or the checkers of `[[safety_checker]]` tables; a bad one is
    dropped and reported. `lines`: the first line of each, if known."""
    places = list(lines)
    reports = tuple(
        _report(
            table,
            RulePlace(file, number, places[number - 1] if number <= len(places) else None),
            tier,
            kind,
        )
        for number, table in enumerate(tables, start=1)
    )
    rules = (report.rule for report in reports if kind == _RULE)
    return LoadedPolicies(
        tuple(rule for rule in rules if rule is not None),
        tuple(problem for report in reports for problem in report.problems),
        reports,
        tuple(report.checker for report in reports if report.checker is not None),
    )


def _report(table: Any, place: RulePlace, tier: Tier, kind: str) -> RuleReport:
    """Parses one table and tries its examples."""
    said = PolicyProblem(
        file=place.file,
        table=kind,
        rule=place.number,
        line=place.line,
        message="is no table",
        remedy=f"Write each {kind.removeprefix('safety_')} under a [[{kind}]] of its own.",
    )
    rule: PolicyRule | None = None
    checker: SafetyChecker | None = None
    examples = 0
    problems: tuple[PolicyProblem, ...] = (said,)
    if isinstance(table, Mapping):
        fields = cast("Mapping[str, Any]", table)
        try:
            parsed, checker = _parse_table(fields, place, tier, kind)
            examples = len(parsed.examples)
            _check_examples(parsed.rule, parsed.examples)
            rule = parsed.rule
            problems = tuple(
                replace(
                    said,
                    field=field,
                    message=message,
                    level=ProblemLevel.WARNING,
                    quiet=True,
                    remedy=None,
                )
                for field, message in parsed.warnings
            )
        except RuleError as error:
            weakens = kind != _RULE or fields.get("decision") != "allow"
            wrong = {"field": error.field, "message": error.message, "remedy": error.remedy}
            problems = (replace(said, weakens=weakens, **wrong),)
    return RuleReport(
        file=place.file,
        table=kind,
        number=place.number,
        line=place.line,
        rule=rule,
        examples=examples,
        problems=problems,
        checker=checker,
    )


def _parse_table(
    fields: Mapping[str, Any], place: RulePlace, tier: Tier, kind: str
) -> "tuple[ParsedRule, SafetyChecker | None]":
    """The rule of a table, or the conditions of the checker and the checker. Raises RuleError."""
    if kind == _RULE:
        return parse_rule(fields, tier=tier, place=place), None
    from alhena.policy.checker import parse_checker

    return parse_checker(fields, tier=tier, place=place)


def _check_examples(rule: PolicyRule, examples: tuple[Example, ...]) -> None:
    """Raises RuleError, naming the first example that the rule decides otherwise than its author
    thinks. The rule is asked alone, so nothing else can hide what it does."""
    for example in examples:
        objection = _objection(rule, example)
        if objection is not None:
            raise RuleError(example.field, objection, "Correct the rule or the example.")


def _objection(rule: PolicyRule, example: Example) -> str | None:
    from alhena.policy.engine import decide

    decision = decide(example.call, [rule], example.context)
    wanted = rule.decision
    if wanted is PolicyOutcome.ASK_USER and not example.context.interactive:
        wanted = PolicyOutcome.DENY
    matches = decision.rule is not None and decision.outcome is wanted
    if matches is (example.field == "match"):
        return None
    if matches:
        part = f", by its part {decision.parts[0]!r}" if decision.parts else ""
        return f"example {example.text} is one the rule matches{part}"
    found = f"{decision.outcome} ({decision.reason})" if decision.rule else "not its own"
    return f"example {example.text} is not matched: by this rule alone the decision is {found}"


def load_text(text: str, *, file: str, tier: Tier) -> LoadedPolicies:
    """The rules of one file's text; `file` is its name for people."""
    import tomllib

    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        remedy = "Correct it there; until then none of its rules hold."
        return _failed_policies(file, f"is not TOML: {error}", remedy)
    parts: list[LoadedPolicies] = []
    for kind in (_RULE, _CHECKER):
        tables = document.pop(kind, [])
        if isinstance(tables, list):
            items = cast("list[Any]", tables)
            lines = _lines(text, kind, len(items))
            parts.append(load_tables(items, file=file, tier=tier, lines=lines, kind=kind))
        else:
            message = f"has a {kind} that is not written as [[{kind}]]"
            parts.append(
                _failed_policies(file, message, f"Put two brackets around the word {kind}.")
            )
    unknown = [_unknown_member(file, name, value) for name, value in document.items()]
    return LoadedPolicies.join([*parts, LoadedPolicies((), tuple(unknown))])


def load_file(path: Path, tier: Tier) -> LoadedPolicies:
    """The rules of one regular file, in UTF-8, at most 1 MiB."""
    name = str(path)
    try:
        raw = _read(path)
    except OSError as error:
        return _failed_policies(name, f"cannot be read: {error.strerror or error}", _READABLE)
    if raw is None:
        return _failed_policies(name, "is not a regular file", "Put the rules into a file there.")
    if len(raw) > MAX_FILE_BYTES:
        return _failed_policies(name, f"is larger than {MAX_FILE_BYTES} bytes", "Split it.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        message = f"is not UTF-8 (byte {error.start}, line {line})"
        return _failed_policies(name, message, "Save it as UTF-8.")
    return load_text(text, file=name, tier=tier)


def _read(path: Path) -> bytes | None:
    """The bytes of a regular file, up to one too many; None for anything else."""
    # A FIFO would block on open, and a device may never end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return file.read(MAX_FILE_BYTES + 1)


def load_directory(path: Path, tier: Tier) -> LoadedPolicies:
    """All `*.toml` of a directory, in the order of their names. A missing directory is empty. Those
    that look like policies and are not read are problems."""
    try:
        every = sorted(os.listdir(path))
    except FileNotFoundError:
        return LoadedPolicies()
    except OSError as error:
        return _failed_policies(str(path), f"cannot be read: {error.strerror or error}", _READABLE)
    names = [name for name in every if name.endswith(".toml")]
    unread = [
        _failed_policies(str(each), _UNREAD, f"Name it {each.stem}.toml in {path}.")
        for name in every
        for each in _unread(path / name)
    ]
    return LoadedPolicies.join((*(load_file(path / name, tier) for name in names), *unread))


_UNREAD = "is not read: policies are the *.toml files of the folder itself"


def _unread(path: Path) -> Iterator[Path]:
    """Files that look like policies: in a folder below, or called `.TOML`."""
    if path.name.endswith(".toml") or path.name.startswith("."):
        return
    if path.name.lower().endswith(".toml"):
        yield path
    elif path.is_dir():
        for top, _, names in os.walk(path):
            yield from (Path(top, name) for name in names if name.lower().endswith(".toml"))


def _failed_policies(file: str, message: str, remedy: str) -> LoadedPolicies:
    return LoadedPolicies((), (PolicyProblem(file=file, message=message, remedy=remedy),))


def _unknown_member(file: str, name: str, value: Any) -> PolicyProblem:
    """The problem of an unknown member: a table may have been meant as a rule, a value not."""
    if not isinstance(value, dict | list):
        return PolicyProblem(
            file=file, field=name, message="is ignored", level=ProblemLevel.WARNING, weakens=False
        )
    near = next((known for known in (_RULE, _CHECKER) if name.lower().startswith(known)), None)
    remedy = f"Remove it; a policy file holds [[rule]] and [[{_CHECKER}]] tables."
    return PolicyProblem(
        file=file,
        field=name,
        message="is not known here, and nothing of it holds",
        remedy=f"Write [[{near}]]." if near else remedy,
    )


_HEAD = r"""[ \t]*\[\[[ \t]*(["']?)([A-Za-z0-9_-]+)\1[ \t]*\]\]"""


def _lines(text: str, table: str, count: int) -> list[int]:
    """The first line of each of `count` tables; nothing if other lines look like one, too."""
    lines_of_text = enumerate(text.split("\n"), start=1)
    heads = ((number, re.match(_HEAD, line)) for number, line in lines_of_text)
    lines = [number for number, head in heads if head is not None and head[2] == table]
    return lines if len(lines) == count else []
