"""Decides calls by the rules of a session; filters can make a decision stricter, never laxer."""

from bisect import insort
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from alhena.policy.conditions import (
    SECRETS,
    Conditions,
    names_tool,
)
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    Tier,
)
from alhena.values import Value

if TYPE_CHECKING:
    from alhena.shell.parse.model import Part


MAX_KNOWN = 1024
"""Programs, and tools, whose rules are remembered: a model can make up names without end."""


class RuleCandidate(Value, frozen=True):
    """A rule, the programs that its prefixes are about (None: perhaps any) and the words that have
    to follow for it to allow something (None: perhaps none)."""

    rule: PolicyRule
    programs: frozenset[str | None]
    following: frozenset[str] | None

    def may_speak_of(self, programs: frozenset[str | None]) -> bool:
        """Could the rule mean a command of one of these programs, going by their names?"""
        return not self.programs or None in self.programs or not self.programs.isdisjoint(programs)


class _ProgramRules:
    """The rules that could be meant for a program, and which are left by the word after it."""

    __slots__ = ("_by_word", "_words", "candidates")

    def __init__(self, candidates: list[RuleCandidate]) -> None:
        self.candidates = candidates
        self._words = frozenset[str]().union(*(each.following or () for each in candidates))
        self._by_word: dict[str | None, list[PolicyRule]] = {}

    def rules_deciding(self, word: str | None) -> list[PolicyRule]:
        known = word if word in self._words else None
        found = self._by_word.get(known)
        if found is None:
            found = self._by_word[known] = [
                each.rule
                for each in self.candidates
                if each.rule.decision is not PolicyOutcome.ALLOW
                or each.following is None
                or known in each.following
            ]
        return found


class ActiveRules:
    """`rules`, the strongest first. Which of them can speak of a command is looked up once for
    each program."""

    __slots__ = ("_candidates", "_spoken", "rules", "with_predicates")

    def __init__(self, rules: list[PolicyRule]) -> None:
        self.rules = rules
        self.with_predicates = any(rule.when is not None for rule in rules)
        self._candidates: list[RuleCandidate] | None = None
        self._spoken: dict[frozenset[str | None], _ProgramRules] = {}

    def candidates_for(self, programs: frozenset[str | None]) -> list[RuleCandidate]:
        """The rules that could be meant for a command that runs these programs (None: any), the
        strongest first: all but those for prefixes of other programs."""
        return self._of(programs).candidates

    def rules_deciding(self, programs: frozenset[str | None], part: "Part") -> list[PolicyRule]:
        """Those of them that can decide about the part: all but allow rules for other words."""
        words = part.words
        return self._of(programs).rules_deciding(words[1].text if len(words) > 1 else None)

    def _of(self, programs: frozenset[str | None]) -> _ProgramRules:
        found = self._spoken.get(programs)
        if found is None:
            if len(self._spoken) >= MAX_KNOWN:
                self._spoken.clear()
            found = self._spoken[programs] = _ProgramRules(self._speaking(programs))
        return found

    def _speaking(self, programs: frozenset[str | None]) -> list[RuleCandidate]:
        if self._candidates is None:
            self._candidates = [_candidate(rule) for rule in self.rules]
        if None in programs:
            return self._candidates
        return [each for each in self._candidates if each.may_speak_of(programs)]


def _candidate(rule: PolicyRule) -> RuleCandidate:
    from alhena.shell.prefix import divided_prefix, prefix_name

    only_prefixes = rule.command_prefixes and not (rule.paths or rule.command_class)
    following: set[str] | None = set() if only_prefixes else None
    for prefix in rule.command_prefixes:
        divided = divided_prefix(prefix)
        if divided is None or len(divided.words) < 2:
            following = None
            break
        if following is not None:
            following.add(divided.words[1])
    return RuleCandidate(
        rule,
        frozenset(map(prefix_name, rule.command_prefixes)),
        None if following is None else frozenset(following),
    )


_STRICTNESS = (PolicyOutcome.ALLOW, PolicyOutcome.ASK_USER, PolicyOutcome.DENY)


def describe_rule(rule: PolicyRule) -> str:
    """A rule in words: its author and where it is written."""
    where = f" ({rule.source})" if rule.source else ""
    return f"the {rule.author} policy{where}"


def by_rule(rule: PolicyRule, parts: tuple[str, ...] = ()) -> Decision:
    """The decision of a rule that matches."""
    reason = f"{_outcome_words(rule.decision)} by {describe_rule(rule)}"
    return Decision(outcome=rule.decision, reason=reason, rule=rule, parts=parts)


def by_default(call: PolicyCall, parts: tuple[str, ...] = ()) -> Decision:
    """The decision where no rule matches."""
    return Decision(
        outcome=PolicyOutcome.ASK_USER,
        reason=f"approval required: no rule matches {call.names[0]}",
        parts=parts,
    )


def strictness(decision: Decision) -> int:
    """Allow is 0, ask_user 1, deny 2."""
    return _STRICTNESS.index(decision.outcome)


def _outcome_words(outcome: PolicyOutcome) -> str:
    match outcome:
        case PolicyOutcome.ALLOW:
            return "allowed"
        case PolicyOutcome.ASK_USER:
            return "approval required"
        case PolicyOutcome.DENY:
            return "denied"
        case _ as never:
            assert_never(never)


def decide(call: PolicyCall, rules: Sequence[PolicyRule], context: PolicyContext) -> Decision:
    """The decision of the matching rule of highest priority; of equals, the first in `rules`.

    Without one, ask. A non-interactive context has no person to ask, so that is a deny (POL-07).
    A shell command is decided part by part, the strictest part decides.
    """
    return decide_among(call, rules_for(call, sorted(rules, key=_order), context), context)


def rules_for(
    call: PolicyCall, ordered: Sequence[PolicyRule], context: PolicyContext
) -> ActiveRules:
    """Those of the rules that speak of the tool of this call, in these circumstances."""
    return ActiveRules(
        [rule for rule in ordered if is_active(rule, context) and names_tool(rule, call)]
    )


def decide_among(call: PolicyCall, active: ActiveRules, context: PolicyContext) -> Decision:
    """The decision, given the rules for this tool (`rules_for`), the strongest first."""
    if active.with_predicates:
        active = ActiveRules(
            [rule for rule in active.rules if rule.when is None or rule.when(call.args)]
        )
    if call.is_shell:
        from alhena.policy.command_line import decide_command

        decision = decide_command(call, active, context)
    else:
        decision = _decide_tool(call, active.rules, context)
    return denied_if_unattended(decision, context)


def denied_if_unattended(decision: Decision, context: PolicyContext) -> Decision:
    """The decision; a question is a denial where there is no person to ask (POL-07)."""
    if decision.outcome is not PolicyOutcome.ASK_USER or context.interactive:
        return decision
    reason = f"{decision.reason}; denied, since a non-interactive run cannot ask"
    return replace(decision, outcome=PolicyOutcome.DENY, reason=reason)


def is_active(rule: PolicyRule, context: PolicyContext) -> bool:
    """Does the rule apply in this mode (POL-06), with or without a person, and to this caller?"""
    return (
        (not rule.modes or context.mode in rule.modes)
        and (rule.interactive is None or rule.interactive is context.interactive)
        and (rule.subagent is None or rule.subagent == context.subagent)
    )


def _decide_tool(call: PolicyCall, active: list[PolicyRule], context: PolicyContext) -> Decision:
    conditions = Conditions(call, context.surroundings)
    for rule in active:
        if rule.on_commands:
            continue  # These look at shell commands, and this tool runs none.
        if conditions.hold(rule, allow=rule.decision is PolicyOutcome.ALLOW):
            decision = by_rule(rule)
            if SECRETS not in rule.paths:
                return decision
            return replace(decision, reason=f"{decision.reason}: the file may hold secrets")
    return by_default(call)


ALWAYS_PRIORITY = 950
"""A person's "always": stronger than the user's rules up to priority 949."""


class PolicyEngine:
    """Holds rules by priority, the first loaded first among equals.

    Which of them speak of a tool is looked up once for each tool, mode and kind of run.
    """

    def __init__(self, rules: Iterable[PolicyRule] = ()) -> None:
        self._rules = sorted(rules, key=_order)
        self._active: dict[tuple[object, ...], ActiveRules] = {}

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        """All rules, the strongest first."""
        return tuple(self._rules)

    def add_rule(self, rule: PolicyRule) -> None:
        """Adds a rule for the rest of the session, behind those of equal priority."""
        insort(self._rules, rule, key=_order)
        self._active.clear()

    def decide(self, call: PolicyCall, context: PolicyContext) -> Decision:
        """May this call run?"""
        key = (
            *(call.names, call.server_name, context.mode, context.interactive),
            context.subagent,
        )
        active = self._active.get(key)
        if active is None:
            if len(self._active) >= MAX_KNOWN:
                self._active.clear()
            active = self._active[key] = rules_for(call, self._rules, context)
        return decide_among(call, active, context)

    def excludes(
        self, names: Sequence[str], context: PolicyContext, server_name: str | None = None
    ) -> bool:
        """Can a tool of these names only ever be denied here? Then it need not be declared."""
        call = PolicyCall(names=tuple(names), args={}, server_name=server_name)
        shell = call.is_shell
        for rule in self._rules:
            if not is_active(rule, context) or not names_tool(rule, call):
                continue
            if not shell and rule.on_commands:
                continue
            denies = rule.decision is PolicyOutcome.DENY or (
                rule.decision is PolicyOutcome.ASK_USER and not context.interactive
            )
            if not rule.on_arguments:
                return denies
            if not denies:
                return False
        return not context.interactive


def always_rule(call: PolicyCall) -> PolicyRule | None:
    """The rule of an "always": this tool from now on; for the shell, commands that begin like each
    part of this one. It does not reach into plan mode.

    None when it would be too broad, could not allow the call again, or when the command is not what
    it looks like to whoever says "always".
    """
    agent = call.args.get("agent_name")
    name = agent if agent in call.names else call.names[0]
    rule = PolicyRule(
        decision=PolicyOutcome.ALLOW,
        priority=ALWAYS_PRIORITY,
        tool_names=(name,),
        mcp_name=call.server_name,
        modes=(ApprovalMode.DEFAULT, ApprovalMode.AUTO_EDIT, ApprovalMode.YOLO),
        source="approved for this session",
    )
    if not call.is_shell:
        return rule
    from alhena.policy.saved import always_prefixes, root_commands
    from alhena.shell.parse.analysis import analyse
    from alhena.suspicious_text import suspicious

    command = call.args.get("command")
    analysis = analyse(command) if isinstance(command, str) else None
    if analysis is None or suspicious(str(command), root_commands(analysis)):
        return None
    prefixes = always_prefixes(analysis)
    return replace(rule, command_prefixes=prefixes) if prefixes else None


def _order(rule: PolicyRule) -> float:
    return -rule.final_priority


_SILENCE = PolicyRule(
    decision=PolicyOutcome.ALLOW, priority=0, tier=Tier.DEFAULT, allow_redirection=True
)
"""Below all rules of a filter: what none of them speaks of is none of its business."""


class PolicyFilter:
    """Rules of one source, by the name `name`. Its allow rules only shield calls from its own
    weaker rules."""

    def __init__(self, name: str, rules: Iterable[PolicyRule]) -> None:
        self.name = name
        self._engine = PolicyEngine((*rules, _SILENCE))

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        """Its rules, the strongest first."""
        return tuple(rule for rule in self._engine.rules if rule is not _SILENCE)

    def decide(self, call: PolicyCall, context: PolicyContext) -> Decision | None:
        """Its objection to a call, or None."""
        decision = self._engine.decide(call, context)
        return None if decision.outcome is PolicyOutcome.ALLOW else decision

    def excludes(
        self, names: Sequence[str], context: PolicyContext, server_name: str | None = None
    ) -> bool:
        """Does it deny every call of a tool of these names? Then it need not be declared."""
        return self._engine.excludes(names, context, server_name)


def tighten(
    decision: Decision,
    call: PolicyCall,
    filters: Iterable[PolicyFilter],
    context: PolicyContext,
) -> Decision:
    """`decision`, or the strictest that a filter wants instead; of equals the earlier one. Its
    reason names the filter, and what would have been decided without it."""
    strictest = decision
    for each in filters:
        if strictest.outcome is PolicyOutcome.DENY:
            break
        wanted = each.decide(call, context)
        if wanted is not None and strictness(wanted) > strictness(strictest):
            before = f"without the policy of {each.name}: {_outcome_words(strictest.outcome)}"
            strictest = replace(wanted, reason=f"{wanted.reason}; {before}")
    return strictest
