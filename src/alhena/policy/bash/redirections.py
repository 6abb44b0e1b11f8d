"""What a redirection does to the world."""

import re

from alhena.policy.bash.bounds import parse
from alhena.policy.bash.layout import as_quoted
from alhena.policy.bash.model import Effect, Redirection, Word, WordKind
from alhena.policy.bash.reading import Reading, Scope, UnclearError
from alhena.policy.bash.source import HereDocument, plain_source
from alhena.policy.bash.words import SIMPLE, read_document, read_word

OPERATOR = re.compile(
    r"([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(&>>|&>|<<<|<<-?|<>|<&-|>&-|<&|>&|>>|>\||[<>])"
)
"""A descriptor or none, and the operator; `<(` is a word, which the caller has ruled out."""

_BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
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
    blanks = _BLANKS.match(reading.text, at)
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
    root = parse(source.text.encode("latin-1"), reading.findings.budget) if nests else None
    inner = Reading(source, root, reading.findings)
    if not source.certain or (root is not None and root.has_error):
        raise UnclearError
    word = read_document(inner, 1, len(inner.text) - 1, scope)
    return Word(word.text, word.kind, document.delimiter)
