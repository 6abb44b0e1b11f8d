"""Policy files to rules (POL-02, POL-03). What cannot be used is a problem with a place and a
reason, and everything else still loads."""

import os
import stat
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from alhena.policy.model import PolicyRule, Tier
from alhena.policy.parse import RuleError, parse_rule

MAX_FILE_BYTES = 1024 * 1024


class ProblemLevel(StrEnum):
    """ERROR: something that was written does not hold. WARNING: it holds, but oddly."""

    ERROR = "error"
    WARNING = "warning"


class PolicyProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong where. `rule` and `line` count from 1. `weakens`: what was dropped may have
    restricted something."""

    file: str
    message: str
    rule: int | None = None
    field: str | None = None
    line: int | None = None
    level: ProblemLevel = ProblemLevel.ERROR
    weakens: bool = True

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        rule = "" if self.rule is None else f" rule {self.rule},"
        field = "" if self.field is None else f" {self.field}"
        return f"{place}:{rule}{field} {self.message}"


class LoadedPolicies(msgspec.Struct, frozen=True):
    """Rules in the order they were read, and the problems met on the way."""

    rules: tuple[PolicyRule, ...] = ()
    problems: tuple[PolicyProblem, ...] = ()

    @classmethod
    def joined(cls, parts: Iterable["LoadedPolicies"]) -> "LoadedPolicies":
        """All of `parts`, in order."""
        rules: list[PolicyRule] = []
        problems: list[PolicyProblem] = []
        for part in parts:
            rules += part.rules
            problems += part.problems
        return cls(tuple(rules), tuple(problems))


def load_tables(
    tables: Iterable[Any], *, file: str, tier: Tier, lines: Iterable[int | None] = ()
) -> LoadedPolicies:
    """The rules of `[[rule]]` tables; a bad one is dropped and named. `lines` say where each
    begins, as far as known."""
    rules: list[PolicyRule] = []
    problems: list[PolicyProblem] = []
    places = list(lines)
    for number, table in enumerate(tables, start=1):
        place = PolicyProblem(
            file=file,
            rule=number,
            line=places[number - 1] if number <= len(places) else None,
            message="is no table",
        )
        if not isinstance(table, Mapping):
            problems.append(place)
            continue
        fields = cast("Mapping[str, Any]", table)
        try:
            parsed = parse_rule(fields, tier=tier, source=f"{file}, rule {number}")
        except RuleError as error:
            weakens = fields.get("decision") != "allow"
            problem = replace(place, field=error.field, message=error.message, weakens=weakens)
            problems.append(problem)
            continue
        rules.append(parsed.rule)
        problems += [
            replace(place, field=field, message=message, level=ProblemLevel.WARNING)
            for field, message in parsed.warnings
        ]
    return LoadedPolicies(tuple(rules), tuple(problems))


def load_text(text: str, *, file: str, tier: Tier) -> LoadedPolicies:
    """The rules of one file's text; `file` is its name for people."""
    import tomllib

    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return _failed(file, f"is not TOML: {error}. None of its rules hold.")
    tables = document.pop("rule", [])
    if not isinstance(tables, list):
        return _failed(file, "rule must be written as [[rule]], with two brackets")
    rules = cast("list[Any]", tables)
    unknown = [_unknown_table(file, name) for name in document]
    loaded = load_tables(rules, file=file, tier=tier, lines=_rule_lines(text, len(rules)))
    return LoadedPolicies.joined([loaded, LoadedPolicies((), tuple(unknown))])


def load_file(path: Path, tier: Tier) -> LoadedPolicies:
    """The rules of one regular file, in UTF-8, at most 1 MiB."""
    name = path.name if tier is Tier.DEFAULT else str(path)
    try:
        raw = _read(path)
    except OSError as error:
        return _failed(name, f"cannot be read: {error.strerror or error}")
    if raw is None:
        return _failed(name, "is not a regular file")
    if len(raw) > MAX_FILE_BYTES:
        return _failed(name, f"is larger than {MAX_FILE_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _failed(name, f"is not UTF-8 (byte {error.start})")
    return load_text(text, file=name, tier=tier)


def _read(path: Path) -> bytes | None:
    """What is in a regular file, up to one byte too many; None for anything else."""
    # A FIFO would block on open, and a device may never end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return file.read(MAX_FILE_BYTES + 1)


def load_directory(path: Path, tier: Tier) -> LoadedPolicies:
    """All `*.toml` of a directory, in the order of their names. A missing directory is empty."""
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(".toml"))
    except FileNotFoundError:
        return LoadedPolicies()
    except OSError as error:
        return _failed(str(path), f"cannot be read: {error.strerror or error}")
    return LoadedPolicies.joined(load_file(path / name, tier) for name in names)


def _failed(file: str, message: str) -> LoadedPolicies:
    return LoadedPolicies((), (PolicyProblem(file=file, message=message),))


def _unknown_table(file: str, name: str) -> PolicyProblem:
    hint = "; rules are written as [[rule]]" if name.lower().startswith("rule") else ""
    return PolicyProblem(
        file=file, field=name, message=f"is not known here, and nothing of it holds{hint}"
    )


def _rule_lines(text: str, count: int) -> list[int]:
    """Where each `[[rule]]` begins, unless a multi-line string makes that uncertain."""
    lines = [
        number
        for number, line in enumerate(text.split("\n"), start=1)
        if line.partition("#")[0].replace(" ", "").strip() == "[[rule]]"
    ]
    return lines if len(lines) == count else []
