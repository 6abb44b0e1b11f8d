"""Writing to standard output and error: every failure is one error, and a closed stream is no
crash."""

import errno
import sys
from typing import Any

import msgspec

from alhena.display_text import escaped, one_line
from alhena.errors import AlhenaError, UsageError


class OutputError(AlhenaError):
    """The result cannot be written. `closed`: its reader has gone away."""

    kind = "output"

    def __init__(self, message: str, *, closed: bool = False) -> None:
        super().__init__(message, remedy="Check where standard output goes.")
        self.closed = closed


def write_stdout(text: str) -> None:
    """Writes and flushes. Raises OutputError."""
    if sys.stdout is None:
        raise OutputError("standard output is closed.")
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except OSError as error:
        closed = error.errno in (errno.EPIPE, errno.ESHUTDOWN)
        reason = error.strerror or str(error)
        raise OutputError(f"cannot write the result: {reason}.", closed=closed) from error


def write_stderr(text: str) -> None:
    """Writes and flushes; what cannot be written has nowhere else to go."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.buffer.write(text.encode("utf-8", "replace"))
        sys.stderr.buffer.flush()
    except OSError:
        return


def report(error: AlhenaError, *, debug: bool, document: str | None = None) -> int:
    """Writes an error to standard error: as `document` where there is one, else as a line, behind
    its traceback when debugging. Returns its exit code."""
    if debug:
        import traceback

        write_stderr(escaped("".join(traceback.format_exception(error)), block=True))
    write_stderr(f"alhena: {one_line(str(error))}\n" if document is None else document)
    return error.exit_code


def write_json(value: Any) -> None:
    """Writes a JSON document to standard output."""
    write_stdout(json_document(value))


def json_document(value: Any) -> str:
    """A value as a JSON document of two-space indent, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8") + "\n"


def is_terminal(stream: Any) -> bool:
    """True when a standard stream is open and a terminal."""
    return stream is not None and stream.isatty()


def says_yes(question: str) -> bool:
    """Asks a person at the terminal; anything but y and yes is a no."""
    write_stdout(question)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def agrees(question: str, unchanged: str, *, consent: bool) -> bool:
    """True when a person agrees, or has by `--consent`; `unchanged` says what a no has left. Raises
    UsageError when there is no person to ask."""
    if consent:
        return True
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise UsageError(f"no person can be asked: {unchanged}.", remedy="Use --consent.")
    if says_yes(question):
        return True
    write_stdout(f"{unchanged.capitalize()}.\n")
    return False
