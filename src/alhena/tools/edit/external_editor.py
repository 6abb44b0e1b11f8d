"""Changes a person makes to a proposed call, in an editor or beside the answer (TOOLS-21)."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.system.encoding import SAMPLE_SIZE, decode_text, is_binary
from alhena.system.errors import FileError, ProcessStartError, from_os_error, printable
from alhena.system.files import read_whole
from alhena.tools.base import failure_of
from alhena.tools.contract import ProposedContents, ToolErrorType, ToolFailure
from alhena.tools.edit.proposal import EDIT_LIMIT

if TYPE_CHECKING:
    from asyncio.subprocess import Process


EditorCommand = Callable[[Path, Path], Sequence[str]]
"""Builds the arguments that open an editor on the current and the proposed file; the person changes
the second. The program has to run until the person is done."""

_PREFIX = "gemini-cli-modify-"
_KEPT_NAME = 60
_STOP_GRACE_S = 2.0


async def edit_externally(
    contents: ProposedContents, command: EditorCommand, environment: Mapping[str, str]
) -> str | ToolFailure:
    """Opens the editor and returns the edited proposal with LF line endings, or a failure.

    Both files are readable by their owner only, in a temporary directory that is always removed.
    The editor uses this process's terminal; cancellation kills it.
    """
    import shutil

    try:
        folder = _folder()
    except OSError as error:
        where = error.filename or "the directory for temporary files"
        return failure_of(from_os_error(error, str(where), writing=True))
    try:
        old, new = _names(folder, contents.file_path)
        try:
            _write(old, contents.current or "")
            _write(new, contents.proposed)
        except OSError as error:
            return failure_of(from_os_error(error, new, writing=True))
        failure = await _run(command(old, new), environment)
        return failure or _read(new)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    import tempfile

    return Path(os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX)))


def _names(folder: Path, file_path: str) -> tuple[Path, Path]:
    """File names that show the person, and by the suffix the editor, which file this is."""
    name = "".join(
        char if char.isalnum() or char in "._-" else "_" for char in Path(file_path).name
    )
    stem, suffix = os.path.splitext(name)
    stem, suffix = stem[:_KEPT_NAME], suffix[:_KEPT_NAME]
    return folder / f"{_PREFIX}{stem}-old{suffix}", folder / f"{_PREFIX}{stem}-new{suffix}"


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))


async def _run(argv: Sequence[str], environment: Mapping[str, str]) -> ToolFailure | None:
    """Runs the editor; returns the reason if it fails, None otherwise."""
    import asyncio

    from alhena.system.environment import shield_memory
    from alhena.system.own_programs import find_program

    if not argv:
        return _editing_failure("There is no editor to start")
    editor = find_program(argv[0], environment)
    if editor is None:
        return _editing_failure(f"The editor {_describe_program(argv)} is not on the PATH")
    argv = (editor, *argv[1:])
    try:
        shield_memory()
        # In this process's group and on its terminal, unlike other children: a person works in it.
        process = await asyncio.create_subprocess_exec(*argv, env=dict(environment))
    except (OSError, ValueError, ProcessStartError) as error:
        return _editing_failure(
            f"The editor {_describe_program(argv)} could not be started: {error}"
        )
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        await asyncio.shield(_stop(process))
        raise
    if code:
        ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return _editing_failure(f"The editor {_describe_program(argv)} {ended}")
    return None


async def _stop(process: "Process") -> None:
    import asyncio
    import contextlib

    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_GRACE_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _read(path: Path) -> str | ToolFailure:
    try:
        data, _ = read_whole(path, EDIT_LIMIT)
    except FileError as error:
        return _editing_failure(f"What the editor left cannot be read: {error}")
    if is_binary(data[:SAMPLE_SIZE]):
        return _editing_failure("What the editor left is not text")
    file = decode_text(data)
    if file.damaged:
        return _editing_failure(f"What the editor left is not valid {file.codec.encoding.upper()}")
    return file.shown


def _describe_program(argv: Sequence[str]) -> str:
    return printable(argv[0])


def _editing_failure(what: str) -> ToolFailure:
    reason = " ".join(what.split()).rstrip(".")
    return ToolFailure(
        f"{reason}; the proposed change stays as it was.", ToolErrorType.EXECUTION_FAILED
    )
