"""May this shell command run? Part by part; the strictest part decides (POL-09).

A rule that looks at the command allows a part only when everything about it is known; a rule that
restricts is looked for in everything the part may come down to.
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec.structs import replace

from alhena.policy.conditions import ActiveRules, Conditions
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    default_decision,
    describe_rule,
    rule_decision,
    stable_json,
    strictness,
    to_word_end,
    to_word_end_in_json,
)
from alhena.policy.surroundings import Surroundings
from alhena.policy.working_directory import ShellDirectories
from alhena.shell.beyond import hazard
from alhena.shell.destruction import may_destroy
from alhena.shell.languages.sed_awk import MAX_SCRIPTS, script_length
from alhena.shell.options import first_operands
from alhena.shell.parse.analysis import analyse
from alhena.shell.parse.model import Analysis, Doubt, Effect, Part, Word
from alhena.shell.prefix import Match, allows, explain_unreached, prefix_words, restricts
from alhena.shell.reach import Reach, Reached, reach
from alhena.shell.readonly import (
    changes_directory,
    folder_may_run,
    is_inert,
    judge_part,
    not_read_only,
)
from alhena.shell.tables import global_options, program

if TYPE_CHECKING:
    from alhena.policy.named_files import NamedFiles

_FEW = 16
_LONG = "the scripts in this line are very long"


def decide_command(call: PolicyCall, active: ActiveRules, context: PolicyContext) -> Decision:
    """The decision on a call of the shell tool; `active` are the rules for it."""
    argument = call.args.get("command")
    command = argument if isinstance(argument, str) else ""
    # Reading the command is spared when the first rule decides without looking at it.
    if active.rules and not active.rules[0].on_arguments:
        first = active.rules[0]
        if first.decision is not PolicyOutcome.ALLOW or context.mode is ApprovalMode.YOLO:
            return rule_decision(first, (command,))
    return _CommandLine(call, command, active, context).decide()


class _Read:
    """A part with what it may come down to, which is incomplete when the whole line is; `programs`
    are its names. One with a `long` script is not read for what that does."""

    __slots__ = ("long", "part", "programs", "reach")

    def __init__(self, part: Part, *, complete: bool, long: bool = False) -> None:
        self.part = part
        self.long = long
        found = Reach((Reached(part.words),), complete=False) if long else reach(part)
        self.reach = found if complete else replace(found, complete=False)
        self.programs = self.reach.programs


class _CommandLine:
    """One command line against the rules."""

    def __init__(
        self, call: PolicyCall, command: str, active: ActiveRules, context: PolicyContext
    ) -> None:
        self.call = call
        self.command = command
        self.active = active
        self.analysis = _analyse_command(call, command)
        self.conditions = _Conditions(call, context.surroundings, self.analysis.parts)
        self.places = ShellDirectories(call, context.surroundings, self.analysis.parts)

    def decide(self) -> Decision:
        parts = self.analysis.parts or (Part(text=self.command),)
        if len(parts) > _FEW:  # what cannot be read to its end is taken apart more than once
            parts = tuple(dict.fromkeys(parts))
        # Where data may be evaluated, code that stands in data may run.
        complete = self.analysis.complete and not (
            self.analysis.doubts and any(map(_holds_code, parts))
        )
        strictest: Decision | None = None
        reads = self._reads(parts, complete=complete)
        for decision in self._judge_parts(reads):
            if strictest is None or strictness(decision) > strictness(strictest):
                strictest = decision
            if strictest.outcome is PolicyOutcome.DENY:
                break
        # A line of nothing but `cd` and `true` is decided like any other.
        return strictest or self._judge(_Read(parts[0], complete=complete))

    def _reads(self, parts: tuple[Part, ...], *, complete: bool) -> Iterator[_Read]:
        if len(self.command) <= MAX_SCRIPTS:
            yield from (_Read(part, complete=complete) for part in parts)
            return
        scripts = [script_length(word.text for word in part.words) for part in parts]
        long = sum(scripts) > MAX_SCRIPTS
        for part, length in zip(parts, scripts, strict=True):
            yield _Read(part, complete=complete, long=long and length > 0)

    def _judge_parts(self, reads: Iterable[_Read]) -> Iterator[Decision]:
        for read in reads:
            if not self._needs_no_rule(read.part):
                yield self._judge(read)
                continue
            restriction = self._restriction(read)
            if restriction is not None:
                yield restriction

    def _needs_no_rule(self, part: Part) -> bool:
        """Does the part neither run nor change anything, in any context?"""
        if self.analysis.doubts or not is_inert(part):
            return False
        return not changes_directory(part) or self.places.changes_within(part)

    def _restriction(self, read: _Read) -> Decision | None:
        """The restriction by a rule that speaks of this very command."""
        floor: Decision | None = None
        for candidate in self.active.candidates_for(read.programs):
            rule = candidate.rule
            if rule.decision is PolicyOutcome.ALLOW or not rule.on_commands:
                continue
            match = self._restricts(rule, read)
            if match is Match.YES:
                return rule_decision(rule, (read.part.text,))
            if match is Match.MAYBE:
                floor = floor or self._uncertain(rule, read)
        return floor

    def _judge(self, read: _Read) -> Decision:
        """The decision for one part.

        An allow that does not stand, and a restriction that may or may not be meant, both come to
        asking; the rules below are still read, for a restriction that is certain or, after an
        allow that does not stand, for one that allows everything.
        """
        part = read.part
        floor: Decision | None = None
        for rule in self.active.rules_deciding(read.programs, part):
            if rule.decision is PolicyOutcome.ALLOW:
                if self._objection(rule, read) is None:
                    return floor or rule_decision(rule, (part.text,))
                continue
            match = self._restricts(rule, read) if rule.on_arguments else Match.YES
            if match is Match.MAYBE:
                floor = floor or self._uncertain(rule, read)
            elif match is Match.YES:
                asked = self._object_to_allow(read, above=rule)
                asked = asked or (floor if rule.decision is PolicyOutcome.ASK_USER else None)
                return asked or self._by_rule(rule, read)
        return floor or self._object_to_allow(read) or default_decision(self.call, (part.text,))

    def _by_rule(self, rule: PolicyRule, read: _Read) -> Decision:
        """The decision of a restriction, with a remark on the part when the rule is for any
        command."""
        decision = rule_decision(rule, (read.part.text,))
        remark = None if rule.on_arguments else self._remark(read)
        if remark is None:
            return decision
        return replace(decision, reason=f"{decision.reason}; {remark}")

    def _remark(self, read: _Read) -> str | None:
        part = read.part
        if self.analysis.doubts:
            return self.analysis.doubts[0].clause
        if part.assignments and not part.words:
            return f"{part.assignments[0].source} would hold for what runs after it"
        if changes_directory(part):
            return "it leaves the workspace, or where it leads is not known"
        rules = (candidate.rule for candidate in self.active.candidates_for(read.programs))
        if any(rule.command_class and rule.decision is PolicyOutcome.ALLOW for rule in rules):
            refusal = _LONG if read.long else not_read_only(part)
            return f"not read-only: {refusal}" if refusal else None
        return None

    def _objection(self, rule: PolicyRule, read: _Read) -> str | None:
        """The reason why an allow rule does not allow this part; None when it does, empty when it
        does not speak of it."""
        part = read.part
        if not rule.on_arguments:
            against = None if rule.allow_redirection else self._against_any(read)
            return against or self._beyond(read)
        if read.long:
            return _LONG
        if rule.paths:
            return ""  # which files a command touches is not known
        named = self._words_named(rule, part)
        if isinstance(named, str):
            return named
        if self.analysis.doubts:
            return self.analysis.doubts[0].clause
        if not self.analysis.complete:
            return "the command cannot be read to its end"
        if not rule.allow_redirection:
            written = _write(part)
            if written is not None:
                return f"{written} writes, and the rule does not say allowRedirection"
        dangerous = None if rule.command_class else hazard(part, named)
        return dangerous or self.places.objection(part, read.reach)

    def _beyond(self, read: _Read) -> str | None:
        """The reason why a rule for any command does not reach this one, which destroys too
        much."""
        refusal = self.places.destroys(read.part, read.reach)
        if refusal is None and not self.analysis.complete and may_destroy(self.command):
            refusal = "the command cannot be read to its end, and may remove or overwrite files"
        return refusal and f"{refusal}; a rule with commandPrefix = {_quoted(read.part)} allows it"

    def _words_named(self, rule: PolicyRule, part: Part) -> tuple[str, ...] | str:
        """The words that the rule names, or why it does not allow them ("": not about them)."""
        if rule.command_class is not None:
            found = judge_part(part)
            refusal = found if isinstance(found, str) else self._folder_runs(part)
            if refusal is None and rule.decision is PolicyOutcome.ALLOW:
                refusal = self.places.leaves(part, None if isinstance(found, str) else found)
            if refusal is not None:
                return refusal
        named = self.conditions.named_by(rule, part)
        if named is None:
            return _why_unnamed(rule, part)
        if not part.words:
            return "it runs nothing, and changes what comes after it"
        return named

    def _restricts(self, rule: PolicyRule, read: _Read) -> Match:
        if read.long and rule.command_class is not None:
            return Match.MAYBE
        return self.conditions.restricts(rule, read.part, read.reach)

    def _folder_runs(self, part: Part) -> str | None:
        """The reason why a command that only reads may run something here, the folder not being
        trusted."""
        facts = self.places.surroundings
        if facts is None or facts.trusted:
            return None
        return folder_may_run(part)

    def _against_any(self, read: _Read) -> str | None:
        """The reason why a rule for any command, without redirections, does not reach this one."""
        if not self.analysis.complete:
            return "the command cannot be read to its end"
        written = _write(read.part) or next(iter(read.reach.writes), None)
        if written is None:
            return None
        return f"{written} may write to a file, and the rule does not say allowRedirection"

    def _object_to_allow(self, read: _Read, above: PolicyRule | None = None) -> Decision | None:
        """The objection to the first rule that would allow this part, were it nothing but what the
        rule names; of those above the one that restricts it."""
        for candidate in self.active.candidates_for(read.programs):
            rule = candidate.rule
            if rule is above:
                break
            if rule.decision is not PolicyOutcome.ALLOW or not candidate.may_speak_of(
                read.programs
            ):
                continue
            objection = self._objection(rule, read)
            meant = objection and self._restricts(rule, read)
            if meant is Match.YES or (meant and read.long and rule.command_class is not None):
                return Decision(
                    outcome=PolicyOutcome.ASK_USER,
                    reason=f"{describe_rule(rule)} would allow this, but {objection}",
                    rule=rule,
                    parts=(read.part.text,),
                )
        return None

    def _uncertain(self, rule: PolicyRule, read: _Read) -> Decision:
        why = "written in another way"
        if not read.reach.complete:
            why = "which cannot be read to its end"
        elif not all(command.literal for command in read.reach.commands):
            why = "which is only known when it runs"
        return Decision(
            outcome=PolicyOutcome.ASK_USER,
            reason=f"{describe_rule(rule)} ({rule.decision}) may apply to this command, {why}",
            rule=rule,
            parts=(read.part.text,),
        )


SHELL_FIELDS = ("command", "directory", "dir_path")
"""The arguments of a shell call that an `argsPattern` can allow by: where and what runs, not what
the model says about it."""


_BEFORE_COMMAND = '{"command":"'


class _Conditions:
    """The conditions of rules on one call of the shell tool, part by part."""

    __slots__ = ("_arguments", "_call", "_files", "_parts", "_surroundings")

    def __init__(
        self, call: PolicyCall, surroundings: Surroundings | None, parts: tuple[Part, ...]
    ) -> None:
        self._call = call
        self._surroundings = surroundings
        self._parts = parts
        self._arguments: Conditions | None = None
        self._files: NamedFiles | None = None

    @property
    def _given(self) -> Conditions:
        """The conditions on the arguments, and the clock of patterns; few decisions need them."""
        if self._arguments is None:
            self._arguments = Conditions(self._call, self._surroundings)
        return self._arguments

    def named_by(self, rule: PolicyRule, part: Part) -> tuple[str, ...] | None:
        """The words of a part that an allow rule names, when all its conditions hold for the part;
        None when they do not. Of a pattern, what it spells out counts as named: it has to spell
        out assignments, and the command inside a wrapper."""
        if rule.command_prefixes:
            prefixes = [prefix for prefix in rule.command_prefixes if allows(prefix, part)]
            if not prefixes or not self._pattern_allows(rule, part):
                return None
            return max((prefix_words(prefix) or () for prefix in prefixes), key=len)
        if rule.command_regex is not None:
            if not self._given.clock.starts(to_word_end(rule.command_regex), part.text):
                return None
        elif rule.args_pattern is not None and not self._speaks_of(rule.args_pattern, part):
            return None
        if not self._pattern_allows(rule, part):
            return None
        if rule.command_regex is None and rule.args_pattern is None:
            return ()
        return self._spelled_words(rule, part)

    def _spelled_words(self, rule: PolicyRule, part: Part) -> tuple[str, ...] | None:
        """The leading words of a part that the rule's patterns spell; None when they do not spell
        an assignment, or a word that decides what runs."""
        patterns = f"{rule.command_regex or ''} {rule.args_pattern or ''}".replace("\\", "")
        spelled, text = 0, part.text
        for start, end, meant in _leading_pieces(part):
            if meant not in patterns or not self._match_covers(rule, text, end):
                break
            # A wildcard would match another word just as well.
            others = [(text[:start] + word, text[end:]) for word in _other_words(text[start:end])]
            if any(
                self._match_covers(rule, begun + rest, len(begun), unsure=True)
                for begun, rest in others
            ):
                break
            spelled += 1
        length = spelled - len(part.assignments)
        if length < 0 or (part.words and explain_unreached(part.words, length) is not None):
            return None
        return tuple(word.text for word in part.words[:length])

    def _match_covers(self, rule: PolicyRule, text: str, end: int, *, unsure: bool = False) -> bool:
        """Does the match of one of the rule's patterns on a command reach the offset `end` of its
        text? `unsure` is the answer when that cannot be found out."""
        clock = self._given.clock
        if rule.command_regex is not None:
            reached = clock.reach(to_word_end(rule.command_regex), text, 0)
            if unsure if reached is None else reached >= end:
                return True
        if rule.args_pattern is None:
            return False
        try:
            whole, begun = stable_json({"command": text}), stable_json({"command": text[:end]})
        except ValueError:
            return unsure
        pattern = to_word_end_in_json(rule.args_pattern)
        reached = clock.reach(pattern, whole, len(_BEFORE_COMMAND))
        return unsure if reached is None else reached >= len(begun) - len('"}')

    def restricts(self, rule: PolicyRule, part: Part, reach: Reach) -> Match:
        """Could a deny or ask rule be meant for a part of a command, however it is written?"""
        if not rule.on_arguments:
            return Match.YES
        files = self._touches(rule.paths, part, reach) if rule.paths else Match.YES
        return min(files, self._names(rule, part, reach)) if files else Match.NO

    def _touches(self, patterns: tuple[str, ...], part: Part, reach: Reach) -> Match:
        """`paths` of a restriction: may the part touch such files?"""
        if self._given.touches(patterns, allow=False):
            return Match.YES
        if self._files is None:
            from alhena.policy.named_files import NamedFiles

            directories = (self._call.args.get(name) for name in SHELL_FIELDS[1:])
            start = next((each for each in directories if isinstance(each, str)), ".")
            self._files = NamedFiles(self._parts, self._surroundings, start)
        return self._files.match(patterns, part, reach)

    def _names(self, rule: PolicyRule, part: Part, reach: Reach) -> Match:
        """The conditions of a restriction other than `paths`."""
        if not (rule.on_commands or rule.args_pattern):
            return Match.YES
        best = Match.NO if reach.complete else Match.MAYBE
        for number, command in enumerate(reach.commands):
            found = self._command_match(rule, command, part if number == 0 else None)
            if found is Match.YES and not command.sure:
                found = Match.MAYBE
            best = max(best, found)
            if best is Match.YES:
                break
        if best is not Match.YES and not reach.commands:
            best = max(best, self._text_match(rule, part.text))
        return best

    def _pattern_allows(self, rule: PolicyRule, part: Part) -> bool:
        """The pattern has to hold for what runs, too, not only for what is beside it, and for
        each part of the command by itself."""
        pattern = rule.args_pattern
        if pattern is None:
            return True
        args = self._call.args
        fields = {key: args[key] for key in SHELL_FIELDS if key in args}
        try:
            texts = (stable_json({**fields, "command": part.text}), stable_json(fields))
        except ValueError:
            return False
        return self._given.arguments_match(pattern, allow=True) and all(
            self._given.clock.search(pattern, text) for text in texts
        )

    def _speaks_of(self, pattern: str, part: Part) -> bool:
        """Does the pattern match the part from its beginning? What matches behind the program, in
        its arguments, or beside the command alone, says nothing of what runs."""
        try:
            text = stable_json({"command": part.text})
        except ValueError:
            return False
        start = len(_BEFORE_COMMAND)
        end = self._given.clock.reach(to_word_end_in_json(pattern), text, start)
        return end is not None and end > start

    def _command_match(self, rule: PolicyRule, command: Reached, part: Part | None) -> Match:
        """All conditions of the rule on one command; `part` is given for the part itself."""
        found = Match.YES
        if rule.command_class is not None:
            found = min(found, _in_class(part))
        if rule.command_prefixes:
            found = min(found, max(self._prefix(p, command, part) for p in rule.command_prefixes))
        if found and rule.command_regex:
            found = min(found, self._regex(rule.command_regex, command, part))
        if found and rule.args_pattern:
            found = min(found, self._pattern(rule.args_pattern, command, part))
        return found

    def _prefix(self, prefix: str, command: Reached, part: Part | None) -> Match:
        if prefix_words(prefix) is not None:
            return restricts(prefix, command)
        normal = " ".join(prefix.split())
        whole = str(self._call.args.get("command", "")) if part else ""
        texts = (" ".join(whole.split()), part.text if part else "", command.text)
        return Match.YES if any(text.startswith(normal) for text in texts) else Match.NO

    def _regex(self, pattern: str, command: Reached, part: Part | None) -> Match:
        text = command.text
        texts = _spellings(command)
        if part is not None:
            whole = str(self._call.args.get("command", ""))
            texts += [part.text, whole.strip(), whole]
        if any(self._given.clock.starts(pattern, each) is not False for each in texts):
            return Match.YES
        could = not command.literal and self._given.clock.could_start(pattern, text) is not False
        return Match.MAYBE if could else Match.NO

    def _pattern(self, pattern: str, command: Reached, part: Part | None) -> Match:
        if part is not None and self._given.arguments_match(pattern, allow=False):
            return Match.YES
        try:
            texts = [stable_json({**self._call.args, "command": t}) for t in _spellings(command)]
            begun = stable_json({"command": command.text})[:-2]
        except ValueError:
            return Match.YES
        if any(self._given.clock.search(pattern, text) is not False for text in texts):
            return Match.YES
        could = not command.literal and self._given.clock.could_search(pattern, begun) is not False
        return Match.MAYBE if could else Match.NO

    def _text_match(self, rule: PolicyRule, text: str) -> Match:
        """For a text without a single word: nothing runs, but a pattern may speak of it."""
        if rule.command_prefixes or rule.command_class:
            return Match.NO
        if rule.command_regex and self._given.clock.starts(rule.command_regex, text) is False:
            return Match.NO
        pattern = rule.args_pattern
        holds = pattern is None or self._given.arguments_match(pattern, allow=False)
        return Match.YES if holds else Match.NO


def _spellings(command: Reached) -> list[str]:
    """The text of a command; also with the plain name of its program, and without options before
    its subcommand."""
    words, name = command.words, command.program
    found = [command.text]
    if name is not None:
        table, starts = program(name), first_operands(words, global_options(name), 1)
        begun = starts[0] if table and table.subcommands and starts else 1
        found += (Reached((Word(name), *words[at:])).text for at in (1, begun))
    return list(dict.fromkeys(found))


def _in_class(part: Part | None) -> Match:
    """Is the part one that only reads? What a wrapper runs is not asked about."""
    return Match.YES if part is not None and not_read_only(part) is None else Match.NO


def _leading_pieces(part: Part) -> Iterator[tuple[int, int, str]]:
    """The assignments and words of a part as far as bash replaces nothing in them: offsets in its
    text, and the text that is meant."""
    text, end = part.text, 0
    for each in part.redirections:
        text = text.replace(each.source, "\0" * len(each.source), 1)
    pieces = [(each.source, each.source) for each in part.assignments]
    literal = takewhile(lambda word: word.literal, part.words)
    pieces += [(word.source, word.text) for word in literal]
    for source, meant in pieces:
        start = text.find(source, end)
        if start < 0 or not source:
            return
        end = start + len(source)
        yield start, end, meant


def _other_words(word: str) -> Iterator[str]:
    """Words that differ from this one in its first letter, its last, and all of them."""
    at = [index for index, letter in enumerate(word) if letter.isalnum()]
    for places in (at[:1], at[-1:], at) if at else ():
        for letters in ("x7", "k3"):
            other = letters[1] if word[places[0]].isdigit() else letters[0]
            changed = [other if index in places else c for index, c in enumerate(word)]
            if "".join(changed) != word:
                yield "".join(changed)
    if not at:
        yield f"{word}xx"


def _analyse_command(call: PolicyCall, command: str) -> Analysis:
    """The parts of the command; a call without one is never certain."""
    if isinstance(call.args.get("command"), str):
        return analyse(command)
    missing = "command" not in call.args
    doubt = "the call names no command" if missing else "the command is not a text"
    return Analysis((), (Doubt(doubt, ""),), complete=False)


def _quoted(part: Part) -> str:
    return '"' + " ".join(word.source or word.text for word in part.words[:3]) + '"'


def _write(part: Part) -> str | None:
    """The redirection of a part that writes, as written."""
    return next((r.source for r in part.redirections if r.effect is Effect.WRITE), None)


def _holds_code(part: Part) -> bool:
    """Does a literal text of the part look like code that some later evaluation would run?"""
    texts = (*part.words, *(assignment.value for assignment in part.assignments))
    return any("$(" in word.text or "`" in word.text for word in texts)


def _why_unnamed(rule: PolicyRule, part: Part) -> str:
    if part.assignments:
        return f"{part.assignments[0].source} comes before it, which the rule does not name"
    if part.words and not part.words[0].literal:
        return "the program it runs is not known before bash runs it"
    if rule.command_class is not None:
        return ""
    if not rule.command_prefixes and not rule.command_regex:
        return "what its argsPattern matches is not what decides what runs"
    return "it is run by another program, or written in another way"
