"""Completes the word before the cursor: a command, a value of one, or what an @ names."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from alhena.config.settings import FileFilteringSettings
from alhena.display_text import escaped, one_line
from alhena.frontends.shared.mentions import quoted_path

if TYPE_CHECKING:
    from alhena.frontends.terminal.completion.command_values import Offer
    from alhena.frontends.terminal.completion.file_index import FileIndex
    from alhena.frontends.terminal.conversation import Conversation

OFFERED = 50
MAX_META = 120
LOOKED_AT = 20_000
"""Entries of a directory that are looked at."""


class PromptCompleter(Completer):
    """Completes to names of commands, custom commands and prompts of servers, to their subcommands
    and values, and after an @ to agents, resources of servers, and paths below `cwd` that git and
    .geminiignore do not leave out. `session` is set once there is one, `when_read` before the
    first completion: it is called in a thread once the paths are known."""

    def __init__(self, cwd: Path, index: "FileIndex | None" = None) -> None:
        self._cwd = cwd
        self._index = index
        self.filtering = FileFilteringSettings()
        self.session: Conversation | None = None
        self.when_read: Callable[[], object] = lambda: None

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """The completions of the word at the cursor; runs in a thread of its own."""
        del complete_event
        text = document.text_before_cursor
        if text.startswith("/") and "\n" not in text:
            yield from self._of_command(text)
            return
        word = path_word(text)
        if word is None:
            return
        for name, about in self._mentions(word):
            yield _completion(name, word, about)
        for path in self._paths(word):
            yield _completion(path, word, "", quoted_path(path))

    def _of_command(self, text: str) -> Iterator[Completion]:
        name, blank, rest = text[1:].partition(" ")
        if not blank:
            from alhena.frontends.terminal.commands import command_names

            own = () if self.session is None else tuple(self.session.prompts.names())
            arguments = dict.fromkeys((word for word, _ in own), " ")
            for word, about in best_of((*command_names(), *own), name):
                yield _completion(f"/{word}", text, about, f"/{word}{arguments.get(word, '')}")
            return
        if self.session is None:
            return
        from alhena.frontends.terminal.completion.command_values import values_of

        words = rest.split(" ")
        for start in reversed(range(len(words))):  # a value may have blanks
            before, last = [each for each in words[:start] if each], " ".join(words[start:])
            found = best_of(values_of(self.session, name, before), last)
            if found:
                yield from (_completion(word, last, about, word) for word, about in found)
                return

    def _mentions(self, word: str) -> "Iterator[Offer]":
        """Agents and resources of servers."""
        if self.session is None:
            return
        from alhena.frontends.terminal.completion.command_values import mentions_of

        yield from best_of(mentions_of(self.session), word)

    def _paths(self, word: str) -> Iterator[str]:
        """Paths: from the index; until it is read, and for those that lie elsewhere, from the
        directory that the word names."""
        outside = word.startswith(("/", "~", ".."))
        if not self.filtering.enable_recursive_file_search or outside:
            yield from beginning_with(self._cwd, word, self.filtering)
            return
        index = self._open_index()
        found = index.find(word)
        if not self.filtering.enable_fuzzy_search:
            found = [each for each in found if word.casefold() in each.casefold()]
        yield from found if index.ready else beginning_with(self._cwd, word, self.filtering)

    def _open_index(self) -> "FileIndex":
        from alhena.frontends.terminal.completion.file_index import FileIndex

        if self._index is None:
            self._index = FileIndex(self._cwd, self.when_read)
        self._index.filtering = self.filtering
        self._index.refresh()
        return self._index

    def prepare(self) -> None:
        """Begins to read the paths, so that they are known when an @ is typed."""
        if self.filtering.enable_recursive_file_search:
            self._open_index()


def _completion(text: str, word: str, about: str, whole: str | None = None) -> Completion:
    return Completion(
        text if whole is None else whole,
        -len(word),
        display=escaped(text),
        display_meta=one_line(about, MAX_META),
    )


def best_of(offers: "Iterable[Offer]", word: str) -> "list[Offer]":
    """The offers that a word means: itself, those that begin with it, and those that have it."""
    wanted = word.casefold()
    kinds: tuple[list[Offer], ...] = ([], [], [])
    for each in dict.fromkeys(offers):
        name = each[0].casefold()
        if name == wanted:
            kinds[0].append(each)
        elif name.startswith(wanted):
            kinds[1].append(each)
        elif len(wanted) > 1 and wanted in name:
            kinds[2].append(each)
    return [each for kind in kinds for each in kind][:OFFERED]


def path_word(text: str) -> str | None:
    """The text after an @ in the last word; None when that word has none."""
    start = max(text.rfind(char) for char in " \n\t(,;") + 1
    while start > 1 and text[start - 2] == "\\":  # a blank that belongs to the path
        start = max(text.rfind(char, 0, start - 1) for char in " \n\t(,;") + 1
    word = text[start:]
    return word[1:] if word.startswith("@") else None


_ESCAPED = re.compile(r"\\(.)")


def beginning_with(cwd: Path, word: str, filtering: FileFilteringSettings) -> Iterator[str]:
    """Paths that begin with `word`, of the directory it names, as `filtering` allows. Directories
    end in a slash."""
    from alhena.system.ignore import IgnoreRules

    folder, _, name = _ESCAPED.sub(r"\1", word).rpartition("/")
    git, gemini = filtering.respect_git_ignore, filtering.respect_gemini_ignore
    custom = filtering.custom_ignore_file_paths
    rules = IgnoreRules(cwd, git=git, gemini=gemini, environ=os.environ, custom=custom)
    directory = cwd / os.path.expanduser(folder) if folder else cwd
    entries: list[os.DirEntry[str]] = []
    with suppress(OSError), os.scandir(directory) as found:  # else nothing to offer there
        entries = [each for each in islice(found, LOOKED_AT) if each.name.startswith(name)]
    within = rules.rules_of(directory) if directory.is_relative_to(cwd) else None
    prefix = f"{folder}/" if folder or name.startswith("/") or word.startswith("/") else ""
    offered = 0
    for entry in sorted(entries, key=attrgetter("name")):
        if entry.name.startswith(".") and not name.startswith("."):
            continue
        is_dir = False
        with suppress(OSError):  # the target of a link is out of reach
            is_dir = entry.is_dir()
        if within is not None and within.ignores(entry.name, is_dir):
            continue
        offered += 1
        yield f"{prefix}{entry.name}{'/' if is_dir else ''}"
        if offered == OFFERED:
            return
