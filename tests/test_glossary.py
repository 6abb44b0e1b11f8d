"""docs/glossary.md lists the words of pages, help texts and messages, and they keep to it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from alhena.frontends.cli.completion import help_of
from alhena.frontends.main import COMMANDS
from alhena.frontends.shared.arguments import run_parser
from alhena.frontends.terminal.commands import COMMANDS as SLASH_COMMANDS
from tests.support.sources import parsed_modules

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GLOSSARY = DOCS / "glossary.md"


def rows() -> list[list[str]]:
    lines = [line for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line[:2] == "| "]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def other_words() -> re.Pattern[str]:
    words = [re.escape(word) for row in rows() for word in row[2].split(", ")]
    return re.compile(rf"(?<![\w-])({'|'.join(words)})s?(?![\w-])", re.IGNORECASE)


def pages() -> dict[str, str]:
    """The pages without code; those for people who come from elsewhere use the words from there."""
    found = {
        path.relative_to(DOCS).as_posix(): path
        for path in DOCS.rglob("*.md")
        if path != GLOSSARY and path.parent.name != "coming-from"
    }
    return {
        name: re.sub(r"`[^`\n]+`", "", path.read_text(encoding="utf-8"))
        for name, path in found.items()
    }


def test_terms_are_in_order_and_used_by_the_pages():
    terms = [row[0] for row in rows()]
    assert terms == sorted(terms)
    assert len(terms) > 30
    text = "\n".join(pages().values()).lower()
    words = [word.removesuffix("y") for term in terms for word in term.split(", ")]
    assert not [word for word in words if not re.search(rf"\b{word}", text)]


def test_pages_and_help_texts_use_no_other_words_for_them():
    other = other_words()
    texts = pages() | {f"alhena {name} --help": help_of(name) for name in COMMANDS}
    texts["alhena --help"] = run_parser().format_help()
    texts["/help"] = "\n".join(command.summary for command in SLASH_COMMANDS)
    found = {(name, match[0]) for name, text in texts.items() for match in other.finditer(text)}
    assert not found


PATTERN = re.compile(r"\(\?|\\[bdDswW]")
"""Regular expressions are of what services and programs write."""


def texts(tree: ast.Module) -> Iterator[str]:
    """Texts of three words or more that are neither docstrings nor patterns."""
    apart: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            apart.add(id(node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = len(node.value.split())
            if words > 2 and id(node) not in apart and not PATTERN.search(node.value):
                yield node.value


def test_messages_use_no_other_words_for_them():
    other = other_words()
    found: set[tuple[str, str]] = set()
    seen = 0
    for path, tree in parsed_modules(" "):
        for text in texts(tree):
            seen += 1
            found |= {(str(path), match[0]) for match in other.finditer(text)}
    assert seen > 4000
    assert not found


def test_the_prompts_and_the_manual_page_use_no_other_words_for_them():
    files = [*(ROOT / "src").rglob("*.md"), *(ROOT / "share").rglob("*.1")]
    assert len(files) > 40
    other = other_words()
    for path in files:
        text = re.sub(r"`[^`\n]+`", "", path.read_text(encoding="utf-8"))
        assert not other.findall(text), path
