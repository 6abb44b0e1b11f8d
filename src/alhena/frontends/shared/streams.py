"""Reads inputs named on the command line, and writes to standard output and error: every failure is
one error, and a closed stream is no crash."""

import errno
import sys
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, cast

import msgspec

from alhena.display_text import escaped, one_line
from alhena.errors import AlhenaError, InputError, UsageError


class StreamError(AlhenaError):
    """The result cannot be written. `closed`: its reader has gone away."""

    kind = "output"

    def __init__(self, message: str, *, closed: bool = False) -> None:
        super().__init__(message, remedy="Check where standard output goes.")
        self.closed = closed


def write_stdout(text: str) -> None:
    """Writes and flushes. Raises OutputError."""
    if sys.stdout is None:
        raise StreamError("standard output is closed.")
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
    except OSError as error:
        closed = error.errno in (errno.EPIPE, errno.ESHUTDOWN)
        reason = error.strerror or str(error)
        raise StreamError(f"cannot write the result: {reason}.", closed=closed) from error


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
    """Writes an error to standard error: as `document` where there is one, else as a line, and one
    with the page to read if there is one, behind its traceback when debugging. Returns its exit
    code."""
    if debug:
        import traceback

        write_stderr(escaped("".join(traceback.format_exception(error)), block=True))
    more = f"More: alhena docs {error.page}\n" if error.page else ""
    write_stderr(f"alhena: {one_line(str(error))}\n{more}" if document is None else document)
    return error.exit_code


def write_lines(lines: Iterable[str]) -> None:
    """Writes lines to standard output; at a terminal as rows of its width, and whole."""
    if is_terminal(sys.stdout):
        from shutil import get_terminal_size

        lines = wrap_lines(lines, get_terminal_size().columns)
    write_stdout("".join(f"{each}\n" for each in lines))


def wrap_lines(lines: Iterable[str], columns: int) -> Iterator[str]:
    """Lines as rows of at most `columns`, with every character of theirs. The further rows of a
    line are indented, so that none looks like a line of its own."""
    from textwrap import TextWrapper

    for each in lines:
        margin = " " * (len(each) - len(each.lstrip(" ")) + 6)
        wrapper = TextWrapper(
            max(columns, len(margin) + 10),
            subsequent_indent=margin,
            expand_tabs=False,
            replace_whitespace=False,
            drop_whitespace=False,
            break_on_hyphens=False,
        )
        yield from wrapper.wrap(each) or [each]


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
    """True when a person agrees, at the terminal or by a line on a pipe, or has by `--consent`;
    `unchanged` says what a no has left. Raises UsageError when there is no person to ask."""
    if consent:
        return True
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        if not _has_input():
            raise UsageError(f"no person can be asked: {unchanged}.", remedy="Use --consent.")
        write_stdout(f"{question}\n")
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return True
    elif says_yes(question):
        return True
    write_stdout(f"{unchanged.capitalize()}.\n")
    return False


ANSWER_S = 5.0
"""Seconds that an answer on a pipe is waited for."""


def _has_input() -> bool:
    """True if standard input brings something, soon."""
    if sys.stdin is None:
        return False
    from select import select

    try:
        readable = bool(select([sys.stdin], [], [], ANSWER_S)[0])
    except (OSError, ValueError):
        return False
    buffer: Any = sys.stdin.buffer
    return readable and bool(buffer.peek(1))


MAX_BYTES = 64 * 1024 * 1024


def open_input(name: str) -> BinaryIO:
    """A file for reading; "-" is standard input. Raises InputError when it cannot be opened."""
    if name == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed.", remedy="Name a file.")
        return sys.stdin.buffer
    try:
        return open(name, "rb")
    except OSError as error:
        raise _unreadable(name, error.strerror or str(error)) from error


def read_input(name: str, limit: int = MAX_BYTES) -> bytes:
    """All bytes of an input, at most `limit`. Raises InputError."""
    file = open_input(name)
    try:
        data = file.read(limit + 1)
    except OSError as error:
        raise _unreadable(name, error.strerror or str(error)) from error
    finally:
        if name != "-":
            file.close()
    if len(data) > limit:
        raise _unreadable(name, f"it is larger than {limit} bytes")
    return data


def _unreadable(name: str, reason: str) -> InputError:
    return InputError(f"cannot read {name}: {reason}.", remedy="Name another file, or - for stdin.")


def option_object(option: str, text: str) -> dict[str, Any]:
    """The JSON object that is the value of an option. Raises UsageError."""
    why = "it is another value"
    try:
        found = parse_json(text)
    except InputError as error:
        found, why = None, error.message
    if not isinstance(found, dict):
        raise UsageError(
            f"{option} is not a JSON object: {why}.",
            remedy=f"""Write {option} '{{"key": "value"}}'.""",
        )
    return cast("dict[str, Any]", found)


def parse_json(text: str) -> object:
    """The value of a JSON text. Raises InputError, which says what is wrong, and where."""
    try:
        return msgspec.json.decode(text.encode("utf-8"))
    except RecursionError as error:
        raise InputError("it is nested too deeply") from error
    except (UnicodeEncodeError, msgspec.DecodeError) as error:
        raise InputError(str(error)) from error
