"""What was typed before, in a file of the user's own: one JSON string a line."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from alhena.config.home import PROMPT_HISTORY, claimed_project_temp, project_temp
from alhena.errors import AlhenaError
from alhena.system.files import open_regular

NAME = PROMPT_HISTORY
KEPT = 1_000
TAIL_BYTES = 1_000_000
MAX_ENTRY = 50_000


class PromptHistory(History):
    """The prompts of one project. When its file cannot be read or written, `warn` is told once and
    the session goes on without it."""

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
    """The text of a line; "" for one that is no entry (cut off, or somebody else's)."""
    try:
        return msgspec.json.decode(line, type=str)
    except msgspec.DecodeError:
        return ""
