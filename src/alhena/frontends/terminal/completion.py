"""What the input line can be completed to: commands behind a slash, paths behind an @."""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from alhena.display_text import escaped
from alhena.errors import AlhenaError
from alhena.frontends.mentions import quoted_path

if TYPE_CHECKING:
    from alhena.system.ignore import IgnoreRules

OFFERED = 50
_TAKES_A_TAG = re.compile(r"/chat +(?:resume|load|delete) +(.*)")
LOOKED_AT = 20_000
"""Entries of the file tree that are looked at for one completion."""


class PromptCompleter(Completer):
    """Completes the word before the cursor: to the name of a command, or to a path below `cwd` that
    git and .geminiignore do not leave out."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """The completions of the word at the cursor; runs in a thread of its own."""
        del complete_event
        text = document.text_before_cursor
        if text.startswith("/") and not any(char in text for char in " \n"):
            from alhena.frontends.terminal.commands import command_names

            for name, summary in command_names():
                if name.startswith(text):
                    yield Completion(name, -len(text), display_meta=summary)
            return
        if (begun := _TAKES_A_TAG.match(text)) is not None:
            for name in tags(self._cwd):
                if name.startswith(begun[1]):
                    yield Completion(name, -len(begun[1]), display=escaped(name))
            return
        word = path_word(text)
        if word is None:
            return
        for path in paths(self._cwd, word):
            yield Completion(quoted_path(path), -len(word), display=escaped(path))


def tags(cwd: Path) -> list[str]:
    """The names of the conversations of a project that are saved."""
    from alhena.config.home import project_temp
    from alhena.session.tags import project_tags

    try:
        return [tag.name for tag in project_tags(project_temp(os.environ, cwd)).all()]
    except AlhenaError:  # nothing to offer there; the command says why
        return []


def path_word(text: str) -> str | None:
    """What stands behind an @ at the end of a text; None when the last word has none."""
    start = max(text.rfind(char) for char in " \n\t(,;") + 1
    while start > 1 and text[start - 2] == "\\":  # a blank that belongs to the path
        start = max(text.rfind(char, 0, start - 1) for char in " \n\t(,;") + 1
    word = text[start:]
    return word[1:] if word.startswith("@") else None


def paths(cwd: Path, word: str) -> Iterator[str]:
    """Paths that begin with `word`, of the directory it names; when there is none, paths anywhere
    below `cwd` whose name contains it. Directories end in a slash."""
    from alhena.system.ignore import IgnoreRules

    word = word.replace("\\", "")
    folder, _, name = word.rpartition("/")
    rules = IgnoreRules(cwd, environ=os.environ)
    count = 0
    for path in _beginning(cwd, folder, name, rules):
        yield path
        count += 1
        if count == OFFERED:
            return
    if not folder and len(name) >= 2 and not count:
        yield from _containing(cwd, name.casefold(), rules)


def _beginning(cwd: Path, folder: str, name: str, rules: "IgnoreRules") -> Iterator[str]:
    directory = cwd / os.path.expanduser(folder) if folder else cwd
    try:
        with os.scandir(directory) as found:
            entries = sorted((entry.name, entry.is_dir()) for entry in islice(found, LOOKED_AT))
    except OSError:  # nothing to offer there
        return
    within = rules.within(directory) if directory.is_relative_to(cwd) else None
    prefix = f"{folder}/" if folder or name.startswith("/") else ""
    for entry, is_dir in entries:
        hidden = entry.startswith(".") and not name.startswith(".")
        ignored = within is not None and within.ignores(entry, is_dir)
        if entry.startswith(name) and not hidden and not ignored:
            yield f"{prefix}{entry}{'/' if is_dir else ''}"


def _containing(cwd: Path, name: str, rules: "IgnoreRules") -> Iterator[str]:
    from alhena.system.walk import walk

    start = len(str(cwd).rstrip("/")) + 1
    offered = 0
    for entry in islice(walk(cwd, rules), LOOKED_AT):
        if offered == OFFERED:
            return
        if name in entry.name.casefold():
            offered += 1
            yield entry.path[start:]
