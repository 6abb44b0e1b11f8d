"""A simple command, read from left to right by the rules of bash: assignments, words,
redirections."""

import re
from collections.abc import Sequence
from itertools import islice

import msgspec

from alhena.policy.bash.evaluation import DECLARATIONS, RESERVED, doubt_about
from alhena.policy.bash.model import Assignment, Part, Redirection, Word, WordKind
from alhena.policy.bash.reading import Findings, Reading, Scope, Shell, UnclearError
from alhena.policy.bash.redirections import OPERATOR, read_redirection
from alhena.policy.bash.source import Source
from alhena.policy.bash.words import SIMPLE, read_value, read_word

_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]\s]*\])?(\+?=)")
_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_TRANSPARENT = RESERVED - {"time", "coproc", "[[", "]]"}
_BREAKS = re.compile(r"[;&|()`{}\n]+|\b(?:if|then|elif|else|while|until|do|case|in)\b")
_MAX_PIECES = 64
_MAX_PARTS = 1000
_DIRECTORY = frozenset({"cd", "pushd", "popd"})
_HOME = Word("", WordKind.PATTERN, "~")
_ANYWHERE = Word("", WordKind.EXPANSION, "popd", split=True)


class SimpleCommand:
    """Reads one simple command; `stop` is where it ended."""

    __slots__ = ("assignments", "reading", "redirections", "scope", "stop", "words")

    def __init__(self, reading: Reading, scope: Scope) -> None:
        self.reading = reading
        self.scope = scope
        self.words: list[Word] = []
        self.assignments: list[Assignment] = []
        self.redirections: list[Redirection] = []
        self.stop = 0

    def read(self, start: int, stop: int) -> None:
        """Everything between two offsets; raises UnclearError when bash would stop elsewhere."""
        text = self.reading.text
        at = self.stop = start
        words = self.words
        simple = SIMPLE.match
        decode = None if self.reading.source.ascii else self.reading.source.decode
        while at < stop:
            found = simple(text, at)
            if found is None:
                at = self._other(at, stop)
                continue
            form = found.lastindex
            if form == 1:
                content = written = found.group(1)
                self.stop = found.end(1)
                if not words and "=" in content and _ASSIGNMENT.match(content):
                    at = self._assignment(at)
                    continue
            else:
                content = self.reading.source.raw[found.start(form or 0) : found.end(form or 0)]
                self.stop = found.end(form or 0) + 1
                written = self.reading.source.raw[at : self.stop]
            if decode:
                content, written = decode(content), decode(written)
            words.append(Word(content, WordKind.LITERAL, written))
            at = found.end()
        if self.stop != stop:
            raise UnclearError

    def _other(self, at: int, stop: int) -> int:
        """A word of another form, a redirection, an assignment, or blanks."""
        text = self.reading.text
        blanks = _BLANKS.match(text, at)
        if blanks:
            if blanks.end() >= stop:
                self.stop = stop
            return blanks.end()
        operator = OPERATOR.match(text, at)
        if operator and not (
            operator.group(2) in {"<", ">"} and text.startswith("(", operator.end())
        ):
            redirection, self.stop = read_redirection(self.reading, operator, self.scope)
            self.redirections.append(redirection)
            return self.stop
        declares = self.words and self.words[0].text in DECLARATIONS
        if not self.words or declares:
            assignment = _ASSIGNMENT.match(text, at)
            if assignment and not declares:
                return self._assignment(at)
            if assignment and text.startswith("(", assignment.end()):
                return self._array(at, assignment.end())
        if text.startswith("#", at):
            raise UnclearError
        word, self.stop = read_word(self.reading, at, self.scope)
        if not self.words and "\\\n" in word.source:
            # Joined, it may be an assignment or a reserved word.
            self.reading.unclear(at, self.stop)
        self.words.append(word)
        return self.stop

    def _assignment(self, at: int) -> int:
        reading = self.reading
        found = _ASSIGNMENT.match(reading.text, at)
        if found is None:
            raise UnclearError
        if found.group(2):
            reading.doubt("a subscript can run code hidden in data", at, found.end())
            reading.queue_within(at, found.end(), self.scope)
        if reading.text.startswith("(", found.end()):
            return self._array(at, found.end())
        value, self.stop = read_value(reading, found.end(), self.scope)
        self._assign(found, value)
        return self.stop

    def _assign(self, found: re.Match[str], value: Word) -> None:
        written = self.reading.source.written(found.start(), self.stop)
        self.assignments.append(Assignment(found.group(1), value, written))

    def _array(self, at: int, bracket: int) -> int:
        node = self.reading.nested_at(bracket, "array")
        self.stop = node.end_byte
        self.reading.doubt("an array can run code hidden in its subscripts", at, self.stop)
        self.reading.queue_within(bracket, self.stop, self.scope)
        written = self.reading.source.written(at, self.stop)
        value = Word("", WordKind.EXPANSION, self.reading.source.written(bracket, self.stop), True)
        name = re.split(r"[\[+=]", written, maxsplit=1)[0]
        self.assignments.append(Assignment(name, value, written))
        return self.stop

    def part(self, start: int, stop: int) -> Part:
        """The command as a part, with what the compounds around it add."""
        scope = self.scope
        return Part(
            text=self.reading.source.written(start, stop),
            words=tuple(self.words),
            assignments=tuple(self.assignments),
            redirections=(*self.redirections, *scope.redirections),
            directories=scope.shell.directories,
            loops=scope.loops,
            stdin_piped=scope.piped,
            nested=scope.nested,
        )


def read_simple(reading: Reading, start: int, stop: int, scope: Scope) -> None:
    """Adds the command between two offsets to the findings, with the doubts about it."""
    command = SimpleCommand(reading, scope)
    clear = True
    try:
        command.read(start, stop)
    except UnclearError:
        clear = False
        reading.unclear(start, stop)
        reading.queue_within(start, stop, scope)
        if reading.root is not None:
            read_pieces(reading, max(start, min(command.stop, stop)), stop, scope)
    words = command.words
    if clear and words and _SUBSCRIPT.match(words[0].source):
        # Blanks and quotes do not end a subscript, so this may be an assignment after all.
        reading.unclear(start, stop)
    if clear and words and words[0].text in _TRANSPARENT and words[0].literal:
        reading.unclear(start, stop)
        while words and words[0].text in _TRANSPARENT:
            del words[0]
    if words or command.assignments or command.redirections:
        part = command.part(start, stop)
        reading.findings.parts.append(part)
        if words:
            _judge(reading.findings, part, scope)
            _group_behind(reading.findings, part)


def read_pieces(reading: Reading, start: int, stop: int, scope: Scope) -> None:
    """Whatever looks like a command in text that is not understood."""
    source = reading.source
    around = Scope(Shell(), nested=scope.nested)
    at = start
    for found in [*islice(_BREAKS.finditer(source.text, start, stop), _MAX_PIECES), None]:
        end = found.start() if found else stop
        text = source.text[at:end].strip(" \t")
        if text and len(reading.findings.parts) < _MAX_PARTS:
            piece = Source(text, text, source.ascii)
            read_simple(Reading(piece, None, reading.findings), 0, len(text), around)
        at = found.end() if found else stop


def _group_behind(findings: Findings, part: Part) -> None:
    """`coproc {` and `time {` begin a group, which is no word of theirs."""
    if part.words[0].text in {"coproc", "time"}:
        at = next((i for i, word in enumerate(part.words) if word.source == "{"), None)
        if at is not None:
            findings.parts.append(msgspec.structs.replace(part, words=part.words[at + 1 :]))


def _judge(findings: Findings, part: Part, scope: Scope) -> None:
    words = part.words
    first = words[0]
    if not first.literal:
        findings.doubt("the command word is only known when it runs", part.text)
        return
    if not first.text:
        findings.doubt("the command word is empty", part.text)
    reason = doubt_about(words)
    if reason:
        findings.doubt(reason, part.text)
    if first.text in {"command", "builtin"}:
        words = words[1:]
        while words and words[0].text.startswith("-"):
            words = words[1:]
    if words and words[0].text in _DIRECTORY:
        if scope.shell.loops:
            findings.doubt("a loop changes the directory", part.text)
        scope.shell.directories += (_target(words),)


def _target(words: Sequence[Word]) -> Word:
    """Where a `cd` or its like goes."""
    if words[0].text == "popd":
        return _ANYWHERE
    operands = [w for w in words[1:] if not (w.literal and re.fullmatch(r"-[LPe@n]+|--", w.text))]
    if not operands:
        return _HOME if words[0].text == "cd" else _ANYWHERE
    return operands[0] if len(operands) == 1 else _ANYWHERE
