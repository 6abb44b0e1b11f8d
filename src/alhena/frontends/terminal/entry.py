"""The input line: its text, long pastes and earlier entries."""

import asyncio
import os
import re
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.lexers import Lexer

from alhena.config.documents import NotReadableError, TooLargeError, read_limited
from alhena.config.home import IMAGE_FOLDER, PROMPT_HISTORY, claimed_project_temp, project_temp
from alhena.display_text import one_line
from alhena.errors import AlhenaError
from alhena.frontends.shared.mentions import quoted_path
from alhena.frontends.terminal.drawing.lines import signs
from alhena.system.encoding import safe_text
from alhena.system.files import open_regular

MAX_TYPED = 20
"""Characters that arrive one by one."""
MAX_PASTED_LINES = 10
MAX_PASTED_CHARACTERS = 1_000
_ECHOES = ("fg:ansidefault", "fg:ansidefault nobold")
_LOOK_S = 0.02
"""Seconds until a look for completions is begun that could not begin."""


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
    `[pasted 5,000 lines]`; what is sent has the text in its place. `prepare` is called whenever
    something is typed."""

    def __init__(
        self, history: History, completer: Completer, prepare: Callable[[], None] = lambda: None
    ) -> None:
        self._prepare = prepare
        self._pasted: dict[str, str] = {}
        self._earlier: dict[str, str] = {}
        self.buffer = EditedBuffer(
            multiline=True,
            history=_FoldedHistory(history, self._recall, self._whole),
            completer=ThreadedCompleter(completer),
            complete_while_typing=Condition(self._completes),
        )

    def paste(self, text: str) -> None:
        """Inserts a text at the cursor, or its mark; the path of an image with an @."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if image := image_path(text):
            text = image_word(image)
        self.buffer.insert_text(self._mark_long_text(text, self._pasted))

    def insert(self, text: str) -> None:
        """Inserts typed characters at the cursor, a longer text as a paste."""
        if len(text) > MAX_TYPED:
            self.paste(text)
        else:
            self.buffer.insert_text(text)

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

    def complete_path(self) -> None:
        """Completes a path that is being typed once more, unless a line of the list was chosen."""
        state = self.buffer.complete_state
        typed = not self.buffer.text.startswith("/") and self._completes()
        if typed and (state is None or state.complete_index is None):
            self.buffer.cancel_completion()  # with one open, no other is begun
            get_app().create_background_task(self._look_again(self.buffer.document))

    async def _look_again(self, written: Document) -> None:
        """Begins a look for completions of what is written; while an earlier one is at work, none
        begins."""
        while self.buffer.document == written:
            self.buffer.start_completion()
            await asyncio.sleep(0)  # its first step opens the list
            if self.buffer.complete_state is not None:
                return
            await asyncio.sleep(_LOOK_S)

    def _completes(self) -> bool:
        self._prepare()
        text = self.buffer.document.text_before_cursor
        return text.startswith("/") or "@" in text.split("\n")[-1].split(" ")[-1]


def _ignore_message(_: str) -> None:
    """Ignores a message."""


class EditedBuffer(Buffer):
    """An input line that opens in the person's editor; the cursor passes flags and joined emoji as
    one sign. `preferred` gives the editor of the settings, `warn` takes problems with it."""

    preferred: Callable[[], str | None] = staticmethod(lambda: None)
    warn: Callable[[str], None] = staticmethod(_ignore_message)

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._before = 0
        self.on_cursor_position_changed += self._leave_sign

    def delete_before_cursor(self, count: int = 1) -> str:
        """As `Buffer`, by signs."""
        earlier = list(signs(self.document.text_before_cursor))
        return super().delete_before_cursor(sum(map(len, earlier[-count:])) if count > 0 else count)

    def delete(self, count: int = 1) -> str:
        """As `Buffer`, by signs."""
        later = islice(signs(self.document.text_after_cursor), max(count, 0))
        return super().delete(sum(map(len, later)))

    def _leave_sign(self, _: Buffer) -> None:
        """Moves a cursor that came into the middle of a sign on to its other side."""
        place, before = self.cursor_position, self._before
        self._before = place
        pieces = signs(self.text)
        if pieces is self.text:
            return
        start = 0
        for each in pieces:
            end = start + len(each)
            if start < place < end:
                self.cursor_position = start if place < before else end
            if end >= place:
                return
            start = end

    def open_in_editor(self, validate_and_handle: bool = False) -> asyncio.Task[None]:
        """As `Buffer`, for a text that is not all UTF-8, too."""
        del validate_and_handle
        return get_app().create_background_task(self._edit())

    async def _edit(self) -> None:
        text = await run_in_terminal(partial(self._edit_text, self.text), in_executor=True)
        if text is not None:
            self.document = Document(text, len(text))

    def _edit_text(self, text: str) -> str | None:
        """The text as it comes out of the editor; None where it stays."""
        descriptor, name = tempfile.mkstemp(suffix=".md")
        try:
            with open(descriptor, "wb") as file:
                file.write(text.encode("utf-8", "surrogateescape"))
            if not self._open_file_in_editor(name):
                return None
            edited = Path(name).read_bytes().decode("utf-8", "surrogateescape")
            return edited.replace("\r\n", "\n").removesuffix("\n")
        except OSError as error:
            self.warn(f"The prompt was not edited: {error}")
            return None
        finally:
            with suppress(OSError):
                os.unlink(name)

    def _open_file_in_editor(self, filename: str) -> bool:
        from alhena.frontends.terminal.console import NO_EDITOR, waiting_words
        from alhena.system.environment import shield_memory
        from alhena.system.own_programs import find_program

        words = waiting_words(os.environ, self.preferred())
        program = find_program(words[0], os.environ, (Path.cwd(),)) if words else None
        if program is None:
            self.warn(f"{one_line(words[0], 60)} was not found." if words else NO_EDITOR)
            return False
        shield_memory()
        return subprocess.run([program, *words[1:], filename], check=False).returncode == 0


class _FoldedHistory(History):
    """Earlier entries as they stand in the input line: large ones as marks."""

    def __init__(
        self, entries: History, fold: Callable[[str], str], unfold: Callable[[str], str]
    ) -> None:
        super().__init__()
        self._entries = entries
        self._fold = fold
        self._unfold = unfold

    async def load(self) -> AsyncGenerator[str, None]:
        """As `History`; a search that began before is drawn again."""
        async for entry in super().load():
            yield entry
        app = get_app()
        if app.layout.is_searching:
            app.invalidate()

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
            _append(folder / NAME, msgspec.json.encode(safe_text(string)) + b"\n")
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
