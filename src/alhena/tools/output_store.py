"""Results that are too long for a model: kept whole in a file, an excerpt told (TOOLS-22).

`<directory>/session-<id>/<tool>__<call id>.txt`, readable by the user alone. Nothing is made before
there is something to keep. The files outlive the session, since a resumed one refers to them;
sessions that nothing was added to for 30 days are removed when another begins to keep something.

This is the one place of truncation, for the results, errors and displays of all tools (TOOLS-22).
"""

import os
import re
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from alhena.system.errors import (
    FileError,
    MissingFileError,
    NotRegularFileError,
    WriteFailureError,
    from_os_error,
    printable,
)
from alhena.system.spool import CreatedFile, TextSpool
from alhena.tools.contract import (
    FileDiff,
    LlmContent,
    SpilledText,
    TerminalOutput,
    ToolDisplay,
    ToolFailure,
    ToolResult,
)
from alhena.tools.response import content_text
from alhena.wire.content import Part
from alhena.wire.plain import excerpt as shown

THRESHOLD = 40_000
KEEP_DAYS = 30
MAX_NAME = 100
MEMORY_CHARACTERS = 4_000_000
"""What of an output memory keeps where nothing is to be cut off."""

EXCERPT = "Output too large. Showing first "
"""How what is left of a long result begins; its first line ends with `WHOLE_AT` and the path."""
WHOLE_AT = "For full output see: "

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD_SESSIONS = 20
_PLAIN = re.compile(r"[A-Za-z0-9_-]+").fullmatch


class SavedOutput(msgspec.Struct, frozen=True):
    """Where a text is now, or why it could not be saved."""

    path: Path | None
    problem: str = ""


class OutputStore:
    """The long results of one session.

    `directory` holds those of all sessions of a project; `threshold` is the number of characters
    past which a result counts as long, 0 or less for never. `prepare` is called before `directory`
    is made and may raise OSError.
    """

    def __init__(
        self,
        directory: Path,
        session_id: str,
        *,
        threshold: int = THRESHOLD,
        prepare: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.directory = directory / f"session-{_safe(session_id)}"
        self.threshold = threshold
        self._prepare = prepare
        self._clock = clock

    @property
    def memory_characters(self) -> int:
        """How much of one output is worth keeping in memory."""
        return self.threshold if self.threshold > 0 else MEMORY_CHARACTERS

    def save(self, tool: str, call_id: str, text: str) -> SavedOutput:
        """Keeps a whole text: under its name there is all of it or nothing."""
        (saved,) = self.save_all([(tool, call_id, text)])
        return saved

    def save_all(self, texts: Sequence[tuple[str, str, str]]) -> list[SavedOutput]:
        """Keeps whole texts, each the tool, the id of the call and the text, one by one."""
        if not texts:
            return []
        try:
            directory = self._open()
        except OSError as error:
            return [self._unsaved(error)] * len(texts)
        try:
            return [self._saved(directory, *text) for text in texts]
        finally:
            os.close(directory)

    def spool(
        self, tool: str, call_id: str, *, prefix: str = "", keep: int = 0, most: int = 0
    ) -> TextSpool:
        """For a text that is still being written: its file appears once it is longer than `keep`
        characters (0: than memory keeps), and grows with it to `most` bytes (0: without limit)."""
        kept = keep or self.memory_characters
        return TextSpool(kept, lambda: self.create(tool, call_id), prefix=prefix, most=most)

    def create(self, tool: str, call_id: str) -> CreatedFile:
        """A new, empty file for this call. Raises FileError."""
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
        """The kept file that a path, a file name or a call id means. Raises FileError.

        A path may also be of another session of the project, as calls by themselves and resumed
        sessions name them; no other files are found, whatever the path.
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
            exact = self.directory / max(found, key=self._modified)
        status = os.lstat(exact)
        if not stat.S_ISREG(status.st_mode):
            raise NotRegularFileError(f"Not a regular file: {printable(exact)}.")
        return exact

    def whole_of(self, call_id: str, excerpt: str) -> Path | None:
        """The kept file of which `excerpt`, a result, names the path, if it is of this call and
        still there; None for any other text."""
        first, _, _ = excerpt.partition("\n")
        lead, _, named = first.partition(WHOLE_AT)
        own = re.compile(rf".*__{re.escape(_safe(call_id))}(-\d+)?\.txt").fullmatch
        if not (lead.startswith(EXCERPT) and os.path.isabs(named) and own(named)):
            return None
        try:
            return self.find(named)
        except (FileError, OSError):
            return None

    def prune(self, days: float = KEEP_DAYS) -> int:
        """Removes sessions that nothing was added to for so long, 20 at most; how many."""
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
        """True when a path, by its spelling and without links, is of a file of some session."""
        session = path.parent
        return (
            session.parent == self.directory.parent
            and session.name.startswith("session-")
            and not path.name.startswith(".")
            and not session.is_symlink()
        )

    def _new_file(self, name: str) -> tuple[int, Path]:
        """Raises OSError, FileExistsError among them."""
        directory = self._open()
        try:
            return os.open(name, _CREATE, 0o600, dir_fd=directory), self.directory / name
        finally:
            os.close(directory)

    def _open(self) -> int:
        """The directory, made if need be. Raises OSError."""
        self._make()
        return os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)

    def _saved(self, directory: int, tool: str, call_id: str, text: str) -> SavedOutput:
        temporary = f".{os.urandom(8).hex()}.tmp"
        try:
            descriptor = os.open(temporary, _CREATE, 0o600, dir_fd=directory)
        except OSError as error:
            return self._unsaved(error)
        try:
            try:
                left = memoryview(text.encode("utf-8", "replace"))
                while left:
                    left = left[os.write(descriptor, left) :]
            finally:
                os.close(descriptor)
            name = _free_name(directory, tool, call_id)
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except (OSError, FileError) as error:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            return self._unsaved(error)
        return SavedOutput(self.directory / name)

    def _unsaved(self, error: OSError | FileError) -> SavedOutput:
        if isinstance(error, OSError):
            error = from_os_error(error, self.directory, writing=True)
        return SavedOutput(None, str(error))

    def _make(self) -> None:
        if os.path.lexists(self.directory):
            return
        self._prepare()
        self.directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory.mkdir(mode=0o700, exist_ok=True)
        # Old sessions may be removed by somebody else at this moment: no reason to keep nothing.
        with suppress(OSError):
            self.prune()

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.directory)
        except FileNotFoundError:
            return []

    def _modified(self, name: str) -> int:
        return os.lstat(self.directory / name).st_mtime_ns


def _file_name(tool: str, call_id: str, number: int) -> str:
    tail = "" if number == 1 else f"-{number}"
    return f"{_safe(tool)}__{_safe(call_id)}{tail}.txt"


def _free_name(directory: int, tool: str, call_id: str) -> str:
    """Raises FileError, OSError."""
    for number in range(1, 1_000):
        name = _file_name(tool, call_id, number)
        try:
            os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return name
    raise _no_name(tool, call_id)


def _safe(name: str) -> str:
    """`name` as a part of a file name that leads nowhere: no slashes, no dots at its ends."""
    if len(name) <= MAX_NAME and _PLAIN(name):
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
    """What was left out of a result; lengths are characters."""

    original_length: int
    truncated_length: int
    output_file: str | None
    problem: str


class BoundedResult(msgspec.Struct, frozen=True):
    """A result of bounded length; `truncation` is None when nothing was left out."""

    result: ToolResult
    truncation: Truncation | None


def bounded(result: ToolResult, store: OutputStore, tool: str, call_id: str) -> BoundedResult:
    """`result` as the model may have it. What is over the store's threshold is saved there."""
    result = msgspec.structs.replace(result, display=bounded_display(result.display))
    if result.error is not None:
        return _bounded_error(result, result.error, store, (tool, call_id))
    if result.spilled is not None:
        text = excerpt(result.spilled, store.memory_characters)
        replaced = msgspec.structs.replace(result, llm_content=text, spilled=None)
        return BoundedResult(replaced, _truncation(result.spilled, text))
    whole = content_text(result.llm_content)
    if not 0 < store.threshold < len(whole):
        return BoundedResult(result, None)
    spilled = _saved(whole, store, (tool, call_id))
    text = excerpt(spilled, store.threshold)
    content = _with_media(text, result.llm_content)
    replaced = msgspec.structs.replace(result, llm_content=content)
    return BoundedResult(replaced, _truncation(spilled, text))


def excerpt(spilled: SpilledText, size: int) -> str:
    """The first fifth and the rest from the end of `size` characters, below a line that says so."""
    first, last = ends(size)
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
        f"{spilled.head[:first]}\n\n... [{omitted:,} characters omitted] ...\n\n"
        f"{spilled.tail[len(spilled.tail) - last :]}"
    )


def ends(size: int) -> tuple[int, int]:
    """The characters of the beginning and of the end in an excerpt of this size."""
    return size // 5, size - size // 5


def bounded_display(display: ToolDisplay) -> ToolDisplay:
    """What a person sees, its longest text no longer than 100,000 characters and a line."""
    match display:
        case str():
            return shortened(display)
        case TerminalOutput(text=text) if len(text) > DISPLAY_CHARACTERS:
            return msgspec.structs.replace(display, text=shortened(text))
        case FileDiff(file_diff=diff) if len(diff) > DISPLAY_CHARACTERS:
            return msgspec.structs.replace(display, file_diff=shortened(diff))
        case _:
            return display


def shortened(text: str, size: int = DISPLAY_CHARACTERS) -> str:
    """`text`, or its two ends around the number of characters between them."""
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
    spilled = _saved(error.message, store, name)
    text = excerpt(spilled, store.threshold)
    replaced = msgspec.structs.replace(
        result, llm_content=text, error=ToolFailure(text, error.type), spilled=None
    )
    return BoundedResult(replaced, _truncation(spilled, text))


def _saved(text: str, store: OutputStore, name: tuple[str, str]) -> SpilledText:
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
    """`text` in place of all words of `content`, before the media that stand among them."""
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
