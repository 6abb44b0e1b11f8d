"""`{{args}}` in the shell commands of a template.

The arguments reach bash as one text, whatever they are. A command that has them where no escaping
makes sure of that, where another language reads them, or where an option with a program in it may
stand, is refused.
"""

import re
import shlex
from typing import TYPE_CHECKING

from msgspec.structs import replace

from alhena.errors import InputError

if TYPE_CHECKING:
    from tree_sitter import Node

    from alhena.shell.parse.model import Part, Word

ARGUMENTS = "{{args}}"

_PLAIN = frozenset(
    {
        *("binary_expression", "case_item", "case_statement", "command", "unary_expression"),
        *("compound_statement", "concatenation", "do_group"),
        *("elif_clause", "else_clause", "file_redirect", "for_statement", "herestring_redirect"),
        *("if_statement", "list", "negated_command", "pipeline", "program", "redirected_statement"),
        *("string", "subshell", "variable_assignment", "while_statement"),
    }
)
"""Nodes of a syntax tree in which a quoted word is a word."""
_PLACES = {
    "ansi_c_string": "in $'…'",
    "arithmetic_expansion": "in arithmetic",
    "array": "in an array",
    "c_style_for_statement": "in arithmetic",
    "case_item": "in a pattern",
    "command_name": "as the program to run",
    "command_substitution": "in backticks",
    "comment": "in a comment",
    "declaration_command": "in a declaration",
    "expansion": "in ${…}",
    "function_definition": "in a function",
    "heredoc_body": "in a here document",
    "simple_expansion": "behind a $",
    "subscript": "in a subscript",
    "test_command": "in [[ … ]] or (( … ))",
    "translated_string": 'in $"…"',
    "unset_command": "in unset",
    "variable_name": "in the name of a variable",
}


def check_placeholders(command: str) -> None:
    """Raises InputError for a shell command that has `{{args}}` where they could be more than one
    text."""
    if ARGUMENTS in command:
        _nodes(command)


def with_arguments(command: str, arguments: str) -> str:
    """A shell command with the arguments in place of `{{args}}`, escaped as one word or as part of
    the quoted text around it. Raises InputError as `check_placeholders` does."""
    if ARGUMENTS not in command:
        return command
    nodes = _nodes(command)
    if not arguments:
        return command.replace(ARGUMENTS, "")
    if "\0" in arguments:
        raise InputError("The arguments contain a NUL character.", remedy="Leave it out.")
    first, *rest = command.split(ARGUMENTS)
    texts = (_escape_arguments(node.type, arguments) for node in nodes)
    return first + "".join(f"{text}{after}" for text, after in zip(texts, rest, strict=True))


def _escape_arguments(kind: str, arguments: str) -> str:
    if kind == "raw_string":
        return arguments.replace("'", "'\\''")
    if kind == "string_content":
        return re.sub(r'([\\"$`])', r"\\\1", arguments)
    return shlex.quote(arguments)


def _nodes(command: str) -> "list[Node]":
    """The nodes of the syntax tree that hold a placeholder, in order. Raises InputError."""
    mark = "alhena_args"
    while mark in command:
        mark += "_"
    marked = command.replace(ARGUMENTS, mark)
    found = _tree_nodes(marked, mark)
    place = "in a command that cannot be read" if found is None else None
    for node in found or []:
        place = place or _unsafe_place(node, mark)
    place = place or _read_as_code(marked, mark)
    if place is not None or found is None:
        raise InputError(
            f"{ARGUMENTS} is unsafe at this place of the command ({place}): {command}",
            remedy="Use it as an argument of its own, or move the command into a script that gets "
            f"it: ./script.sh {ARGUMENTS}",
        )
    return found


def _tree_nodes(marked: str, mark: str) -> "list[Node] | None":
    """None for a command that cannot be parsed."""
    from alhena.shell.parse.model import Findings
    from alhena.shell.parse.parser import TooMuchError, parse

    data, wanted = marked.encode("utf-8", "surrogatepass"), mark.encode()
    try:
        root = parse(data, Findings())
    except TooMuchError:
        return None
    spans = [found.span() for found in re.finditer(re.escape(wanted), data)]
    nodes = [root.descendant_for_byte_range(*span) for span in spans]
    if root.has_error or not all(nodes):
        return None
    return [node for node in nodes if node is not None]


def _unsafe_place(node: "Node", mark: str) -> str | None:
    """The place of a node in words, if escaping is not enough there."""
    text = (node.text or b"").decode("utf-8", "replace")
    if node.type not in {"word", "raw_string", "string_content"}:
        return _PLACES.get(node.type, "where it is no argument")
    if node.type != "raw_string" and f"\\{mark}" in text:
        return "behind a backslash"
    before, above = node, node.parent
    while above is not None:
        substitutes = above.type in {"command_substitution", "process_substitution"}
        plain = (substitutes and above.children[0].type in {"$(", "<(", ">("}) or (
            above.type == "test_command" and above.children[0].type == "["
        )
        named = (
            above.type == "for_statement" and before == above.child_by_field_name("variable")
        ) or (above.type == "case_item" and before in above.children_by_field_name("value"))
        if named or not (plain or above.type in _PLAIN):
            return _PLACES.get(above.type, "where it is no argument")
        before, above = above, above.parent
    return None


def _read_as_code(marked: str, mark: str) -> str | None:
    """The place of a placeholder that a command may take for more than a text."""
    from alhena.shell.parse.analysis import analyse

    found = analyse(marked)
    if found.doubts:
        return found.doubts[0].reason
    if not found.complete:
        return "in a command that cannot be read"
    place = _unsafe_variable(found.parts, mark) or _unsafe_file(found.parts, mark)
    places = (_unsafe_part(part, mark) for part in found.parts)
    return place or next(filter(None, places), None)


def _unsafe_file(parts: "tuple[Part, ...]", mark: str) -> str | None:
    """A file with the arguments may be a script that the same command runs."""
    from alhena.shell.options import base_name
    from alhena.shell.parse.model import Effect
    from alhena.shell.tables import removal

    names = _holding_variables(parts, mark)

    def writes(part: "Part") -> bool:
        words = (*part.words, *part.piped_words, *part.shown_input)
        texts = [_text(word) for word in words]
        held = any(mark in text or ("$" in text and names) for text in texts)
        into = any(r.effect is Effect.WRITE for r in part.redirections)
        over = bool(part.words) and removal(base_name(part.words[0].text)) is not None
        return (held or part.stdin_piped) and (into or over)

    writing = [at for at, part in enumerate(parts) if writes(part)]
    running = [at for at, part in enumerate(parts) if writing and _runs_file(part)]
    if any(one != other for one in writing for other in running):
        return "in a file, where the command also runs a script"
    return None


def _holding_variables(parts: "tuple[Part, ...]", mark: str) -> set[str]:
    """The variables that have the arguments in them."""
    names = {each.name for part in parts for each in part.assignments if mark in each.source}
    return names | {
        name for part in parts for name, words in part.loops if any(mark in _text(w) for w in words)
    }


def _runs_file(part: "Part") -> bool:
    """May the part run a file that another part wrote?"""
    from alhena.shell.options import base_name, takes_code
    from alhena.shell.reach import reach
    from alhena.shell.tables import listed, main_name

    for command in reach(part).commands if part.words else ():
        text = command.words[0].text
        name = base_name(text)
        local = "/" in text and not text.startswith(("/bin/", "/usr/"))
        if local or takes_code(name) or name in listed("opaque"):
            return True
        if main_name(name) in {"just", "make", "task"}:
            return True
    return False


def _unsafe_variable(parts: "tuple[Part, ...]", mark: str) -> str | None:
    """A variable with the arguments may decide what runs, or become code."""
    from alhena.config.environment import is_choosing
    from alhena.shell.reach import reach

    names = _holding_variables(parts, mark)
    deciding = next(filter(is_choosing, sorted(names)), None)
    if deciding is not None:
        return f"in {deciding}, which may decide what runs"
    if names and not all(reach(part).complete for part in parts):
        return "in a variable that may become code"
    return None


def _unsafe_part(part: "Part", mark: str) -> str | None:
    from alhena.shell.options import base_name
    from alhena.shell.parse.model import WordKind
    from alhena.shell.parse.simple_command import doubt_about
    from alhena.shell.reach import reach

    held = [word for word in part.words if mark in _text(word)]
    words = tuple(
        replace(word, text="", kind=WordKind.EXPANSION, source="…") if word in held else word
        for word in part.words
    )
    given = (*held, *part.piped_words, *part.shown_input)
    if not any(mark in _text(word) for word in given) or not words:
        return None
    if not words[0].literal or words[0] in held:
        return "as the program to run"
    name = base_name(words[0].text)
    doubt = doubt_about(words)
    if doubt is not None:
        return doubt
    found = reach(part)
    own = {id(word) for word in part.words}
    if not found.complete and _may_evaluate(name):
        return f"where {name} may run it"
    for command in found.commands:
        for at, word in enumerate(command.words):
            if mark in _text(word) and (at == 0 or id(word) not in own):
                return f"where {command.via or name} reads it as code"
        place = _in_script(command.words, mark) or _in_option(command.words, mark)
        if place is not None:
            return place
    return None


def _in_option(words: "tuple[Word, ...]", mark: str) -> str | None:
    """The value of an option that runs or loads what it names; or a word that may become an option
    whose value is code."""
    from alhena.shell.beyond import may_run_more, runs_value
    from alhena.shell.options import base_name

    name = base_name(words[0].text)
    for at, word in enumerate(words[1:], start=1):
        if mark not in _text(word):
            continue
        if runs_value(words, at):
            return f"in an option by which {name} runs another program"
        if word.text.startswith(mark) and may_run_more(words, at):
            return f"without -- before it, where it may be an option by which {name} runs another"
        if name == "socat":
            return "in an address of socat, which may be a command"
    return None


def _text(word: "Word") -> str:
    return f"{word.text} {word.source}"


def _may_evaluate(name: str) -> bool:
    from alhena.shell.options import is_wrapper, takes_code
    from alhena.shell.tables import listed

    lists = ("evaluators", "opaque", "code_in_data")
    return takes_code(name) or is_wrapper(name) or any(name in listed(each) for each in lists)


def _in_script(words: "tuple[Word, ...]", mark: str) -> str | None:
    """An interpreter's script comes before its arguments, which may have to be kept from being
    options."""
    from alhena.shell.languages.interpreters import script_place
    from alhena.shell.options import base_name

    first = next((at for at, word in enumerate(words) if mark in _text(word)), len(words))
    script = script_place(words)
    if script is None or first > script or first == len(words):
        return None
    return f"in the script or the options of {base_name(words[0].text)}"
