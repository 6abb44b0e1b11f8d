"""The rules for one tool in one situation, found again by the program that a command runs."""

from typing import TYPE_CHECKING

from alhena.policy.model import PolicyOutcome, PolicyRule
from alhena.values import Value

if TYPE_CHECKING:
    from alhena.policy.bash.model import Part

MAX_KNOWN = 1024


class Candidate(Value, frozen=True):
    """A rule, the programs that its prefixes are about (None: perhaps any) and the words that have
    to follow for it to allow something (None: perhaps none)."""

    rule: PolicyRule
    programs: frozenset[str | None]
    following: frozenset[str] | None

    def may_speak_of(self, programs: frozenset[str | None]) -> bool:
        """Could the rule mean a command of one of these programs, going by their names?"""
        return not self.programs or None in self.programs or not self.programs.isdisjoint(programs)


class _Spoken:
    """The rules that could be meant for a program, and which are left by the word behind it."""

    __slots__ = ("_by_word", "_words", "candidates")

    def __init__(self, candidates: list[Candidate]) -> None:
        self.candidates = candidates
        self._words = frozenset[str]().union(*(each.following or () for each in candidates))
        self._by_word: dict[str | None, list[PolicyRule]] = {}

    def deciding(self, word: str | None) -> list[PolicyRule]:
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
        self._candidates: list[Candidate] | None = None
        self._spoken: dict[frozenset[str | None], _Spoken] = {}

    def about(self, programs: frozenset[str | None]) -> list[Candidate]:
        """The rules that could be meant for a command that runs these programs (None: any), the
        strongest first: all but those for prefixes of other programs."""
        return self._of(programs).candidates

    def deciding(self, programs: frozenset[str | None], part: "Part") -> list[PolicyRule]:
        """Those of them that can decide about the part: all but allow rules for other words."""
        words = part.words
        return self._of(programs).deciding(words[1].text if len(words) > 1 else None)

    def _of(self, programs: frozenset[str | None]) -> _Spoken:
        found = self._spoken.get(programs)
        if found is None:
            if len(self._spoken) >= MAX_KNOWN:  # names that a model makes up are not kept for ever
                self._spoken.clear()
            found = self._spoken[programs] = _Spoken(self._speaking(programs))
        return found

    def _speaking(self, programs: frozenset[str | None]) -> list[Candidate]:
        if self._candidates is None:
            self._candidates = [_candidate(rule) for rule in self.rules]
        if None in programs:
            return self._candidates
        return [each for each in self._candidates if each.may_speak_of(programs)]


def _candidate(rule: PolicyRule) -> Candidate:
    from alhena.policy.bash.options import divided_prefix
    from alhena.policy.bash.prefix import prefix_name

    only_prefixes = rule.command_prefixes and not (rule.paths or rule.command_class)
    following: set[str] | None = set() if only_prefixes else None
    for prefix in rule.command_prefixes:
        divided = divided_prefix(prefix)
        if divided is None or len(divided.words) < 2:
            following = None
            break
        if following is not None:
            following.add(divided.words[1])
    return Candidate(
        rule,
        frozenset(map(prefix_name, rule.command_prefixes)),
        None if following is None else frozenset(following),
    )
