"""Safety checkers: their questions and answers (protocol 1.0.0), their [[safety_checker]] tables,
and the built-in allowed-path."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, assert_never, cast

import msgspec
from msgspec.structs import replace

from alhena.config.documents import read_value
from alhena.policy.conditions import path_arguments, text_arguments
from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule, RuleError, Tier
from alhena.policy.parse import ParsedRule, RulePlace, parse_rule, read_field
from alhena.shell.secret_files import is_secret_name
from alhena.values import Value

PROTOCOL_VERSION = "1.0.0"
NAMES = re.compile(r"[a-z0-9-]+")


class CheckerType(StrEnum):
    """The kind of a checker: a function of this program, or a program of its own."""

    IN_PROCESS = "in-process"
    EXTERNAL = "external"


class ContextPart(StrEnum):
    """A part of the context that a checker can ask for."""

    ENVIRONMENT = "environment"
    HISTORY = "history"


class SafetyChecker(Value, frozen=True, kw_only=True):
    """One `[[safety_checker]]`: `rule` says for which calls, how strong (its priority) and where it
    is written; it denies. `number` counts the checkers of a file from 1. `required_context` None
    means all there is. `config` goes to the checker as it is."""

    name: str
    type: CheckerType
    rule: PolicyRule
    number: int | None = None
    required_context: tuple[ContextPart, ...] | None = None
    config: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])

    @property
    def label(self) -> str:
        """The checker in words: its name and where it is written."""
        return f'the safety checker "{self.name}" ({self.rule.source})'


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """The call: the declared name of the tool, its arguments as they will be used."""

    name: str
    args: dict[str, Any]


class Environment(Value, frozen=True, kw_only=True):
    """The directories of the session: absolute paths, symbolic links resolved."""

    cwd: str
    workspaces: tuple[str, ...]


class UserTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the user."""

    text: str


class ModelTurn(Value, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An answer of the model."""

    text: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()


class ConversationTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its answer."""

    user: UserTurn
    model: ModelTurn


class ConversationHistory(Value, frozen=True, kw_only=True):
    """The conversation so far, the oldest turn first."""

    turns: tuple[ConversationTurn, ...] = ()


HistorySource = Callable[[], ConversationHistory]


class PolicyState(Value, frozen=True, kw_only=True):
    """The policy at the call: the approval mode, the decision so far, and the place where the rule
    that decided is written (None: no rule did)."""

    mode: ApprovalMode
    decision: PolicyOutcome
    rule: str | None = None


class CheckContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The context of a question to a checker; None for parts it did not ask for. The state of the
    policy is always there."""

    policy: PolicyState
    environment: Environment | None = None
    history: ConversationHistory | None = None


class CheckInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A question to a checker: for an external one, the JSON object on its standard input."""

    tool_call: ToolCall
    context: CheckContext
    config: dict[str, Any]
    protocol_version: str = PROTOCOL_VERSION


class CheckerVerdict(Value, frozen=True):
    """The answer of a checker; further keys are allowed. `reason` may be missing from an allow."""

    decision: PolicyOutcome
    reason: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decision is not PolicyOutcome.ALLOW and not (self.reason or "").strip():
            raise ValueError(f"the decision {self.decision} has no reason")


class CheckerError(Exception):
    """A safety checker cannot be found, cannot be run, or gave no valid answer; the text says why.
    Whoever asked it has to take that as a denial."""


ALLOWED_PATH = "allowed-path"
SEGMENTS = {
    ".git": PolicyOutcome.DENY,
    ".gemini": PolicyOutcome.DENY,
    ".env": PolicyOutcome.DENY,
    "node_modules": PolicyOutcome.DENY,
    ".vscode": PolicyOutcome.ASK_USER,
}
"""Files and directories of such a name, in any spelling of it, and all below them: they decide what
programs do, or hold secrets."""

_SCHEME = "file:"


class AllowedPathConfig(Value, frozen=True, forbid_unknown_fields=True):
    """Arguments that hold paths though their names do not say so, and those that hold none though
    they do. Nested ones are named `a.b`."""

    included_args: tuple[str, ...] = ()
    excluded_args: tuple[str, ...] = ()


def allowed_path_config(config: dict[str, object]) -> AllowedPathConfig:
    """The configuration. Raises ValueError."""
    return read_value(config, AllowedPathConfig)


def check_paths(asked: CheckInput) -> CheckerVerdict:
    """The strictest verdict on the paths of a call; the first such, in the order of arguments.

    Looks at the file system as it is now: symbolic links count where they lead, of what does not
    exist the nearest directory above it. Raises CheckerError.
    """
    environment = asked.context.environment
    if environment is None:
        raise CheckerError("it is not told which directories are the workspace's")
    try:
        config = allowed_path_config(asked.config)
    except ValueError as error:
        raise CheckerError(f"its config cannot be used: {error}") from error
    question: CheckerVerdict | None = None
    for key, path in _paths(asked, config):
        verdict = _verdict(path, key, environment)
        match verdict.decision:
            case PolicyOutcome.DENY:
                return verdict
            case PolicyOutcome.ASK_USER:
                question = question or verdict
            case PolicyOutcome.ALLOW:
                pass
            case _:
                assert_never(verdict.decision)
    return question or CheckerVerdict(PolicyOutcome.ALLOW)


def _paths(asked: CheckInput, config: AllowedPathConfig) -> Iterator[tuple[str, str]]:
    args = asked.tool_call.args
    excluded, included = frozenset(config.excluded_args), frozenset(config.included_args)
    yield from (pair for pair in path_arguments(args) if pair[0] not in excluded)
    if included:
        yield from ((name, text) for name, _, text in text_arguments(args) if name in included)


def _verdict(path: str, key: str, environment: Environment) -> CheckerVerdict:
    said = f'Path "{path}" in argument "{key}"'
    try:
        places = list(_places(path, environment.cwd))
    except ValueError:  # a NUL, or half of a surrogate pair
        return CheckerVerdict(PolicyOutcome.DENY, f"{said} can name no file.")
    strictest = CheckerVerdict(PolicyOutcome.ALLOW)
    for written, real in places:
        inside = _below(real, environment)
        if inside is None:
            reason = f"{said} is outside of the allowed workspace directories."
            return CheckerVerdict(PolicyOutcome.DENY, reason)
        spelled = _below(written, environment) or ""
        for name in map(_fold_name, (*spelled.split(os.sep), *inside.split(os.sep))):
            key = ".env" if name.startswith(".env.") and is_secret_name(name) else name
            outcome = SEGMENTS.get(key, PolicyOutcome.ALLOW)
            if outcome is PolicyOutcome.DENY:
                return CheckerVerdict(outcome, f"{said} lies in {name}, which is protected.")
            if outcome is PolicyOutcome.ASK_USER:
                strictest = CheckerVerdict(outcome, f"{said} lies in {name}, which needs approval.")
    return strictest


def _places(path: str, cwd: str) -> Iterator[tuple[str, str]]:
    """The normalised paths a tool may take this for, each with its real place: links followed
    before `..` counts, as the system does it, and after, as tools do it. Raises ValueError."""
    for meaning in _meanings(path):
        written = os.path.join(cwd, meaning)
        spelled = os.path.normpath(written)
        yield spelled, os.path.realpath(written)
        yield spelled, os.path.realpath(spelled)


def _meanings(path: str) -> Iterator[str]:
    """The path as it is, without the blanks around it, behind an "@"; each from home, as a URL."""
    bare = path.strip()
    for text in dict.fromkeys((path, bare, bare.removeprefix("@"))):
        yield text
        if text.startswith("~"):
            yield os.path.expanduser(text)
        if text[: len(_SCHEME)].lower() == _SCHEME:
            from urllib.parse import unquote

            rest = text[len(_SCHEME) :]
            yield unquote("/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest)


def _below(path: str, environment: Environment) -> str | None:
    """`path` relative to a directory of the session; None outside of all."""
    for top in (environment.cwd, *environment.workspaces):
        if path == top:
            return ""
        if path.startswith(top.rstrip(os.sep) + os.sep):
            return path[len(top.rstrip(os.sep)) + 1 :]
    return None


def _fold_name(segment: str) -> str:
    """A name as a file system may read it that ignores case, invisible characters, and dots and
    blanks at the end."""
    if not segment.isascii():
        from unicodedata import category, normalize

        segment = "".join(c for c in normalize("NFKC", segment) if category(c) != "Cf")
    return segment.casefold().rstrip(" .")


TABLE = "safety_checker"
_CONDITIONS = ("toolName", "mcpName", "argsPattern", "commandPrefix", "commandRegex",
               "commandClass", "paths", "modes", "interactive")  # fmt: skip
_SHELL = frozenset({"commandPrefix", "commandRegex", "commandClass"})
_NOTES = frozenset({"description"})
_CHECKER = frozenset({"type", "name", "required_context", "config"})
_KINDS = "There are {}.".format(", ".join(f'"{item}"' for item in CheckerType))
_PARTS = "Write an array of {}.".format(", ".join(f'"{item}"' for item in ContextPart))


def parse_checker(
    table: Mapping[str, Any], *, tier: Tier, place: RulePlace
) -> tuple[ParsedRule, SafetyChecker]:
    """The conditions of the checker that a table describes, and the checker. The conditions are
    those of a rule, its priority is 0 when none is given. Without conditions it is for every call.

    Raises RuleError.
    """
    written = table.get("checker")
    if not isinstance(written, Mapping):
        message = "is missing" if written is None else f"is no table, but {written!r}"
        raise RuleError("checker", message, f"Write it under [{TABLE}.checker].")
    fields = cast("Mapping[str, Any]", written)
    kind: CheckerType = read_field(fields, "checker.type", CheckerType, _KINDS, needed=True)
    parts = read_field(fields, "checker.required_context", list[ContextPart], _PARTS)
    checker = SafetyChecker(
        name=_name(fields, kind),
        type=kind,
        rule=_rule(table, tier, place),
        number=place.number,
        required_context=None if parts is None else tuple(dict.fromkeys(parts)),
        config=_config(fields, kind),
    )
    unknown = next((key for key in fields if key not in _CHECKER), None)
    if unknown is not None:
        known = ", ".join(sorted(_CHECKER))
        raise RuleError(f"checker.{unknown}", "is no field of a checker", f"There are {known}.")
    return ParsedRule(checker.rule, (), _strange(table)), checker


def _rule(table: Mapping[str, Any], tier: Tier, place: RulePlace) -> PolicyRule:
    """The conditions, as a rule that denies: uncertain ones count as fulfilled."""
    fields = {key: table[key] for key in _CONDITIONS if key in table}
    if not _SHELL.intersection(fields) and "mcpName" not in fields:
        fields.setdefault("toolName", "*")
    fields |= {"decision": "deny", "priority": table.get("priority", 0)}
    rule = parse_rule(fields, tier=tier, place=place).rule
    line = "" if place.line is None else f":{place.line}"
    return replace(rule, source=f"{place.file}{line}, {TABLE} {place.number}")


def _name(fields: Mapping[str, Any], kind: CheckerType) -> str:
    remedy = "Write lower-case letters, digits and dashes."
    name: str = read_field(fields, "checker.name", str, remedy, needed=True)
    if NAMES.fullmatch(name) is None:
        raise RuleError("checker.name", f"cannot be {name!r}", remedy)
    if kind is CheckerType.IN_PROCESS and name != ALLOWED_PATH:
        message = f"names no checker of this program: {name!r}"
        raise RuleError("checker.name", message, f'There is "{ALLOWED_PATH}".')
    return name


def _config(fields: Mapping[str, Any], kind: CheckerType) -> dict[str, Any]:
    kept: Any = read_field(fields, "checker.config", dict[str, Any], "Write a table.")
    if kind is CheckerType.IN_PROCESS:
        remedy = "Write included_args and excluded_args, arrays of strings."
        read_field(fields, "checker.config", AllowedPathConfig, remedy)
    return kept or {}


def _strange(table: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Keys that mean nothing here. A condition that is lost only makes a checker look at more."""
    known = {*_CONDITIONS, *_NOTES, "priority", "checker"}
    return tuple(
        (key, f"is no field of a {TABLE}; it is ignored") for key in table if key not in known
    )
