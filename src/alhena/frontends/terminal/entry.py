"""The input line: its text, long pastes, earlier entries and completion."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import cycle, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.lexers import Lexer

from alhena.config.documents import NotReadableError, TooLargeError, read_limited
from alhena.config.home import IMAGE_FOLDER, PROMPT_HISTORY, claimed_project_temp, project_temp
from alhena.config.settings import FileFilteringSettings
from alhena.display_text import escaped
from alhena.errors import AlhenaError
from alhena.frontends.shared.mentions import quoted_path
from alhena.system.files import open_regular

if TYPE_CHECKING:
    from alhena.system.ignore import IgnoreRules

MAX_PASTED_LINES = 10
MAX_PASTED_CHARACTERS = 1_000
_ECHOES = ("fg:ansidefault", "fg:ansidefault nobold")


class EchoLexer(Lexer):
    """Gives each version of the input line another name of the terminal's own colour, so that it is
    drawn whole, blanks too: programs that drive a terminal find what they typed in its output."""

    def __init__(self) -> None:
        self._echoes = cycle(_ECHOES)

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """As `Lexer`."""
        style = next(self._echoes)
        return lambda number: [(style, document.lines[number])]


class Entry:
    """A `buffer` to write in. A paste that would fill the screen is shown as a mark, such as
    `[pasted 5,000 lines]`; what is sent has the text in its place."""

    def __init__(self, history: History, completer: Completer) -> None:
        self._pasted: dict[str, str] = {}
        self._earlier: dict[str, str] = {}
        self.buffer = Buffer(
            multiline=True,
            history=_FoldedHistory(history, self._recall, self._whole),
            completer=ThreadedCompleter(completer),
            complete_while_typing=Condition(self._completes),
            tempfile_suffix=".md",
        )

    def paste(self, text: str) -> None:
        """Inserts a text at the cursor, or its mark; the path of an image with an @."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if image := image_path(text):
            text = image_word(image)
        self.buffer.insert_text(self._mark_long_text(text, self._pasted))

    def mark_before(self) -> str:
        """The mark that the cursor comes after; "" when there is none."""
        before = self.buffer.document.text_before_cursor
        return next((mark for mark in self._pasted if before.endswith(mark)), "")

    def unfold(self) -> None:
        """Puts what was pasted in the place of its marks."""
        whole = self._whole(self.buffer.text)
        if whole != self.buffer.text:
            self.buffer.text = whole
            self.buffer.cursor_position = len(whole)

    def take(self) -> str:
        """Returns the line with all pasted text, adds it to the history and clears the line."""
        text = self._whole(self.buffer.text)
        self.buffer.append_to_history()
        self._earlier |= self._pasted
        self.clear()
        return text

    def clear(self) -> None:
        """Gives up what is written."""
        self._pasted.clear()
        self.buffer.reset()

    def _whole(self, text: str) -> str:
        """A text with what was pasted in the place of its marks."""
        recalled = self.buffer.working_index < len(self.buffer.history.get_strings())
        known = self._earlier | self._pasted if recalled else self._pasted
        if not known:
            return text
        marks = "|".join(map(re.escape, known))
        return re.sub(marks, lambda mark: known[mark[0]], text)

    def _recall(self, text: str) -> str:
        return self._mark_long_text(text, self._earlier)

    def _mark_long_text(self, text: str, marks: dict[str, str]) -> str:
        """A text, or its new one of `marks` if it would fill the screen."""
        if text.count("\n") < MAX_PASTED_LINES and len(text) <= MAX_PASTED_CHARACTERS:
            return text
        lines = text.count("\n") + (not text.endswith("\n"))
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        mark, number = f"[pasted {size}]", 1
        while (self._earlier | self._pasted).get(mark, text) != text:
            number += 1
            mark = f"[pasted {size}, {number}]"
        marks[mark] = text
        return mark

    def _completes(self) -> bool:
        text = self.buffer.document.text_before_cursor
        return text.startswith("/") or "@" in text.split("\n")[-1].split(" ")[-1]


class _FoldedHistory(History):
    """Earlier entries as they stand in the input line: large ones as marks."""

    def __init__(
        self, entries: History, fold: Callable[[str], str], unfold: Callable[[str], str]
    ) -> None:
        super().__init__()
        self._entries = entries
        self._fold = fold
        self._unfold = unfold

    def load_history_strings(self) -> Iterable[str]:
        """As `History`."""
        return map(self._fold, self._entries.load_history_strings())

    def store_string(self, string: str) -> None:
        """As `History`: stores the whole text."""
        self._entries.store_string(self._unfold(string))


IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".heic", ".heif", ".avif")
MAX_PATH = 1_000
MAX_IMAGE = 20_000_000
"""Bytes of an image that is pasted."""


def image_path(text: str) -> str:
    """The path of an image that a text names and nothing else, as terminals paste a file that is
    dropped on them; "" for other texts."""
    text = text.strip()
    if "\n" in text or len(text) > MAX_PATH or not text.strip("'\"").lower().endswith(IMAGES):
        return ""
    if text.startswith("file://"):
        path = unquote(text.removeprefix("file://"))
    else:
        quoted = text[:1] in "'\"" and text[-1:] == text[:1]
        path = text[1:-1] if quoted else re.sub(r"\\(.)", r"\1", text)
    return path if os.path.isfile(os.path.expanduser(path)) else ""


def image_word(path: str) -> str:
    """The word that attaches an image to a prompt. One outside the working directory is copied,
    for the session reads none there; if that fails, the word is the path."""
    whole = Path(os.path.realpath(os.path.expanduser(path)))
    try:
        cwd = Path.cwd()
        if not whole.is_relative_to(os.path.realpath(cwd)):
            data = read_limited(whole, MAX_IMAGE)
            path = str(save_image(data, os.environ, cwd, whole.suffix.lower()))
    except (AlhenaError, OSError, NotReadableError, TooLargeError):
        return path
    return f"@{quoted_path(path)} "


def save_image(data: bytes, environ: Mapping[str, str], cwd: Path, suffix: str = ".png") -> Path:
    """Saves a pasted image in the project's own folder, where the session may read it. Raises
    FileError, ConfigError, OSError."""
    from alhena.system.private_files import PrivateFiles

    files = PrivateFiles(claimed_project_temp(environ, cwd) / IMAGE_FOLDER)
    name = f"pasted-{time.time_ns()}{suffix}"
    files.write(name, data, MAX_IMAGE)
    return files.path(name)


NAME = PROMPT_HISTORY
KEPT = 1_000
TAIL_BYTES = 1_000_000
MAX_ENTRY = 50_000


class PromptHistory(History):
    """The prompts of one project. If its file cannot be read or written, `warn` is called once, and
    the session continues without it."""

    def __init__(self, environ: Mapping[str, str], cwd: Path, warn: Callable[[str], None]) -> None:
        super().__init__()
        self._environ = environ
        self._cwd = cwd
        self._warn = warn
        self._usable = True

    def load_history_strings(self) -> Iterable[str]:
        """The newest entries, the newest first, each once."""
        try:
            folder = project_temp(self._environ, self._cwd)
            if not os.path.lexists(folder / NAME):
                return []
            lines = _tail(folder / NAME).split(b"\n")
        except (OSError, AlhenaError) as error:
            self._give_up("read", error)
            return []
        entries = (_entry(line) for line in reversed(lines))
        return list(dict.fromkeys(entry for entry in entries if entry))[:KEPT]

    def store_string(self, string: str) -> None:
        """Appends an entry to the file, which its owner only can read."""
        if not self._usable or len(string) > MAX_ENTRY:
            return
        try:
            folder = claimed_project_temp(self._environ, self._cwd)
            _append(folder / NAME, msgspec.json.encode(string) + b"\n")
        except (OSError, AlhenaError, UnicodeEncodeError) as error:
            self._give_up("written", error)

    def _give_up(self, what: str, error: Exception) -> None:
        self._usable = False
        self._warn(f"the history of prompts cannot be {what}: {error}")


def _tail(path: Path) -> bytes:
    """The end of a file, from the beginning of a line."""
    descriptor = open_regular(path)
    try:
        size = os.fstat(descriptor).st_size
        start = max(size - TAIL_BYTES, 0)
        data = os.pread(descriptor, TAIL_BYTES, start)
    finally:
        os.close(descriptor)
    return data[data.find(b"\n") + 1 :] if start else data


def _append(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _entry(line: bytes) -> str:
    """The text of a line; "" for one that is no entry."""
    try:
        return msgspec.json.decode(line, type=str)
    except msgspec.DecodeError:
        return ""


OFFERED = 50
_TAKES_A_TAG = re.compile(r"/chat +(?:resume|load|delete) +(.*)")
LOOKED_AT = 20_000
"""Entries of the file tree that are looked at for one completion."""


class PromptCompleter(Completer):
    """Completes the word before the cursor: to the name of a command, or to a path below `cwd` that
    git and .geminiignore do not leave out. `prompts` gives the names of custom commands and of
    prompts of servers, with their descriptions."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self.filtering = FileFilteringSettings()
        self.prompts: Callable[[], Iterable[tuple[str, str]]] = tuple

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """The completions of the word at the cursor; runs in a thread of its own."""
        del complete_event
        text = document.text_before_cursor
        if text.startswith("/") and not any(char in text for char in " \n"):
            from alhena.frontends.terminal.commands import command_names

            for name, summary in (*command_names(), *self.prompts()):
                if name.startswith(text[1:]):
                    yield Completion(f"/{name}", -len(text), display_meta=summary)
            return
        if (begun := _TAKES_A_TAG.match(text)) is not None:
            for name in tags(self._cwd):
                if name.startswith(begun[1]):
                    yield Completion(name, -len(begun[1]), display=escaped(name))
            return
        word = path_word(text)
        if word is None:
            return
        for path in paths(self._cwd, word, self.filtering):
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
    """The text after an @ in the last word; None when that word has none."""
    start = max(text.rfind(char) for char in " \n\t(,;") + 1
    while start > 1 and text[start - 2] == "\\":  # a blank that belongs to the path
        start = max(text.rfind(char, 0, start - 1) for char in " \n\t(,;") + 1
    word = text[start:]
    return word[1:] if word.startswith("@") else None


def paths(cwd: Path, word: str, filtering: FileFilteringSettings | None = None) -> Iterator[str]:
    """Paths that begin with `word`, of the directory it names; when there is none, paths anywhere
    below `cwd` whose name contains it, or else has its letters in order, as `filtering` allows.
    Directories end in a slash."""
    from alhena.system.ignore import IgnoreRules

    word = word.replace("\\", "")
    folder, _, name = word.rpartition("/")
    usual = filtering or FileFilteringSettings()
    git, gemini = usual.respect_git_ignore, usual.respect_gemini_ignore
    custom = usual.custom_ignore_file_paths
    rules = IgnoreRules(cwd, git=git, gemini=gemini, environ=os.environ, custom=custom)
    count = 0
    for path in _beginning(cwd, folder, name, rules):
        yield path
        count += 1
        if count == OFFERED:
            return
    if not folder and len(name) >= 2 and not count and usual.enable_recursive_file_search:
        yield from _containing(cwd, name.casefold(), rules, fuzzy=usual.enable_fuzzy_search)


def _beginning(cwd: Path, folder: str, name: str, rules: "IgnoreRules") -> Iterator[str]:
    directory = cwd / os.path.expanduser(folder) if folder else cwd
    try:
        with os.scandir(directory) as found:
            entries = [entry for entry in islice(found, LOOKED_AT) if entry.name.startswith(name)]
    except OSError:  # nothing to offer there
        return
    within = rules.rules_of(directory) if directory.is_relative_to(cwd) else None
    prefix = f"{folder}/" if folder or name.startswith("/") else ""
    for entry in sorted(entries, key=attrgetter("name")):
        if entry.name.startswith(".") and not name.startswith("."):
            continue
        try:
            is_dir = entry.is_dir()
        except OSError:  # the target of a link is out of reach
            is_dir = False
        if within is None or not within.ignores(entry.name, is_dir):
            yield f"{prefix}{entry.name}{'/' if is_dir else ''}"


def _containing(cwd: Path, name: str, rules: "IgnoreRules", *, fuzzy: bool) -> Iterator[str]:
    from alhena.system.walk import WalkLimits, walk

    start = len(str(cwd).rstrip("/")) + 1
    in_order = re.compile(".*".join(map(re.escape, name)))
    near: list[str] = []
    offered = 0
    for entry in walk(cwd, rules, limits=WalkLimits(most=LOOKED_AT)):
        if offered == OFFERED:
            return
        found = entry.name.casefold()
        if name in found:
            offered += 1
            yield entry.path[start:]
        elif fuzzy and len(near) < OFFERED and in_order.search(found):
            near.append(entry.path[start:])
    yield from near[: OFFERED - offered]
