"""Input given on the command line: files to read, and JSON."""

import os
import re
import stat
import sys
from typing import BinaryIO, NoReturn

import msgspec

from alhena.errors import InputError

MAX_BYTES = 64 * 1024 * 1024


def open_input(name: str) -> BinaryIO:
    """A file for reading; "-" is standard input.

    Raises InputError when it cannot be opened, and for devices and named pipes, which could keep a
    command waiting or reading for ever. A pipe that a shell passes (`<(...)`) is taken.
    """
    if name == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed.", remedy="Name a file.")
        return sys.stdin.buffer
    passed = name.startswith(("/dev/fd/", "/proc/self/fd/")) or name == "/dev/stdin"
    try:
        waiting = 0 if passed else os.O_NONBLOCK
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | waiting)
    except OSError as error:
        raise _unreadable(name, error.strerror or str(error)) from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode) and not (passed and stat.S_ISFIFO(mode)):
        os.close(descriptor)
        raise _unreadable(name, "it is not a regular file")
    return os.fdopen(descriptor, "rb")


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


def parse_json(text: str) -> object:
    """The value that a JSON text stands for.

    Raises InputError; its message is what is wrong with the text, and where, characters counted
    from 1.
    """
    try:
        return msgspec.json.decode(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        # A byte of the command line that is no UTF-8 comes as a lone surrogate (PEP 383).
        what = f"byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"U+{code:04X}"
        raise InputError(f"character {error.start + 1} is {what}, which is no UTF-8") from error
    except RecursionError as error:
        raise InputError("it is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise InputError(_problem(text) or str(error)) from error


def _problem(text: str) -> str:
    """A known mistake in a JSON text; "" if none is found."""
    import json

    half = _lone_surrogate(text)
    if half is not None:
        return f"{half.group()} at character {half.start() + 1} is half of a surrogate pair"
    try:
        json.loads(text, parse_constant=_refused, parse_int=str)
    except json.JSONDecodeError as error:
        return f"{error.msg} (line {error.lineno}, column {error.colno})"
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return str(error)
    return ""


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")


def _lone_surrogate(text: str) -> re.Match[str] | None:
    """The first escape of half a surrogate pair that has no other half."""
    pairs = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    for found in re.finditer(pairs + r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.", text):
        if len(found.group()) == len("\\ud800"):
            return found
    return None
