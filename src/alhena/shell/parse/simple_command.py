"""A simple command, its redirections and the builtins that run code in their arguments."""

import re
from collections.abc import Sequence
from itertools import islice

import msgspec

from alhena.shell.parse.model import (
    Assignment,
    Effect,
    Findings,
    HereDocument,
    Part,
    Reading,
    Redirection,
    Scope,
    Shell,
    Source,
    UnclearError,
    Word,
    WordKind,
    plain_source,
)
from alhena.shell.parse.parser import as_quoted, parse
from alhena.shell.parse.words import SIMPLE, read_document, read_value, read_word

OPERATOR = re.compile(
    r"([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(&>>|&>|<<<|<<-?|<>|<&-|>&-|<&|>&|>>|>\||[<>])"
)
"""A descriptor or none, and the operator; `<(` is a word, which the caller has ruled out."""

_BLANKS_REDIRECTIONS = re.compile(r"(?:[ \t]|\\\n)*")
_DUPLICATE = re.compile(r"[0-9]+-?|-")
_VARIABLE = re.compile(r"(\"?)\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})\1")
_HARMLESS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_NETWORK = ("/dev/tcp/", "/dev/udp/")


def read_redirection(
    reading: Reading, found: re.Match[str], scope: Scope
) -> tuple[Redirection, int]:
    """The redirection whose operator was found, and where it stops; raises UnclearError."""
    descriptor, operator = found.groups()
    start, at = found.start(), found.end()
    if descriptor and descriptor[0] == "{":
        reading.doubt("the redirection assigns a variable", start, at)
    if operator in {"<<", "<<-"} or found.start(2) in reading.source.documents:
        return _document(reading, found, scope)
    if operator in {"<&-", ">&-"}:
        return Redirection(operator, Effect.NONE, reading.source.written(start, at)), at
    if reading.text.startswith("\\\n", at):
        # Joined, the operator may be a longer one.
        raise UnclearError
    blanks = _BLANKS_REDIRECTIONS.match(reading.text, at)
    at = blanks.end() if blanks else at
    simple = SIMPLE.match(reading.text, at)
    if simple and simple.group(1):
        content = reading.source.decode(simple.group(1))
        word, at = Word(content, source=content), simple.end(1)
    else:
        word, at = read_word(reading, at, scope)
    source = reading.source.written(start, at)
    if operator == "<<<":
        body = word.text if word.literal else None
        return Redirection(operator, Effect.NONE, source, word, body), at
    effect = _effect(operator, word, named=descriptor is not None)
    variable = _VARIABLE.fullmatch(word.source) if operator == "<" else None
    if variable:
        values = dict(scope.loops).get(variable.group(2) or variable.group(3))
        if values is not None and not any(map(may_connect, values)):
            effect = Effect.READ
    return Redirection(operator, effect, source, word), at


def _effect(operator: str, word: Word, *, named: bool) -> Effect:
    text = word.text
    if not word.literal:
        return Effect.READ if operator == "<" and not may_connect(word) else Effect.WRITE
    if operator in {">&", "<&"} and _DUPLICATE.fullmatch(text):
        return Effect.NONE
    if operator == "<":
        return Effect.WRITE if text.startswith(_NETWORK) else Effect.READ
    ambiguous = operator == ">&" and named
    outputs = operator in {">", ">>", ">|", "&>", "&>>", ">&"} and not ambiguous
    return Effect.NONE if outputs and text in _HARMLESS else Effect.WRITE


def may_connect(word: Word) -> bool:
    """Could it be a place for which bash opens a network connection?"""
    known = word.text
    if known or word.literal:
        starts = any(place.startswith(known) for place in _NETWORK) and not word.literal
        return starts or known.startswith(_NETWORK)
    return word.kind is WordKind.EXPANSION or "{" in word.source


def _document(reading: Reading, found: re.Match[str], scope: Scope) -> tuple[Redirection, int]:
    source = reading.source
    position = found.start(2)
    document = source.documents.get(position)
    if document is None:
        raise UnclearError
    # The delimiter stands in the text as it was written; it is scanned for where it stops.
    _, stop = read_word(reading, document.operator_stop, scope)
    body = source.written(document.start, document.stop)
    if document.strips_tabs:
        body = re.sub(r"^\t+", "", body, flags=re.MULTILINE)
    fed = Word(body, source=source.written(document.operator_stop, stop))
    if not document.quoted and re.search(r"[\\$`]", body):
        fed = _expanded(reading, document, body, scope)
    written = source.written(found.start(), stop)
    operator = "<<-" if document.strips_tabs else "<<"
    return Redirection(operator, Effect.NONE, written, fed, body), stop


def _expanded(reading: Reading, document: HereDocument, body: str, scope: Scope) -> Word:
    """The body of a document in which bash expands; what runs in it is read later."""
    source = as_quoted(plain_source(body, body.encode("utf-8", "surrogatepass")))
    nests = any(mark in body for mark in ("$(", "${", "$[", "`"))
    root = parse(source.text.encode("latin-1"), reading.findings) if nests else None
    inner = Reading(source, root, reading.findings)
    if not source.certain or (root is not None and root.has_error):
        raise UnclearError
    word = read_document(inner, 1, len(inner.text) - 1, scope)
    return Word(word.text, word.kind, document.delimiter)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED = _words(
    "! { } [[ ]] if then elif else fi case esac for select while until do done function time coproc"
)
"""Words that are grammar where a command could stand."""

DECLARATIONS = _words("declare typeset local export readonly")

ASSIGNING = DECLARATIONS | _words("let read unset mapfile readarray getopts")
"""Builtins whose arguments may be assignments."""

_EVALUATING = _words("eval source . exec trap")
_CHANGING = _words("alias unalias enable hash bind complete compgen compopt shopt builtin fc")
_HARMLESS_SET = _words(
    "-e -u -x -eu -ex -ux -eux -o pipefail errexit nounset xtrace -eo -euo -exo -euxo -uo"
)
_BINARY = _words("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef")
_NUMERIC = _words("-eq -ne -lt -le -gt -ge")
_NUMBER = re.compile(r"[-+]?\w+|(\"?)\$(?:[?#$!]|\{[?#$!]\})\1")
_RETURNING = re.compile(r"%[^%a-zA-Z]*n")


def doubt_about(words: Sequence[Word]) -> str | None:
    """The reason why a command whose first word is literal may do more than its words say, or
    None."""
    name = words[0].text
    if "/" in name:
        return None
    if name in {"command", "builtin"}:
        inner = next((i for i, w in enumerate(words) if i and not w.text.startswith("-")), None)
        if inner is not None and words[inner].literal:
            return doubt_about(words[inner:]) or _general(name)
    return _general(name) or _particular(name, words)


def _general(name: str) -> str | None:
    if name in ASSIGNING:
        return f"{name} sets variables"
    if name in _EVALUATING:
        return f"{name} runs code"
    if name in _CHANGING:
        return f"{name} changes what commands mean"
    if name in RESERVED:
        return f"{name} is not a command but a reserved word"
    return "a word with % names a job" if name.startswith("%") else None


def _particular(name: str, words: Sequence[Word]) -> str | None:
    if name == "printf":
        return _printf(words[1:])
    if name in {"test", "["}:
        closed = name == "[" and words[-1].literal and words[-1].text == "]"
        return _test(words[1:-1] if closed else words[1:])
    if name == "set" and any(not w.literal or w.text not in _HARMLESS_SET for w in words[1:]):
        return "set changes how the shell works"
    if name == "wait" and any(not w.literal or w.text.startswith("-") for w in words[1:]):
        return "wait can set a variable"
    if name == "jobs" and any(not w.literal or "x" in w.text for w in words[1:]):
        return "jobs can run a command"
    return None


def _printf(operands: Sequence[Word]) -> str | None:
    """`-v` names a variable, and so does what belongs to a `%n` in the format."""
    formats = [w for w in operands[:2] if not w.literal or w.text != "--"]
    if not formats:
        return None
    first = formats[0]
    if (
        first.text.startswith("-v")
        or not first.literal
        or _RETURNING.search(first.text.replace("%%", ""))
    ):
        return "printf can set a variable"
    return None


def _test(operands: Sequence[Word]) -> str | None:
    """A subscript behind `-v` or `-R` is evaluated, and a word that is not known may be either:
    one that may become several words, or one that is where an operator can be."""
    reason = "a test with -v or -R can run code hidden in data"
    if any(w.text in {"-v", "-R"} for w in operands):
        return reason
    if any(w.split and not w.literal and _NUMBER.fullmatch(w.source) is None for w in operands):
        return reason
    for index, word in enumerate(operands):
        if word.literal and word.text in _NUMERIC and index:
            for each in operands[index - 1 : index + 2 : 2]:
                if _NUMBER.fullmatch(each.source or each.text) is None:
                    return "a comparison of numbers can run code hidden in data"
    if len(operands) == 2 and operands[0].literal and operands[0].text == "!":
        return None
    for index, word in enumerate(operands):
        if not word.literal and len(operands) > 1:
            before = operands[index - 1] if index else None
            after = operands[index + 1] if index + 1 < len(operands) else None
            if not (_operates(after, "") or _operates(before, "-")):
                return reason
    return None


def _operates(word: Word | None, start: str) -> bool:
    """Is it a literal operator, a binary one or one that begins with `start`?"""
    if word is None or not word.literal:
        return False
    return word.text in _BINARY or bool(start and word.text.startswith(start))


_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]\s]*\])?(\+?=)")
_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
_TRANSPARENT = RESERVED - {"time", "coproc", "[[", "]]"}
_BREAKS = re.compile(r"[;&|()`{}\n]+|\b(?:if|then|elif|else|while|until|do|case|in)\b")
_MAX_PIECES = 64
_MAX_PARTS = 1000
DIRECTORY = frozenset({"cd", "pushd", "popd"})
"""Commands that change the directory."""
_HOME = Word("", WordKind.PATTERN, "~")
ANYWHERE = Word("", WordKind.EXPANSION, "$DIRSTACK", split=True)
"""The target of a change of directory that is not known."""


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
            deferred=scope.deferred,
        )


_TRANSPARENT_HERE = frozenset({"!", "builtin", "command", "time"})


def run_here(words: Sequence[Word]) -> Sequence[Word]:
    """The command that the shell itself runs, after `command`, `builtin` and `time`."""
    while words and words[0].literal and words[0].text in _TRANSPARENT_HERE:
        at = 1
        while at < len(words) and words[at].text.startswith("-"):
            if words[0].text == "command" and words[at].text in {"-v", "-V"}:
                return words
            at += 1
        words = words[at:]
    return words


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
    words = run_here(words)
    if words and words[0].text in DIRECTORY:
        if scope.shell.loops:
            findings.doubt("a loop changes the directory", part.text)
        scope.shell.directories += (_target(words),)


def _target(words: Sequence[Word]) -> Word:
    """The directory a `cd` or its like goes to."""
    if words[0].text == "popd":
        return ANYWHERE
    operands = [w for w in words[1:] if not (w.literal and re.fullmatch(r"-[LPe@n]+|--", w.text))]
    if not operands:
        return _HOME if words[0].text == "cd" else ANYWHERE
    turns = words[0].text == "pushd" and operands[0].text[:1] in {"+", "-"}
    return operands[0] if len(operands) == 1 and not turns else ANYWHERE
