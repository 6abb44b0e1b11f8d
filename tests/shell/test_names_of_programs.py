"""Names of programs stand in tables and in `languages/`, not in other code of the shell room, nor in
the policy."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/alhena"
TABLES = json.loads((SOURCE / "shell/programs/programs.json").read_text(encoding="utf-8"))
BASH = {
    *("[", "[[", ".", ":", "alias", "bash", "builtin", "cd", "command", "compgen", "complete"),
    *("coproc", "declare", "echo", "enable", "eval", "exec", "exit", "export", "false", "fc"),
    *("getopts", "hash", "jobs", "let", "local", "mapfile", "printf", "pwd", "read", "readarray"),
    *("readonly", "return", "set", "shopt", "source", "test", "time", "trap", "true", "type"),
    *("typeset", "unset", "wait"),
}
"""Bash and its own words, which the parser and `shell_changes` know."""
WORDS = {"at", "cut", "dir", "file", "id", "script", "shell", "split", "tree", "which", "*"}
"""Ordinary words that are also names of programs."""


def names_of_programs() -> set[str]:
    tables = ("programs", "aliases", "removes", "versions", "absent", "narrow")
    found = {name.partition(" ")[0] for table in tables for name in TABLES[table]}
    for each in ("shells", "finders", "mentioning", "code_runners", "single", "too_broad"):
        found.update(TABLES["names"][each].split())
    return found - BASH - WORDS


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of a module that are no docstrings, with their lines."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.lineno, node.value


def test_programs_are_named_only_in_tables_and_languages() -> None:
    names = names_of_programs()
    assert {"git", "rm", "python", "sed", "env"} <= names
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for room in ("shell", "policy")
        for path in sorted((SOURCE / room).rglob("*.py"))
        if path.parent.name != "languages"
        for line, text in texts(ast.parse(path.read_text(encoding="utf-8")))
        if text.partition(" ")[0] in names and not text.startswith(" ")
    ]
    assert found == []
