"""The commands that a line may run: analyse.

Nothing in such a line means anything else to bash; a property test holds what is read here against
what the tree gives, where the tree is certain (it is not of `a | b | c && d`).

The tree gives the structure and says where substitutions end; words, redirections and what is
between tokens are read from the text by bash's own rules, and where the two disagree nothing is
certain.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from alhena.display_text import unseen
from alhena.shell.options import base_name, is_wrapper, takes_code
from alhena.shell.parse.model import (
    Analysis,
    Doubt,
    Findings,
    Part,
    Reading,
    Scope,
    Shell,
    Source,
    plain_source,
)
from alhena.shell.parse.parser import MAX_BYTES, TooMuchError, exceeds, parse, set_apart
from alhena.shell.parse.simple_command import ASSIGNING, RESERVED, read_simple
from alhena.shell.parse.statements import COMPOUNDS, Walk

MAX_LENGTH = 500
"""Characters of a line that is read here; the limits of the parser are far above it."""

_COMMAND = r"[A-Za-z0-9_./-]+(?:[ \t]+[A-Za-z0-9_./:,@%+=-]+)*[ \t]*"
_LINE = re.compile(rf"[ \t]*{_COMMAND}(?:(?:&&|\|\||\||;)[ \t]*{_COMMAND})*;?[ \t]*")
_MEMBER = re.compile(r"([^ \t&|;][^&|;]*?)[ \t]*(&&|\|\||\||;|\Z)")
_FIRST = re.compile(r"[^ \t&|;]+")
_NOT_PLAIN = RESERVED | ASSIGNING


def read_plain(command: str, findings: Findings) -> bool:
    """Adds the parts of a plain line to the findings; False, and nothing added, for any other."""
    if len(command) > MAX_LENGTH or _LINE.fullmatch(command) is None:
        return False
    members = [(*found.span(1), found.group(2)) for found in _MEMBER.finditer(command)]
    for start, _, _ in members:
        first = _FIRST.match(command, start)
        if first is None or first.group() in _NOT_PLAIN:
            return False
    reading = Reading(Source(command, command, ascii=True), None, findings)
    scope = Scope(Shell())
    piped = False
    for start, stop, operator in members:
        if piped or operator == "|":
            read_simple(reading, start, stop, scope.subshell(piped=piped))
        else:
            read_simple(reading, start, stop, scope)
        piped = operator == "|"
    return True


_REMEMBERED = 4096
# Behind a symbol these say whether it is drawn in colour, as people and programs write them.
_STYLED = re.compile("(?<=[\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])[\ufe0e\ufe0f]")


def analyse(command: str) -> Analysis:
    """All that bash may run for a command line, in bounded time. Pure."""
    if len(command) <= _REMEMBERED:
        return _analyse_once(command)
    return _analyse(command)


@lru_cache(maxsize=128)
def _analyse_once(command: str) -> Analysis:
    return _analyse(command)


def _analyse(command: str) -> Analysis:
    data = command.encode("utf-8", "surrogatepass") if len(command) <= MAX_BYTES else b""
    if len(data) > MAX_BYTES or len(command) > MAX_BYTES:
        return _refuse(f"it is longer than {MAX_BYTES // 1024} KiB")
    if "\0" in command:
        return _refuse("it contains a NUL character")
    findings = Findings()
    if not (command.isascii() and command.isprintable()):
        _invisible(command, findings)
    try:
        if not read_plain(command, findings):
            _walk(_source(command, data), data, findings)
    except TooMuchError as error:
        findings.lost(str(error), "")
    parts = tuple(_with_piped_words(findings.parts))
    return Analysis(parts, tuple(findings.doubts.values()), findings.complete)


def _with_piped_words(parts: list[Part]) -> Iterator[Part]:
    """The parts; a console that reads from a pipe with the words that the others may write."""
    for part in parts:
        name = base_name(part.words[0].text) if part.stdin_piped and part.words else ""
        if name and (takes_code(name) or is_wrapper(name)):
            others = (each for each in parts if each is not part)
            words = (word for each in others for word in (*each.words[1:], *each.shown_input))
            part = replace(part, piped_words=tuple(words))
        yield part


def _refuse(reason: str) -> Analysis:
    return Analysis((), (Doubt(reason, ""),), complete=False)


def _invisible(command: str, findings: Findings) -> None:
    for character in dict.fromkeys(_STYLED.sub("", command)):
        if unseen(character) and character not in "\t\n":
            findings.doubt("it contains a character that cannot be seen", ascii(character)[1:-1])


def _source(command: str, data: bytes) -> Source:
    source = plain_source(command, data)
    crowded = exceeds(data)
    if crowded or "<<" in command:
        return set_apart(source, mask_quotes=crowded)
    return source


def _walk(source: Source, data: bytes, findings: Findings) -> None:
    if source.text is not source.raw:
        data = source.text.encode("ascii" if source.ascii else "latin-1")
    root = parse(data, findings)
    if not source.certain:
        findings.lost("its quotes or here documents are not certain", "")
    if root.has_error:
        findings.lost("it does not parse", "")
    Walk(Reading(source, root, findings), COMPOUNDS).program(root, Scope(Shell()))
    done = 0
    while done < len(findings.waiting):
        reading, node, scope = findings.waiting[done]
        Walk(reading, COMPOUNDS).substitution(node, scope)
        done += 1
