"""Rules, calls and decisions as values, and the regular expressions of rules.

The standard `re` cannot be interrupted, so one bad pattern would hang the process. `regex` takes a
timeout; it is imported by the first rule that has a pattern.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, IntEnum, StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Self, TypedDict, Unpack, assert_never

import msgspec
from msgspec.structs import force_setattr

from alhena.values import FieldError, Value, fold_name, fold_names

if TYPE_CHECKING:
    from regex import Match, Pattern

    from alhena.policy.surroundings import Surroundings


MAX_PATTERN_LENGTH = 2048
BUDGET_SECONDS = 0.05


class _Unknown(Enum):
    """The answer for a pattern that could not be run to its end."""

    UNKNOWN = 0


_UNKNOWN = _Unknown.UNKNOWN


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> "Pattern[str]":
    """The compiled pattern. Raises ValueError, with a reason for people, when it cannot be used."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError(
            f"is {len(pattern)} characters long, at most {MAX_PATTERN_LENGTH} are allowed"
        )
    import regex

    try:
        return regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        raise ValueError(f"is not a regular expression: {error}") from error


def to_word_end(pattern: str) -> str:
    """`pattern` for matches in a command that end where a word does."""
    return rf"(?:{pattern})(?:(?!\S)|(?<=\s))"


def to_word_end_in_json(pattern: str) -> str:
    """The same for a command in JSON, where quotes, tabs and line breaks are escaped."""
    return rf'(?:{pattern})(?:(?=\s|"|\\[nt])|(?<=\s|[^\\]")|\Z)'


class PatternClock:
    """Runs patterns within one time budget for a whole decision, in seconds of this thread's CPU.

    Each question is answered True or False, or None when the pattern could not be run to its end.
    """

    __slots__ = ("_left",)

    def __init__(self, seconds: float = BUDGET_SECONDS) -> None:
        self._left = seconds

    def search(self, pattern: str, text: str) -> bool | None:
        """Does `pattern` match anywhere in `text`?"""
        return self._run(pattern, text, anywhere=True, partial=False)

    def starts(self, pattern: str, text: str) -> bool | None:
        """Does `pattern` match at the start of `text`?"""
        return self._run(pattern, text, anywhere=False, partial=False)

    def could_start(self, pattern: str, text: str) -> bool | None:
        """Could it, if more text followed?"""
        return self._run(pattern, text, anywhere=False, partial=True)

    def could_search(self, pattern: str, text: str) -> bool | None:
        """Could a match that begins inside `text` be completed by more text?"""
        return self._run(pattern, text, anywhere=True, partial=True)

    def reach(self, pattern: str, text: str, start: int) -> int | None:
        """The end of the match that begins at or before `start`; 0 when there is none."""
        best = 0
        for position, anywhere in ((start, False), (0, True)):
            found = self._find(pattern, text, position=position, anywhere=anywhere)
            if found is _UNKNOWN:
                return None
            if found and found.start() <= start:
                best = max(best, found.end())
        return best

    def _run(self, pattern: str, text: str, *, anywhere: bool, partial: bool) -> bool | None:
        found = self._find(pattern, text, anywhere=anywhere, partial=partial)
        if found is _UNKNOWN:
            return None
        if found is None:
            return False
        return not (anywhere and partial and found.partial and found.start() == len(text))

    def _find(
        self, pattern: str, text: str, *, anywhere: bool, partial: bool = False, position: int = 0
    ) -> "Match[str] | _Unknown | None":
        if self._left <= 0:
            return _UNKNOWN
        started = time.thread_time()
        try:
            compiled = compile_pattern(pattern)
            method = compiled.search if anywhere else compiled.match
            return method(text, pos=position, timeout=self._left, partial=partial)
        except (TimeoutError, ValueError, RecursionError, MemoryError):
            return _UNKNOWN
        finally:
            self._left -= time.thread_time() - started


def stable_json(args: Mapping[str, Any]) -> str:
    """`args` as compact JSON: keys sorted at every level, no spaces, non-ASCII as itself.

    The same arguments always give the same text, so `"command":"(git|npm)` is a usable pattern.
    A lone surrogate becomes its \\uXXXX escape. Raises ValueError for what has no JSON form or is
    nested too deeply.
    """
    try:
        return msgspec.json.encode(args, order="sorted").decode("utf-8")
    except UnicodeEncodeError:
        return _escaped(args)
    except (TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"the arguments have no JSON form: {error}") from error


def _escaped(args: Mapping[str, Any]) -> str:
    import json

    text = json.dumps(
        args, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)


class PolicyOutcome(StrEnum):
    """The outcome of a rule or a decision."""

    ALLOW = "allow"
    DENY = "deny"
    ASK_USER = "ask_user"


class ApprovalMode(StrEnum):
    """The mode that says which calls run without asking; rules may be bound to modes."""

    DEFAULT = "default"
    AUTO_EDIT = "autoEdit"
    YOLO = "yolo"
    PLAN = "plan"

    @classmethod
    def _missing_(cls, value: object) -> "ApprovalMode | None":
        """`auto_edit`, as flags write it, is `autoEdit`."""
        return cls.AUTO_EDIT if value == "auto_edit" else None


class Tier(IntEnum):
    """The authority of whoever wrote a rule; a higher tier always wins."""

    DEFAULT = 1
    USER = 2
    ADMIN = 3


class CommandClass(StrEnum):
    """A kind of shell commands that a rule can name."""

    READ_ONLY = "read-only"


MAX_PRIORITY = 999
SHELL_NAMES = frozenset({"run_shell_command", "ShellTool", "shell"})


def is_shell_name(name: str) -> bool:
    """Is this a name of the shell tool?"""
    return fold_name(name) in fold_names(tuple(SHELL_NAMES))


"""Every name of the one tool whose `command` argument rules can look at."""


def check_pattern(pattern: str) -> None:
    """Raises ValueError, with a reason for people, for a pattern that cannot be used."""
    # A parameter's name as JSON has it is a valid pattern; what compiles patterns is slow to load.
    name = pattern.removeprefix('"').removesuffix('":')
    if pattern == f'"{name}":' and name.isidentifier() and name.isascii() and len(name) < 100:
        return
    compile_pattern(pattern)


class RuleConditions(TypedDict, total=False):
    """The conditions of a rule in code, and what it says.

    `command_prefix`: a text, or several. `paths`: gitignore patterns. `when`: a function of the
    arguments. `message`: the reason of a denial for the model. `priority`: 0 to 999, default 500.
    The others are fields of Rule.
    """

    command_prefix: str | Sequence[str]
    command_regex: str
    paths: Sequence[str]
    args_pattern: str
    when: Callable[[dict[str, Any]], bool]
    message: str
    priority: int
    mcp_name: str
    modes: Sequence[ApprovalMode | str]
    interactive: bool
    allow_redirection: bool
    subagent: str


class Rule(Value, frozen=True, kw_only=True):
    """One rule. `priority` orders the rules of a `tier`, which is that of whoever wrote the rule: a
    rule that a program gives to an agent is a user's, whatever it says (`policy/gather.py`).

    `tool_names` empty means every tool (of `mcp_name`, when that is set). `args_pattern` is
    searched in the stable JSON of the arguments, `paths` are gitignore patterns for the files a
    call would touch; `command_prefixes`, `command_regex` and `command_class` look at the `command`
    argument of run_shell_command. `source` says where the rule is written, for
    people; `file` and `line` (from 1) say it for programs, and `layer` says whose rule it is where
    the tier does not. `subagent` limits the rule to the calls of that agent. `when`, for rules of a
    program, is called with the arguments of a call; the call is denied if it raises.

    Blanks around names are removed; an empty text, a name with a wildcard that is not at its end,
    or a pattern that is no regular expression, raises FieldError.
    """

    decision: PolicyOutcome
    priority: Annotated[int, msgspec.Meta(ge=0, le=MAX_PRIORITY)]
    tier: Tier = Tier.USER
    tool_names: tuple[str, ...] = ()
    mcp_name: str | None = None
    args_pattern: str | None = None
    command_prefixes: tuple[str, ...] = ()
    command_regex: str | None = None
    command_class: CommandClass | None = None
    paths: tuple[str, ...] = ()
    modes: tuple[ApprovalMode, ...] = ()
    interactive: bool | None = None
    allow_redirection: bool = False
    deny_message: str | None = None
    source: str = ""
    file: str | None = None
    line: int | None = None
    layer: str | None = None
    subagent: str | None = None
    when: Callable[[dict[str, Any]], bool] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "tool_names", tuple(name.strip() for name in self.tool_names))
        if self.mcp_name is not None:
            force_setattr(self, "mcp_name", self.mcp_name.strip())
        patterns = (self.args_pattern, self.command_regex)
        texts = (*self.tool_names, self.mcp_name, *self.command_prefixes, *patterns)
        if self.when is not None and not callable(self.when):
            raise FieldError(f"Rule.when has to be a function, not {self.when!r:.60}.")
        if self.when is not None:
            from inspect import iscoroutinefunction

            if iscoroutinefunction(self.when):  # what it returns would be true whatever it says
                raise FieldError(
                    f"Rule.when has to be a function that is not async, not {self.when!r:.60}."
                )
        if not all(text is None or text.strip() for text in texts):
            raise FieldError("a name, prefix or pattern of Rule is empty: leave it out.")
        for name in self.tool_names:
            if "*" in name[:-1]:
                raise FieldError(
                    f"Rule: {name!r} has a wildcard that is not at its end. Use SERVER__*, or "
                    "the name of one tool."
                )
        for pattern in filter(None, patterns):
            try:
                check_pattern(pattern)
            except ValueError as error:
                raise FieldError(f"a pattern of Rule, {pattern!r:.100}, {error}.") from error

    @classmethod
    def allow(cls, tool: str, **conditions: Unpack[RuleConditions]) -> Self:
        """A rule that lets calls of a tool ("*": any) run without asking. Of rules with equal
        priority the first one counts."""
        return cls._make(PolicyOutcome.ALLOW, tool, conditions)

    @classmethod
    def deny(cls, tool: str, **conditions: Unpack[RuleConditions]) -> Self:
        """A rule that denies calls of a tool ("*": any)."""
        return cls._make(PolicyOutcome.DENY, tool, conditions)

    @classmethod
    def ask(cls, tool: str, **conditions: Unpack[RuleConditions]) -> Self:
        """A rule that has calls of a tool ("*": any) approved."""
        return cls._make(PolicyOutcome.ASK_USER, tool, conditions)

    @classmethod
    def _make(cls, decision: PolicyOutcome, tool: str, conditions: RuleConditions) -> Self:
        for name in conditions:
            if name not in RuleConditions.__annotations__:
                known = ", ".join(RuleConditions.__annotations__)
                raise TypeError(f"a rule has no condition {name!r}; it may have {known}")
        fields: dict[str, Any] = {"priority": 500, "source": "the program", **conditions}
        prefix = fields.pop("command_prefix", ())
        return cls(
            decision=decision,
            tool_names=() if tool == "*" else (tool,),
            command_prefixes=(prefix,) if isinstance(prefix, str) else tuple(prefix),
            deny_message=fields.pop("message", None),
            **fields,
        )

    @property
    def on_commands(self) -> bool:
        """Does the rule speak of shell commands, and so of no other tool?"""
        return bool(self.command_prefixes or self.command_regex or self.command_class)

    @property
    def on_arguments(self) -> bool:
        """Does the rule depend on the arguments at all?"""
        return bool(self.args_pattern or self.paths or self.when or self.on_commands)

    @property
    def final_priority(self) -> float:
        """The order among the rules of all tiers: tier + priority/1000."""
        return self.tier + self.priority / 1000

    @property
    def author(self) -> str:
        """Whose rule this is: default, user, admin, or what `layer` says (workspace, extension)."""
        return self.layer or self.tier.name.lower()


PolicyRule = Rule
"""Its name inside of alhena."""


class PolicyCall(Value, frozen=True, kw_only=True):
    """A call to decide on. `names` are all names of the tool (declared first, then aliases)."""

    names: tuple[str, ...]
    args: dict[str, Any]
    server_name: str | None = None

    @property
    def is_shell(self) -> bool:
        """Is this a call of the built-in shell tool? A server's tool never is, whatever its
        name."""
        return self.server_name is None and not SHELL_NAMES.isdisjoint(self.names)


class PolicyContext(Value, frozen=True, kw_only=True):
    """The circumstances of a decision. Without `surroundings` nothing is known of directories;
    `subagent` is the agent that calls, None the session itself."""

    mode: ApprovalMode = ApprovalMode.DEFAULT
    interactive: bool = True
    surroundings: "Surroundings | None" = None
    subagent: str | None = None


class Decision(Value, frozen=True, kw_only=True):
    """A decision with its reason. `rule` is None when no rule matched; `parts` are the pieces of a
    shell command that decided it."""

    outcome: PolicyOutcome
    reason: str
    rule: Rule | None = None
    parts: tuple[str, ...] = ()

    @property
    def deny_message(self) -> str | None:
        """The rule's own words for a refusal."""
        return self.rule.deny_message if self.rule else None

    @property
    def rule_source(self) -> str:
        """The author of the rule and where it is written, "" if no rule matched."""
        if self.rule is None:
            return ""
        return f"{self.rule.author} ({self.rule.source})" if self.rule.source else self.rule.author


_STRICTNESS = (PolicyOutcome.ALLOW, PolicyOutcome.ASK_USER, PolicyOutcome.DENY)


def describe_rule(rule: Rule) -> str:
    """A rule in words: its author and where it is written."""
    where = f" ({rule.source})" if rule.source else ""
    return f"the {rule.author} policy{where}"


def rule_decision(rule: Rule, parts: tuple[str, ...] = ()) -> Decision:
    """The decision of a rule that matches."""
    reason = f"{outcome_words(rule.decision)} by {describe_rule(rule)}"
    return Decision(outcome=rule.decision, reason=reason, rule=rule, parts=parts)


def default_decision(call: PolicyCall, parts: tuple[str, ...] = ()) -> Decision:
    """The decision where no rule matches."""
    return Decision(
        outcome=PolicyOutcome.ASK_USER,
        reason=f"approval required: no rule matches {call.names[0]}",
        parts=parts,
    )


def strictness(decision: Decision) -> int:
    """Allow is 0, ask_user 1, deny 2."""
    return _STRICTNESS.index(decision.outcome)


def outcome_words(outcome: PolicyOutcome) -> str:
    """The outcome as messages say it."""
    match outcome:
        case PolicyOutcome.ALLOW:
            return "allowed"
        case PolicyOutcome.ASK_USER:
            return "approval required"
        case PolicyOutcome.DENY:
            return "denied"
        case _ as never:
            assert_never(never)


class RuleError(Exception):
    """A table that is no rule: the field, what is wrong with it, and what to do."""

    def __init__(self, field: str, message: str, remedy: str) -> None:
        super().__init__(f"{field}: {message}. {remedy}")
        self.field = field
        self.message = message
        self.remedy = remedy
