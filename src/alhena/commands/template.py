"""Templates of custom commands: `{{args}}`, `!{shell command}` and `@{path}`.

A template is parsed once, before anything is put into it: what arguments, files and commands bring
is text and never expanded.
"""

import re
import shlex
from typing import TYPE_CHECKING

import msgspec

from alhena.errors import InputError

if TYPE_CHECKING:
    from tree_sitter import Node

ARGUMENTS = "{{args}}"
_OPENING = re.compile(r"\{\{args\}\}|[!@]\{")
_BRACE = re.compile(r"[{}]")


class Text(msgspec.Struct, frozen=True):
    """Literal text."""

    text: str


class Arguments(msgspec.Struct, frozen=True):
    """`{{args}}` outside of a shell command."""


class Shell(msgspec.Struct, frozen=True):
    """`!{command}`, whose output takes its place; `{{args}}` may occur in it."""

    command: str


class File(msgspec.Struct, frozen=True):
    """`@{path}`, whose content takes its place."""

    path: str


Piece = Text | Arguments | Shell | File


def parse(template: str) -> tuple[Piece, ...]:
    """The pieces of a template, in order. Raises InputError for an injection without an end."""
    pieces: list[Piece] = []
    at = 0
    while (found := _OPENING.search(template, at)) is not None:
        if found.start() > at:
            pieces.append(Text(template[at : found.start()]))
        at = found.end()
        if found[0] == ARGUMENTS:
            pieces.append(Arguments())
            continue
        end = _end(template, at)
        if end is None:
            raise InputError(
                f"Unclosed injection starting at index {found.start()} ('{found[0]}').",
                remedy="Balance the braces: those of paths and commands count too.",
            )
        inner = template[at:end].strip()
        if inner:
            pieces.append(Shell(inner) if found[0] == "!{" else File(inner))
        at = end + 1
    if at < len(template):
        pieces.append(Text(template[at:]))
    return tuple(pieces)


def _end(template: str, at: int) -> int | None:
    """The index of the brace that closes the one before `at`."""
    depth = 1
    for brace in _BRACE.finditer(template, at):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return None


def takes_arguments(pieces: tuple[Piece, ...]) -> bool:
    """True if `{{args}}` occurs in a template."""
    return any(
        isinstance(piece, Arguments) or (isinstance(piece, Shell) and ARGUMENTS in piece.command)
        for piece in pieces
    )


def with_arguments(command: str, arguments: str) -> str:
    """A shell command with the arguments in place of `{{args}}`, escaped as one word or as part of
    the quoted text around it.

    Raises InputError where no escaping is safe, such as in a here document.
    """
    if not arguments or ARGUMENTS not in command:
        return command.replace(ARGUMENTS, "")
    mark = "alhena_args"
    while mark in command:
        mark += "_"
    escaped = [
        _escaped(node, arguments) for node in _marked(command.replace(ARGUMENTS, mark), mark)
    ]
    first, *rest = command.split(ARGUMENTS)
    if len(rest) != len(escaped) or None in escaped:
        raise InputError(
            f"no arguments can be given safely where {ARGUMENTS} stands in: {command}",
            remedy="Put it outside of here documents, comments and arithmetic.",
        )
    return first + "".join(f"{one}{after}" for one, after in zip(escaped, rest, strict=True))


def _marked(command: str, mark: str) -> "list[Node]":
    """The nodes of the syntax tree that hold a mark; none for a command that cannot be parsed."""
    from alhena.policy.bash.reading import Budget, TooMuchError, parse

    data, wanted = command.encode("utf-8", "surrogateescape"), mark.encode()
    try:
        root = parse(data, Budget())
    except TooMuchError:
        return []
    if root.has_error:
        return []
    places = (found.span() for found in re.finditer(re.escape(wanted), data))
    nodes = (root.descendant_for_byte_range(*place) for place in places)
    return [node for node in nodes if node is not None]


def _escaped(node: "Node", arguments: str) -> str | None:
    """The arguments for the place of a node; None where no escaping is safe."""
    above = node.parent
    while above is not None:
        if above.type in ("subscript", "arithmetic_expansion", "heredoc_body"):
            return None
        above = above.parent
    match node.type:
        case "word":
            return shlex.quote(arguments)
        case "raw_string":
            return arguments.replace("'", "'\\''")
        case "string_content":
            return re.sub(r'([\\"$`])', r"\\\1", arguments)
        case _:
            return None
