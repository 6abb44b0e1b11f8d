"""Stores results too long for a model in files and returns excerpts (TOOLS-22).

`<directory>/session-<id>/<tool>__<call id>.txt`, readable by the user only. Nothing is created
before the first long result. The files outlive the session, since a resumed one refers to them;
storing in one session removes sessions unused for 30 days.

All truncation of tool results, errors and displays happens here (TOOLS-22).
"""

import os
import re
import stat
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from alhena.errors import AlhenaError
from alhena.system.errors import (
    FileError,
    MissingFileError,
    NotRegularFileError,
    WriteFailureError,
    from_os_error,
    printable,
)
from alhena.system.output import CreatedFile, TextSpool
from alhena.tools.contract import (
    FileDiff,
    LlmContent,
    SpilledText,
    TerminalOutput,
    ToolDisplay,
    ToolFailure,
    ToolResult,
)
from alhena.wire.content import Part
from alhena.wire.json_values import excerpt as shown

THRESHOLD = 40_000
KEEP_DAYS = 30
MAX_NAME = 100
MEMORY_CHARACTERS = 4_000_000
"""Characters of an output kept in memory when truncation is off."""

EXCERPT = "Output too large. Showing first "
"""Start of every truncated result; its first line ends with `WHOLE_AT` and the path."""
WHOLE_AT = "For full output see: "

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_SESSIONS = 20
_PLAIN = r"[A-Za-z0-9_-]+"


class SavedOutput(msgspec.Struct, frozen=True):
    """The path of a saved text, or the reason why it could not be saved."""

    path: Path | None
    problem: str = ""


class OutputStore:
    """The long results of one session.

    `directory` contains those of all sessions of a project; a result longer than `threshold`
    characters is long, 0 or less means never; what is left of it has at most `lines` (0: any
    number). `prepare` is called before `directory` is created and
    may raise OSError.
    """

    def __init__(
        self,
        directory: Path,
        session_id: str,
        *,
        threshold: int = THRESHOLD,
        lines: int = 0,
        prepare: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.directory = directory / f"session-{_safe(session_id)}"
        self.threshold = threshold
        self.lines = lines
        self._prepare = prepare
        self._clock = clock

    @property
    def memory_characters(self) -> int:
        """Number of characters of one output to keep in memory."""
        return self.threshold if self.threshold > 0 else MEMORY_CHARACTERS

    def save(self, tool: str, call_id: str, text: str) -> SavedOutput:
        """Saves a whole text, or nothing."""
        try:
            made = self.create(tool, call_id)
        except FileError as error:
            return SavedOutput(None, str(error))
        try:
            with os.fdopen(made.descriptor, "wb") as file:
                file.write(text.encode("utf-8", "replace"))
        except OSError as error:
            with suppress(OSError):
                made.path.unlink()
            return SavedOutput(None, str(from_os_error(error, self.directory, writing=True)))
        return SavedOutput(made.path)

    def spool(
        self, tool: str, call_id: str, *, prefix: str = "", keep: int = 0, most: int = 0
    ) -> TextSpool:
        """Opens a spool for a text still being written: its file is created once it is longer than
        `keep` characters (0: the memory limit) and grows up to `most` bytes (0: unlimited)."""
        kept = keep or self.memory_characters
        return TextSpool(kept, lambda: self.create(tool, call_id), prefix=prefix, most=most)

    def create(self, tool: str, call_id: str) -> CreatedFile:
        """Creates an empty file for this call. Raises FileError."""
        try:
            for number in range(1, 1_000):
                try:
                    descriptor, path = self._new_file(_file_name(tool, call_id, number))
                except FileExistsError:
                    continue
                return CreatedFile(path, descriptor)
        except OSError as error:
            raise from_os_error(error, self.directory, writing=True) from error
        raise _no_name(tool, call_id)

    def find(self, name: str) -> Path:
        """Finds the stored file for a path, a file name or a call id. Raises FileError.

        A path may belong to another session of the project, as resumed sessions refer to those; no
        other files are found.
        """
        base = os.path.basename(name)
        exact = self.directory / base
        if "\0" in name or not base:
            raise _not_kept(name)
        if os.path.isabs(name):
            exact = Path(name)
            if not self._is_kept(exact):
                raise _not_kept(name)
        if not os.path.lexists(exact):
            ending = f"__{_safe(name)}.txt"
            found = [entry for entry in self._names() if entry.endswith(ending)]
            if not found:
                raise _not_kept(name)
            exact = self.directory / max(found, key=self._modification_time)
        status = os.lstat(exact)
        if not stat.S_ISREG(status.st_mode):
            raise NotRegularFileError(f"Not a regular file: {printable(exact)}.")
        return exact

    def whole_of(self, call_id: str, excerpt: str) -> Path | None:
        """The stored file named in the result `excerpt`, if it belongs to this call and still
        exists; None otherwise."""
        first, _, _ = excerpt.partition("\n")
        lead, _, named = first.partition(WHOLE_AT)
        if not (lead.startswith(EXCERPT) and os.path.isabs(named)):
            return None
        if not re.fullmatch(rf".*__{re.escape(_safe(call_id))}(-\d+)?\.txt", named):
            return None
        try:
            return self.find(named)
        except (FileError, OSError):
            return None

    def prune(self, days: float = KEEP_DAYS) -> int:
        """Removes sessions unused for so many days, 20 at most; returns their number."""
        import shutil

        limit = self._clock() - days * 86_400
        removed = 0
        with os.scandir(self.directory.parent) as entries:
            for entry in entries:
                if not entry.name.startswith("session-") or entry.name == self.directory.name:
                    continue
                if entry.is_dir(follow_symlinks=False) and entry.stat().st_mtime < limit:
                    shutil.rmtree(entry.path, ignore_errors=True)
                    removed += not os.path.lexists(entry.path)
                if removed >= _OLD_SESSIONS:
                    break
        return removed

    def _is_kept(self, path: Path) -> bool:
        """True when a path, lexically and without symlinks, belongs to a session."""
        session = path.parent
        return (
            session.parent == self.directory.parent
            and session.name.startswith("session-")
            and not path.name.startswith(".")
            and not session.is_symlink()
        )

    def _new_file(self, name: str) -> tuple[int, Path]:
        """Creates a file with a fresh name. Raises OSError such as FileExistsError."""
        directory = self._open()
        try:
            return os.open(name, _CREATE, 0o600, dir_fd=directory), self.directory / name
        finally:
            os.close(directory)

    def _open(self) -> int:
        """Opens the directory, created if needed. Raises OSError."""
        self._make()
        return os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)

    def _make(self) -> None:
        if os.path.lexists(self.directory):
            return
        self._prepare()
        self.directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory.mkdir(mode=0o700, exist_ok=True)
        # Another process may be removing old sessions: save anyway.
        with suppress(OSError):
            self.prune()

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.directory)
        except FileNotFoundError:
            return []

    def _modification_time(self, name: str) -> int:
        return os.lstat(self.directory / name).st_mtime_ns


def _file_name(tool: str, call_id: str, number: int) -> str:
    tail = "" if number == 1 else f"-{number}"
    return f"{_safe(tool)}__{_safe(call_id)}{tail}.txt"


def _safe(name: str) -> str:
    """Makes `name` a safe part of a file name: no slashes, no dots at its ends."""
    if len(name) <= MAX_NAME and re.fullmatch(_PLAIN, name):
        return name
    kept = "".join(
        char if char.isascii() and (char.isalnum() or char in "_.-") else "_" for char in name
    )
    return kept.strip(".")[:MAX_NAME] or "_"


def _not_kept(name: str) -> MissingFileError:
    return MissingFileError(
        f'No output is kept under "{shown(name)}" in this project.',
        remedy="Use the path that a truncated result names.",
    )


def _no_name(tool: str, call_id: str) -> WriteFailureError:
    return WriteFailureError(f"Too many outputs are kept for {shown(tool)} {shown(call_id)}.")


DISPLAY_CHARACTERS = 100_000
_SAVING_FAILED = "The full output could not be saved"


class Truncation(msgspec.Struct, frozen=True, kw_only=True):
    """Description of a truncation; lengths are in characters."""

    original_length: int
    truncated_length: int
    output_file: str | None
    problem: str


class BoundedResult(msgspec.Struct, frozen=True):
    """A result of bounded length; `truncation` is None when it is complete."""

    result: ToolResult
    truncation: Truncation | None


def limit_result(result: ToolResult, store: OutputStore, tool: str, call_id: str) -> BoundedResult:
    """Limits `result` for the model; text over the store's threshold is saved there."""
    result = msgspec.structs.replace(result, display=bounded_display(result.display))
    if result.error is not None:
        return _bounded_error(result, result.error, store, (tool, call_id))
    if result.spilled is not None:
        text = excerpt(result.spilled, store.memory_characters, store.lines)
        replaced = msgspec.structs.replace(result, llm_content=text, spilled=None)
        return BoundedResult(replaced, _truncation(result.spilled, text))
    from alhena.tools.response import content_text

    whole = content_text(result.llm_content)
    if not 0 < store.threshold < len(whole):
        return BoundedResult(result, None)
    spilled = _save_text(whole, store, (tool, call_id))
    text = excerpt(spilled, store.threshold, store.lines)
    content = _with_media(text, result.llm_content)
    replaced = msgspec.structs.replace(result, llm_content=content)
    return BoundedResult(replaced, _truncation(spilled, text))


def excerpt(spilled: SpilledText, size: int, lines: int = 0) -> str:
    """The first fifth and the end of a text in `size` characters and `lines` (0: any number), below
    a line that explains this."""
    first, last = ends(size)
    head, tail = spilled.head[:first], spilled.tail[len(spilled.tail) - last :]
    if lines > 0:
        above, below = ends(lines)
        head = "".join(head.splitlines(keepends=True)[:above])
        tail = "".join(tail.splitlines(keepends=True)[-below:])
        first, last = len(head), len(tail)
    if spilled.path is None:
        where = f"{_SAVING_FAILED}: {spilled.problem}"
    elif spilled.problem:
        where = (
            f"For its first {spilled.saved:,} characters see: {spilled.path}\n"
            f"The rest could not be saved: {spilled.problem}"
        )
    else:
        where = f"{WHOLE_AT}{spilled.path}"
    omitted = spilled.characters - first - last
    return (
        f"{EXCERPT}{first:,} and last {last:,} characters. {where}\n"
        f"{head}\n\n... [{omitted:,} characters omitted] ...\n\n{tail}"
    )


async def summarise_result(
    result: ToolResult, *, ask: Callable[[str], Awaitable[str]], tokens: int
) -> ToolResult:
    """`result` with a summary in place of a text of more than `tokens`; the same if the summary
    fails."""
    from alhena.tools.response import content_text

    spilled = result.spilled
    text = content_text(result.llm_content) if spilled is None else spilled.head + spilled.tail
    if len(text) <= tokens * TOKEN_CHARACTERS:
        return result
    try:
        summary = await ask(_SUMMARY.format(tokens=tokens, text=text))
    except AlhenaError:  # the whole text says more
        return result
    if not summary.strip():
        return result
    return msgspec.structs.replace(result, llm_content=summary, spilled=None)


TOKEN_CHARACTERS = 4
_SUMMARY = (
    "Summarise this output of a tool in at most {tokens} tokens. Keep errors and warnings, with "
    "their stack traces, word for word, and its exit code. Say what was left out.\n\n{text}"
)


def ends(size: int) -> tuple[int, int]:
    """Lengths of the beginning and the end of an excerpt of this size."""
    return size // 5, size - size // 5


def bounded_display(display: ToolDisplay) -> ToolDisplay:
    """The display, its longest text limited to 100,000 characters and a line."""
    match display:
        case str():
            return shorten_text(display)
        case TerminalOutput(text=text) if len(text) > DISPLAY_CHARACTERS:
            return msgspec.structs.replace(display, text=shorten_text(text))
        case FileDiff(file_diff=diff) if len(diff) > DISPLAY_CHARACTERS:
            return msgspec.structs.replace(display, file_diff=shorten_text(diff))
        case _:
            return display


def shorten_text(text: str, size: int = DISPLAY_CHARACTERS) -> str:
    """`text`, or its two ends around a note with the number of omitted characters."""
    if len(text) <= size:
        return text
    first, last = ends(size)
    omitted = len(text) - size
    return f"{text[:first]}\n... [{omitted:,} characters omitted] ...\n{text[len(text) - last :]}"


def _bounded_error(
    result: ToolResult, error: ToolFailure, store: OutputStore, name: tuple[str, str]
) -> BoundedResult:
    if not 0 < store.threshold < len(error.message):
        return BoundedResult(result, None)
    spilled = _save_text(error.message, store, name)
    text = excerpt(spilled, store.threshold, store.lines)
    replaced = msgspec.structs.replace(
        result, llm_content=text, error=ToolFailure(text, error.type), spilled=None
    )
    return BoundedResult(replaced, _truncation(spilled, text))


def _save_text(text: str, store: OutputStore, name: tuple[str, str]) -> SpilledText:
    saved = store.save(*name, text)
    first, last = ends(store.threshold)
    return SpilledText(
        head=text[:first],
        tail=text[len(text) - last :],
        characters=len(text),
        path=None if saved.path is None else str(saved.path),
        problem=saved.problem,
    )


def _with_media(text: str, content: LlmContent) -> LlmContent:
    """Replaces all words of `content` by `text`, and keeps its media after that."""
    if isinstance(content, str | Part):
        return text
    media = tuple(
        item
        for item in content
        if isinstance(item, Part) and (item.inline_data or item.file_data) is not None
    )
    return (text, *media) if media else text


def _truncation(spilled: SpilledText, text: str) -> Truncation:
    return Truncation(
        original_length=spilled.characters,
        truncated_length=len(text),
        output_file=spilled.path,
        problem=spilled.problem,
    )
