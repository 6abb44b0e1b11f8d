"""`alhena docs`: pages of the documentation, in a pager at a terminal and as text in a pipe."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from alhena.display_text import escaped
from alhena.errors import InputError, UsageError
from alhena.frontends.shared.streams import is_terminal, write_stdout
from alhena.system.environment import shield_memory
from alhena.system.own_programs import find_program
from alhena.tools.builtin.get_internal_docs import docs_directory, document_names

USAGE = """\
usage: alhena docs [TOPIC]

Shows a page of the documentation. TOPIC is the name of a page (policy, howto/undo) or a word of its
title or its headings; without one all pages are listed. At a terminal the page opens in $PAGER, or
less; `alhena docs TOPIC | cat` prints it.
"""
_PAGER = "less -FR"


class DocumentPage(NamedTuple):
    """A page: its name without ending, its title and its text."""

    name: str
    title: str
    text: str


def run(argv: list[str]) -> int:
    """Carries out `alhena docs ARGV`; returns the exit code."""
    if any(word.startswith("-") for word in argv):
        raise UsageError("`alhena docs` takes no such option.", remedy="See alhena docs --help.")
    pages = read_pages(docs_directory())
    topic = " ".join(argv).strip().removesuffix(".md").lower()
    found = find_pages(pages, topic)
    if not found:
        raise InputError(
            f"there is no page on {topic!r}.", remedy="See alhena docs for the names of all pages."
        )
    if topic and len(found) == 1:
        show_text(found[0].text)
    else:
        width = max(len(page.name) for page in found)
        write_stdout("".join(f"{page.name:{width}}  {page.title}\n" for page in found))
    return 0


def read_pages(directory: Path) -> list[DocumentPage]:
    """All pages below a directory. Raises InputError when there is none."""
    pages: list[DocumentPage] = []
    for name in document_names(directory):
        text = (directory / name).read_text(encoding="utf-8", errors="replace")
        if text.startswith("<!--"):
            text = text.partition("-->")[2].lstrip("\n")
        title = next((line[2:] for line in text.splitlines() if line.startswith("# ")), name)
        pages.append(DocumentPage(name.removesuffix(".md"), title.strip(), text))
    if not pages:
        raise InputError(
            f"there is no documentation at {directory}.", remedy="Install alhena again."
        )
    return pages


def find_pages(pages: list[DocumentPage], topic: str) -> list[DocumentPage]:
    """The page of this name, else those with all words of the topic in name and title, else in a
    heading; without a topic all."""
    named = [page for page in pages if page.name == topic]
    named = named or [page for page in pages if page.name.endswith(f"/{topic}")]
    if topic and named:
        return named
    words = topic.split()
    for text_of in (_title_text, _heading_text):
        found = [page for page in pages if all(word in text_of(page) for word in words)]
        if found:
            return found
    return []


def _title_text(page: DocumentPage) -> str:
    return f"{page.name} {page.title}".lower()


def _heading_text(page: DocumentPage) -> str:
    return "\n".join(line for line in page.text.splitlines() if line.startswith("#")).lower()


def show_text(text: str) -> None:
    """Shows a text in the pager of a terminal, else prints it."""
    shown = escaped(text, block=True)
    if is_terminal(sys.stdout) and is_terminal(sys.stdin):
        words = shlex.split(os.environ.get("PAGER") or _PAGER)
        program = find_program(words[0], os.environ, (Path.cwd(),)) if words else None
        if program is not None:
            shield_memory()
            ran = subprocess.run(
                [program, *words[1:]], input=shown.encode("utf-8", "replace"), check=False
            )
            if ran.returncode == 0:
                return
    write_stdout(shown if shown.endswith("\n") else f"{shown}\n")
