"""What a settings file holds, in plain values: JSON with comments and trailing commas."""

from pathlib import Path
from typing import Any

import msgspec

from alhena.config.errors import ConfigError
from alhena.config.files import read_limited


def settings_document(path: Path) -> Any:
    """What a settings file holds, in plain values; None when it is not there or empty. Raises
    ConfigError when it cannot be read or is no JSON."""
    data = settings_bytes(path)
    return None if data is None else parse_settings(path, data)


def settings_bytes(path: Path) -> bytes | None:
    """The bytes of a settings file; None when it is not there or empty. Raises ConfigError."""
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
    """The values in the bytes of a settings file. Raises ConfigError that names the line."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass  # perhaps it has comments
    except RecursionError as error:
        raise too_deep(path) from error
    from alhena.config.jsonc import strip_comments

    text = settings_text(path, data)
    try:
        return msgspec.json.decode(strip_comments(text))
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"{path}{_line_of(text, str(error))}: the settings file is not valid JSON: {error}.",
            remedy="Correct it there, or move the file away to use the defaults.",
        ) from error
    except RecursionError as error:
        raise too_deep(path) from error


def settings_text(path: Path, data: bytes) -> str:
    """The bytes of a settings file as text. Raises ConfigError that names the line."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{path}:{line}: the settings file is not UTF-8 (byte {error.start}).",
            remedy="Save it as UTF-8.",
        ) from error


def too_deep(path: Path) -> ConfigError:
    """What is said of a file that no reader gets to the bottom of."""
    return ConfigError(f"{path}: the settings file is nested too deeply.", remedy="Correct it.")


def _line_of(text: str, message: str) -> str:
    """ ":LINE" for a message that ends in "(byte N)", else ""."""
    _, found, rest = message.rpartition("(byte ")
    digits = rest.rstrip(")")
    if not found or not digits.isdigit():
        return ""
    before = text.encode("utf-8")[: int(digits)]
    line = before.count(b"\n") + 1
    return f":{line}"
