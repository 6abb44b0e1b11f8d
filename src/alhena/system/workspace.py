"""The directories accessible to a session, and the resolution of paths from a model."""

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from alhena.config.settings import FileFilteringSettings
from alhena.errors import InputError

if TYPE_CHECKING:
    from alhena.system.processes import ProcessCommand, ProcessEnding
    from alhena.system.pseudo_terminal import PseudoTerminal


def current_directory() -> Path:
    """The working directory. Raises InputError when it has been deleted or cannot be reached."""
    try:
        return Path.cwd()
    except OSError as error:
        raise InputError(
            f"the working directory cannot be used: {error.strerror or error}.",
            remedy="Change to a directory that exists.",
        ) from error


class EditorFiles(Protocol):
    """The files as an editor shows them. Its functions block, and are called in threads."""

    def read(self, path: Path) -> str | None:
        """The text of a file; None where the editor cannot give it."""
        ...

    def write(self, path: Path, text: str) -> None:
        """Has the editor write a file. Raises FileError."""
        ...


class Terminal(Protocol):
    """Terminals of a client, in which commands run without a sandbox."""

    async def run(
        self, command: "ProcessCommand", feed: Callable[[bytes], object], call_id: str
    ) -> "ProcessEnding":
        """Runs a command to its end, passing on its output; kills it when cancelled. Raises
        ProcessStartError."""
        ...


class TerminalProvider(Protocol):
    """Gives commands a pseudo-terminal."""

    def attach(self, call_id: str) -> "AbstractAsyncContextManager[PseudoTerminal | None]":
        """The terminal of a call's command, for as long as it runs; None when it gets a pipe."""
        ...


class Workspace:
    """A working directory plus further roots. All roots are real paths (symlinks resolved).

    `readable` are directories of the session itself, which need not exist: their files may be read
    by path. `filtering` says which ignore files count. Texts are read and edited through the
    `editor`, if there is one, and commands run in the `terminal`, or with what the `console` gives
    them.
    """

    def __init__(
        self,
        cwd: str | os.PathLike[str],
        include: Iterable[str | os.PathLike[str]] = (),
        readable: Iterable[str | os.PathLike[str]] = (),
        *,
        console: TerminalProvider | None = None,
        editor: EditorFiles | None = None,
        terminal: Terminal | None = None,
    ) -> None:
        self.filtering = FileFilteringSettings()
        self.console = console
        self.editor = editor
        self.terminal = terminal
        self.cwd = Path(os.path.realpath(cwd))
        roots = [self.cwd]
        for extra in include:
            root = Path(os.path.realpath(self.cwd / extra))
            if root not in roots:
                roots.append(root)
        self.roots: tuple[Path, ...] = tuple(roots)
        self.readable: tuple[Path, ...] = tuple(Path(os.path.realpath(each)) for each in readable)

    def follow_filtering(self, filtering: FileFilteringSettings) -> None:
        """Has the tools follow these settings of ignore files."""
        self.filtering = filtering

    def add_root(self, root: Path) -> None:
        """Adds a root, a real path."""
        self.roots = (*self.roots, root)

    def resolve(self, path: str) -> Path:
        """The absolute, normalised form of a path from a model; relative ones start at `cwd`.

        A leading "@" (as in "@src/a.py") is dropped unless a file has that exact name. Symlinks are
        not followed here; `contains` follows them. What is missing under its name, but there under
        a canonically equal one, is that.
        """
        cwd = str(self.cwd)
        joined = os.path.normpath(os.path.join(cwd, path))
        if path.startswith("@") and not os.path.lexists(joined):
            joined = os.path.normpath(os.path.join(cwd, path[1:]))
        if not joined.isascii():
            from alhena.system.unicode_forms import existing_form

            joined = existing_form(joined)
        return Path(joined)

    def contains(self, path: Path, *, reading: bool = False) -> bool:
        """True when the real location of `path` (which need not exist) is inside a root, or for
        `reading` in a readable directory."""
        real = os.path.realpath(path)
        tops = (*self.roots, *self.readable) if reading else self.roots
        return any(is_within(real, str(top)) for top in tops)

    def relative(self, path: Path) -> str:
        """`path` for people: relative if inside the working directory."""
        shown, top = str(path), str(self.cwd)
        if not is_within(shown, top):
            return shown
        return shown[len(top) :].lstrip(os.sep) or "."

    def refusal(self, path: str) -> str:
        """The message for a path outside the workspace."""
        roots = ", ".join(str(root) for root in self.roots)
        return (
            f'Path not in workspace: Attempted path "{self.resolve(path)}" resolves outside the '
            f"allowed workspace directories: {roots}. Use a path inside them; a person can add "
            "directories with --include-directories."
        )


def is_within(path: str, top: str) -> bool:
    """True when a normalised path is `top` or below it; purely lexical."""
    return path == top or path.startswith(top if top.endswith(os.sep) else top + os.sep)
