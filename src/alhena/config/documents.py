"""Settings files as plain values: reads them within limits, resolves dotted keys."""

import os
import re
import stat
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from alhena.errors import ConfigError

MAX_BYTES = 1024 * 1024
_T = TypeVar("_T")


class NotReadableError(OSError):
    """A file is not regular, or too large."""


class TooLargeError(NotReadableError):
    """A file is too large."""


def read_limited(path: str | Path, limit: int = MAX_BYTES) -> bytes:
    """Reads a regular file of at most `limit` bytes.

    Raises FileNotFoundError, NotReadableError for FIFOs, devices, directories and files that are
    too large, or another OSError. Never waits for a writer.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotReadableError("it is not a regular file")
        data = file.read(limit + 1)
        if len(data) > limit:
            raise TooLargeError(f"it is larger than {limit} bytes")
        return data


def settings_document(path: Path) -> Any:
    """Parses a settings file; None when it is missing or empty. Raises ConfigError when it is
    unreadable or not JSON."""
    data = settings_bytes(path)
    return None if data is None else parse_settings(path, data)


def settings_bytes(path: Path) -> bytes | None:
    """The bytes of a settings file; None when it is missing or empty. Raises ConfigError."""
    try:
        data = read_limited(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(
            f"cannot read the settings file {path}: {error.strerror or error}.",
            remedy="Put a readable file there, or move it away.",
        ) from error
    return data if data.strip() else None


def parse_settings(path: Path, data: bytes) -> Any:
    """Parses the bytes of a file of JSON, which may have comments. Raises ConfigError that names
    the line."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # it may have comments
    except RecursionError as error:
        raise too_deep(path) from error
    from alhena.config.jsonc import strip_comments

    text = settings_text(path, data)
    try:
        return msgspec.json.decode(strip_comments(text))
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"{path}{_line_of(text, str(error))}: not valid JSON: {error}.",
            remedy="Correct it, or move the file away.",
            page="settings",
        ) from error
    except RecursionError as error:
        raise too_deep(path) from error


def settings_text(path: Path, data: bytes) -> str:
    """Decodes the bytes of a settings file. Raises ConfigError that names the line."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{path}:{line}: not UTF-8 (byte {error.start}).",
            remedy="Save it as UTF-8.",
        ) from error


def too_deep(path: Path) -> ConfigError:
    """The error for a file nested too deeply."""
    return ConfigError(f"{path}: nested too deeply.", remedy="Correct it.")


def _line_of(text: str, message: str) -> str:
    """ ":LINE" for a message that ends in "(byte N)", else ""."""
    _, found, rest = message.rpartition("(byte ")
    digits = rest.rstrip(")")
    if not found or not digits.isdigit():
        return ""
    before = text.encode("utf-8")[: int(digits)]
    line = before.count(b"\n") + 1
    return f":{line}"


def read_value(value: Any, kind: type[_T]) -> _T:
    """A value of a file that people write, as a type: a text for a number, one entry for a list and
    the like are taken where only one reading is possible. Raises msgspec.ValidationError."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        from alhena.config.coercion import coerce_value

        return msgspec.convert(coerce_value(value, kind), kind)


def typed_value(value: Any, kind: Any) -> Any:
    """A plain value in the form that `read_value` reads; the same if it needs no change."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        from alhena.config.coercion import coerce_value

        return coerce_value(value, kind)
    return value


def value_at(document: Any, key: str) -> Any:
    """The value of a dotted key; None if missing."""
    return value_on(document, tuple(key.split(".")))


def value_on(document: Any, path: tuple[str, ...]) -> Any:
    """The value at a path, whose names may contain dots; None if missing."""
    for name in path:
        if not isinstance(document, dict):
            return None
        document = cast("dict[str, Any]", document).get(name)
    return document


def with_value(document: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """`document` with a value at a path; a non-object on the way is replaced."""
    name, *rest = path
    if rest:
        inner = document.get(name)
        below = cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
        value = with_value(below, tuple(rest), value)
    return {**document, name: value}


def without_value(document: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """`document` without the value at a path; the same if there is none."""
    name, *rest = path
    if name not in document:
        return document
    if not rest:
        return {key: value for key, value in document.items() if key != name}
    inner = document[name]
    if not isinstance(inner, dict):
        return document
    below = without_value(cast("dict[str, Any]", inner), tuple(rest))
    return {**document, name: below}


def union(entries: list[Any]) -> list[Any]:
    """The distinct entries, in order."""
    found: list[Any] = []
    for entry in entries:
        if entry not in found:
            found.append(entry)
    return found


def names_in(value: Any) -> frozenset[str]:
    """The variables named in the texts of a value, in upper case."""
    found: set[str] = set()
    pattern = re.compile(VARIABLE)
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            names = (match["plain"] or match["braced"] for match in pattern.finditer(each))
            found.update(name.upper() for name in names if name)
        elif isinstance(each, list):
            waiting += cast("list[Any]", each)
        elif isinstance(each, dict):
            waiting += cast("dict[str, Any]", each).values()
    return frozenset(found)


_NAME = r"[A-Za-z_][A-Za-z0-9_]*"


VARIABLE = rf"\\\$|\$(?:(?P<plain>{_NAME})|\{{(?P<braced>{_NAME})(?::-(?P<default>[^{{}}]*))?\}})"
