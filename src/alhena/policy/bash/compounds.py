"""Compound commands: pipelines, lists, groups, loops, `case`, functions."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from alhena.policy.bash.conditional import read_conditional
from alhena.policy.bash.expansions import ARITHMETIC
from alhena.policy.bash.model import Assignment, Word, WordKind
from alhena.policy.bash.reading import Scope, UnclearError
from alhena.policy.bash.simple import SimpleCommand, read_pieces
from alhena.policy.bash.statements import Walk
from alhena.policy.bash.words import read_word

if TYPE_CHECKING:
    from tree_sitter import Node

_LOOP = re.compile(r"(?:for|select)[ \t]+([A-Za-z_][A-Za-z0-9_]*)(?=[ \t\n;])")
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_READ_BY_PROGRAMS = re.compile(r".*_proxy|histchars|auto_resume|npm_.*|_")
_BLANKS = re.compile(r"(?:[ \t\n]|\\\n)*")
_JOINED = re.compile(r"\\(?:\n|\Z)")
_TERMINATIONS = frozenset({";;", ";&", ";;&"})
_LIST_END = re.compile(r"[ \t]*[;\n][ \t\n]*")


def _redirected(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    body = node.children[0]
    if walk.is_simple(body):
        walk.sequence([body], scope, stop)
    elif body.type in walk.compounds:
        walk.statement(body, scope, stop)
    else:
        walk.sequence(node.children, scope)


def _trailing(walk: Walk, end: int, scope: Scope, stop: int) -> Scope:
    """The scope inside a compound command with the redirections behind it."""
    if stop == end:
        return scope
    reading = walk.reading
    command = SimpleCommand(reading, scope)
    try:
        command.read(end, stop)
    except UnclearError:
        reading.unclear(end, stop)
    if command.words or command.assignments:
        reading.unclear(end, stop)
    return scope.inside(redirections=tuple(command.redirections))


def _pipeline(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    children = node.children
    piped = False
    for child in children:
        if child.type in {"|", "|&"}:
            walk.sequence([child], scope)
            piped = True
            continue
        if child.type == "list":
            walk.reading.unclear(child.start_byte, child.end_byte)
        member = scope.subshell(piped=piped)
        walk.sequence([child], member, stop if child is children[-1] else 0)


def _list(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    nodes: list[Node] = []
    while node.type == "list":
        first, *rest = node.children
        nodes += reversed(rest)
        node = first
    nodes.append(node)
    nodes.reverse()
    walk.sequence(nodes, scope, stop)


def _plain(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    """What is a sequence of reserved words and commands as it stands: `if`."""
    walk.sequence(node.children, _trailing(walk, node.end_byte, scope, stop))


def _negated(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    walk.sequence(node.children, scope, stop)


def _group(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    inner = _trailing(walk, node.end_byte, scope, stop)
    start = node.start_byte
    if walk.reading.text.startswith("((", start):
        _arithmetic(walk, start, node.end_byte, scope)
    if node.children[0].type == "((":
        walk.at = node.end_byte
        return
    walk.sequence(node.children, inner.subshell() if node.type == "subshell" else inner)


def _arithmetic(walk: Walk, start: int, stop: int, scope: Scope) -> None:
    """`((…))`, which bash takes for groups in groups when its brackets do not match."""
    reading = walk.reading
    reading.doubt(ARITHMETIC, start, stop)
    reading.queue_within(start, stop, scope)
    inside = reading.text[start + 2 : stop - 2]
    depth = 0
    for bracket in re.findall(r"[()'\"\\]", inside):
        depth += {"(": 1, ")": -1}.get(bracket, -1000)
        if depth < 0:
            break
    if depth or not reading.text.startswith("))", stop - 2):
        reading.unclear(start, stop)
        read_pieces(reading, start, stop, scope)


def _while(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    inner = _trailing(walk, node.end_byte, scope, stop)
    scope.shell.loops += 1
    walk.sequence(node.children, inner)
    scope.shell.loops -= 1


def _for(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    reading = walk.reading
    inner = _trailing(walk, node.end_byte, scope, stop)
    children = node.children
    body = children[-1]
    head = _LOOP.match(reading.text, node.start_byte)
    if head is None:
        reading.doubt(ARITHMETIC, node.start_byte, body.start_byte)
        reading.queue_within(node.start_byte, body.start_byte, scope)
    else:
        name = head.group(1)
        if not _PLAIN_NAME.fullmatch(name) or _READ_BY_PROGRAMS.fullmatch(name):
            reading.doubt("the loop sets a variable that programs may read", *head.span())
        if children[0].type == "select":
            reading.doubt("select reads what to run from its input", *head.span())
        values = _values(walk, node, head.end(), scope)
        inner = msgspec.structs.replace(inner, loops=(*inner.loops, (name, values)))
    walk.at = body.start_byte
    walk.ready = True
    scope.shell.loops += 1
    walk.sequence([body], inner)
    scope.shell.loops -= 1


_ANYTHING = (Word("", WordKind.EXPANSION, "$@", split=True),)


def _values(walk: Walk, node: "Node", at: int, scope: Scope) -> tuple[Word, ...]:
    """The words a `for` goes through; the line must end, or a `;` stand, before `do`."""
    reading = walk.reading
    children = node.children
    body = children[-1].start_byte
    word = next((child for child in children if child.type == "in"), None)
    values = [c for i, c in enumerate(children) if node.field_name_for_child(i) == "value"]
    given = _ANYTHING
    if word is None:
        stop = at
        clear = re.compile(r"[ \t\n]*;?[ \t\n]*").fullmatch(reading.text, at, body)
    else:
        blanks = _BLANKS.match(reading.text, word.end_byte)
        start = blanks.end() if blanks and values else word.end_byte
        stop = values[-1].end_byte if values else start
        command = SimpleCommand(reading, scope)
        try:
            command.read(start, stop)
        except UnclearError:
            reading.unclear(start, stop)
            reading.queue_within(start, stop, scope)
        before = reading.text[word.end_byte : start]
        if "\n" in before or command.redirections:
            reading.unclear(start, stop)
        given = (*command.words, *map(_as_word, command.assignments))
        clear = _BLANKS.fullmatch(reading.text, at, word.start_byte) and _LIST_END.fullmatch(
            reading.text, stop, body
        )
    if not clear:
        reading.unclear(at, body)
    return given


def _as_word(assignment: Assignment) -> Word:
    value = assignment.value
    text = f"{assignment.name}={value.text}"
    return Word(text, value.kind, assignment.source, value.split)


def _case(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    reading = walk.reading
    inner = _trailing(walk, node.end_byte, scope, stop)
    children = node.children
    try:
        at = _skip(walk, children[0].end_byte)
        _, at = read_word(reading, at, scope)
        at = _skip(walk, at)
        head = reading.text[node.start_byte : children[2].end_byte + 1]
        if children[2].type != "in" or children[2].start_byte != at or _JOINED.search(head):
            raise UnclearError
    except UnclearError:
        reading.unclear(node.start_byte, children[-1].start_byte)
        reading.queue_within(node.start_byte, children[-1].start_byte, scope)
    walk.at = children[2].end_byte if len(children) > 2 else node.end_byte
    for child in children[3:]:
        if child.type == "case_item":
            walk.gap(child.start_byte)
            _item(walk, child, inner)
        else:
            walk.sequence([child], inner)


def _item(walk: Walk, item: "Node", scope: Scope) -> None:
    """`pattern | pattern) commands ;;`"""
    reading = walk.reading
    children = item.children
    close = next((i for i, child in enumerate(children) if child.type == ")"), len(children) - 1)
    stop = children[close].start_byte
    try:
        if _JOINED.search(reading.text, item.start_byte, stop):
            raise UnclearError
        at = _skip(walk, item.start_byte + (children[0].type == "("))
        while True:
            word, at = read_word(reading, at, scope)
            at = _skip(walk, at)
            if word.source == "esac":
                raise UnclearError
            if at == stop:
                break
            if reading.text[at] != "|":
                raise UnclearError
            at = _skip(walk, at + 1)
    except UnclearError:
        reading.unclear(item.start_byte, stop)
        reading.queue_within(item.start_byte, stop, scope)
    walk.at = children[close].end_byte
    walk.ready = True
    ended = children[-1].type in _TERMINATIONS
    walk.sequence(children[close + 1 : -1 if ended else None], scope)
    if ended:
        walk.gap(children[-1].start_byte)
        walk.separator(children[-1].type, children[-1].end_byte)


def _skip(walk: Walk, at: int) -> int:
    blanks = _BLANKS.match(walk.reading.text, at)
    return blanks.end() if blanks else at


def _function(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    reading = walk.reading
    body = node.children[-1]
    reading.doubt("a function changes what a command means", node.start_byte, body.start_byte)
    walk.at = body.start_byte
    walk.ready = True
    walk.statement(body, _trailing(walk, node.end_byte, scope, stop))


def _conditional(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    inner = _trailing(walk, node.end_byte, scope, stop)
    start, end = node.start_byte, node.end_byte
    if walk.reading.text.startswith("[[", start):
        read_conditional(walk.reading, start, end, inner)
    else:
        _arithmetic(walk, start, end, scope)


COMPOUNDS: "Mapping[str, Callable[[Walk, Node, Scope, int], None]]" = {
    "redirected_statement": _redirected,
    "pipeline": _pipeline,
    "list": _list,
    "negated_command": _negated,
    "subshell": _group,
    "compound_statement": _group,
    "if_statement": _plain,
    "while_statement": _while,
    "for_statement": _for,
    "c_style_for_statement": _for,
    "case_statement": _case,
    "function_definition": _function,
    "test_command": _conditional,
}
"""Node type -> who reads it."""
