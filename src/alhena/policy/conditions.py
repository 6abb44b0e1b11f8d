"""Do the conditions of a rule hold for the arguments of a call?"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from alhena.policy.model import PolicyRule
from alhena.policy.patterns import PatternClock
from alhena.policy.stable_json import stable_json

if TYPE_CHECKING:
    from alhena.policy.forms import Form, Forms


class Match(IntEnum):
    """How well a condition holds. MAYBE is for commands that say too little about themselves."""

    NO = 0
    MAYBE = 1
    YES = 2


SHELL_FIELDS = ("command", "directory", "dir_path")
"""The arguments of a shell call that an `argsPattern` can allow by: where and what runs, not what
the model says about it."""


def looks_at_arguments(rule: PolicyRule) -> bool:
    """Does the rule depend on the arguments at all?"""
    return bool(rule.args_pattern or rule.command_prefixes or rule.command_regex)


class Conditions:
    """The conditions of rules on the arguments of one call.

    A pattern that cannot be run to its end within the time for one decision counts as matching
    where it would restrict, and as not matching where it would allow.
    """

    __slots__ = ("_args", "_clock", "_json")

    def __init__(self, args: Mapping[str, Any]) -> None:
        self._args = args
        self._clock = PatternClock()
        self._json: str | None = None

    def arguments_match(self, rule: PolicyRule, *, allow: bool) -> bool:
        """`args_pattern` alone, on the arguments as they are."""
        if rule.args_pattern is None:
            return True
        try:
            self._json = self._json or stable_json(self._args)
        except ValueError:
            return not allow
        found = self._clock.search(rule.args_pattern, self._json)
        return (not allow) if found is None else found

    def allows_words(self, rule: PolicyRule, command: str, words: tuple[str, ...]) -> bool:
        """Do all conditions of an allow rule hold for a plain command of these words?"""
        if rule.command_prefixes and not any(
            _word_prefix(prefix, words) for prefix in rule.command_prefixes
        ):
            return False
        if rule.command_regex and not self._clock.starts(rule.command_regex, command.strip()):
            return False
        if rule.args_pattern is None:
            return True
        # The pattern has to hold for what runs, too, not only for what is said beside it.
        fields = {key: self._args[key] for key in SHELL_FIELDS if key in self._args}
        try:
            text = stable_json(fields)
        except ValueError:
            return False
        return self.arguments_match(rule, allow=True) and bool(
            self._clock.search(rule.args_pattern, text)
        )

    def restricts(self, rule: PolicyRule, command: str, forms: "Forms") -> Match:
        """Could a deny or ask rule be meant for a piece of a command, however it is written?"""
        if not looks_at_arguments(rule):
            return Match.YES
        best = Match.MAYBE if forms.unsure else Match.NO
        for number, form in enumerate(forms.forms):
            found = self._form_match(rule, form, command if number == 0 else None)
            if found is Match.YES and not form.sure:
                found = Match.MAYBE
            best = max(best, found)
            if best is Match.YES:
                break
        if best is not Match.YES and not forms.forms:
            best = max(best, self._text_match(rule, command))
        return best

    def _form_match(self, rule: PolicyRule, form: "Form", command: str | None) -> Match:
        """All conditions of the rule on one form; `command` is the whole text, for the first."""
        found = Match.YES
        if rule.command_prefixes:
            found = max(
                self._prefix(prefix, form, command or "") for prefix in rule.command_prefixes
            )
        if found and rule.command_regex:
            found = min(found, self._regex(rule.command_regex, form, command))
        if found and rule.args_pattern:
            found = min(found, self._pattern(rule, rule.args_pattern, form, command))
        return found

    def _prefix(self, prefix: str, form: "Form", command: str) -> Match:
        from alhena.policy.shell import prefix_words

        wanted = prefix_words(prefix)
        if wanted is None:
            normal = " ".join(prefix.split())
            texts = (" ".join(command.split()), form.text)
            return Match.YES if any(text.startswith(normal) for text in texts) else Match.NO
        return _form_prefix(wanted, form)

    def _regex(self, pattern: str, form: "Form", command: str | None) -> Match:
        texts = [form.text] if command is None else [form.text, command.strip(), command]
        for text in texts:
            if self._clock.starts(pattern, text) is not False:
                return Match.YES
        could = form.dynamic and self._clock.could_start(pattern, form.text) is not False
        return Match.MAYBE if could else Match.NO

    def _pattern(self, rule: PolicyRule, pattern: str, form: "Form", command: str | None) -> Match:
        if command is not None and self.arguments_match(rule, allow=False):
            return Match.YES
        try:
            text = stable_json({**self._args, "command": form.text})
            begun = stable_json({"command": form.text})[:-2]
        except ValueError:
            return Match.YES
        if self._clock.search(pattern, text) is not False:
            return Match.YES
        could = form.dynamic and self._clock.could_search(pattern, begun) is not False
        return Match.MAYBE if could else Match.NO

    def _text_match(self, rule: PolicyRule, command: str) -> Match:
        """For a text without a single word: nothing runs, but a pattern may speak of it."""
        if rule.command_prefixes:
            return Match.NO
        if rule.command_regex and self._clock.starts(rule.command_regex, command) is False:
            return Match.NO
        return Match.YES if self.arguments_match(rule, allow=False) else Match.NO


def _word_prefix(prefix: str, words: tuple[str, ...]) -> bool:
    from alhena.policy.shell import prefix_words

    wanted = prefix_words(prefix)
    return wanted is not None and words[: len(wanted)] == wanted


def _form_prefix(wanted: tuple[str, ...], form: "Form") -> Match:
    """Words of a prefix against words of a form; a program's directory does not matter."""
    from alhena.policy.wrappers import base_name

    if len(form.words) < len(wanted) and not form.dynamic:
        return Match.NO
    for index, (want, word) in enumerate(zip(wanted, form.words, strict=False)):
        if index == 0 and base_name(want) == base_name(word.text) and not word.dynamic:
            continue
        if word.dynamic:
            return Match.MAYBE if want.startswith(word.text) or index == 0 else Match.NO
        if want != word.text:
            return Match.MAYBE if index and _has_options(wanted, form) else Match.NO
    return Match.YES if len(form.words) >= len(wanted) else Match.NO


def _has_options(wanted: tuple[str, ...], form: "Form") -> bool:
    """Are the words of a prefix there in another order, `rm -f -r` for `rm -rf`?"""
    words = [word.text for word in form.words[1:]]
    rest = wanted[1:]
    operands = {word for word in rest if not word.startswith("-")}
    if len(operands) == len(rest):
        return False
    long = {word for word in rest if word.startswith("--")}
    return (operands | long) <= set(words) and _letters(rest) <= _letters(words)


def _letters(words: Iterable[str]) -> set[str]:
    return {c for word in words if word[:1] == "-" and word[:2] != "--" for c in word[1:]}
