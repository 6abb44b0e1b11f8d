"""Reads .env files in the form of Node's dotenv, and decides who gets their variables.

The user's own file: nearly all variables, for the agent and its child processes. A project's file:
a few variables listed here, for the agent; the others expand `$NAME` in the project's settings
only. No child process ever gets them automatically.

A line is `NAME=value` or `NAME: value`, optionally after `export`. A value in single quotes, double
quotes or backticks may span lines; in double quotes `\\n` and `\\r` are line breaks. An unquoted
value ends at a `#` or the end of its line and is stripped. `$NAME` is not expanded. Other lines are
ignored. The last definition of a name wins.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from alhena.config.documents import read_limited
from alhena.config.environment import is_choosing

QUOTES = ("'", '"', "`")
_BLANKS = " \t\v\f\u00a0\ufeff"
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


def parse_env(text: str) -> dict[str, str]:
    """Parses a .env file, in order of first definition. Linear in the length of the text."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    closing = _Closing(text)
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        named = _name(text, position)
        if named is None:
            position = _line_end(text, position) + 1
            continue
        name, position = named
        value, position = _value(text, position, closing)
        found.pop(name, None)
        found[name] = value
    return found


class _Closing:
    """Positions of closing quotes. Caches results: a text without a closing quote is searched
    once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._unclosed: dict[str, int] = {}

    def end(self, start: int) -> int:
        """The offset of the quote that closes the one at `start`; -1 if there is none."""
        quote = self._text[start]
        if start >= self._unclosed.get(quote, len(self._text)):
            return -1
        position = start + 1
        while True:
            position = self._text.find(quote, position)
            if position < 0:
                self._unclosed[quote] = min(start, self._unclosed.get(quote, start))
                return -1
            if self._text[position - 1] != "\\" or position - 1 == start:
                return position
            position += 1


def _name(text: str, position: int) -> tuple[str, int] | None:
    """The name on the line that begins at `position`, and the possible start of its value."""
    position = _skip(text, position)
    if text.startswith("export", position):
        after = _skip(text, position + 6)
        if after > position + 6 and text[after : after + 1] in _NAME:
            position = after
    end = position
    while end < len(text) and text[end] in _NAME:
        end += 1
    if end == position:
        return None
    equals = _skip(text, end)
    if text[equals : equals + 1] == "=":
        return text[position:end], equals + 1
    if text[end : end + 1] == ":" and text[end + 1 : end + 2] in tuple(_BLANKS):
        return text[position:end], end + 1
    return None


def _value(text: str, position: int, closing: _Closing) -> tuple[str, int]:
    """The value that begins at `position`, and the start of the next line."""
    start = _skip(text, position)
    if text[start : start + 1] in QUOTES:
        end = closing.end(start)
        if end > 0:
            after = _skip(text, end + 1)
            if text[after : after + 1] in ("", "\n", "#"):
                inner = text[start + 1 : end]
                return _with_breaks(inner, text[start]), _line_end(text, after) + 1
    line_end = _line_end(text, start)
    comment = text.find("#", start, line_end)
    bare = text[start : line_end if comment < 0 else comment].strip(_BLANKS)
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in QUOTES:
        return _with_breaks(bare[1:-1], bare[0]), line_end + 1
    return _with_breaks(bare, bare[:1]), line_end + 1


def _with_breaks(value: str, quote: str) -> str:
    if quote != '"':
        return value
    return value.replace("\\n", "\n").replace("\\r", "\r")


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANKS:
        position += 1
    return position


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


PLACES = frozenset(
    {
        *("HOME", "USERPROFILE", "GEMINI_CLI_HOME", "GEMINI_CLI_SYSTEM_SETTINGS_PATH"),
        *("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "GEMINI_CLI_TRUSTED_FOLDERS_PATH"),
        *("GEMINI_CLI_TRUST_WORKSPACE", "GEMINI_RESTRICTED_MODE"),
    }
)
"""Variables that locate configuration files; never read from a file."""

PROJECT_CREDENTIALS = frozenset(
    {
        *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GEMINI_MODEL", "GOOGLE_CLOUD_PROJECT"),
        *("GOOGLE_CLOUD_PROJECT_ID", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI"),
        "GOOGLE_GENAI_USE_GCA",
    }
)
"""Variables of the agent that a project may set: those that decide who pays, not who receives
data."""


class FoundEnvFile(msgspec.Struct, frozen=True, kw_only=True):
    """A .env file and the variables taken from it: `variables` that were unset and, for a project
    (`local`), the subset for the agent itself (`own`). `admitted` are the allowed variables,
    already set or not."""

    path: Path
    local: bool
    variables: dict[str, str]
    admitted: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def own(self) -> dict[str, str]:
        """The variables for the agent itself."""
        if not self.local:
            return self.variables
        return {name: text for name, text in self.variables.items() if name in PROJECT_CREDENTIALS}


def read_env_file(
    path: Path, environ: Mapping[str, str], excluded: Collection[str], *, local: bool
) -> FoundEnvFile:
    """Reads the variables that a .env file adds to the environment. `excluded` names are only set
    by files in a .gemini directory. An unreadable file adds none and gives a warning."""
    try:
        text = read_limited(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _unreadable(path, f"it is not UTF-8 (byte {error.start})", local=local)
    except OSError as error:
        return _unreadable(path, str(error.strerror or error), local=local)
    given = parse_env(text)
    own_folder = path.parent.name == ".gemini"
    taken: dict[str, str] = {}
    admitted: dict[str, str] = {}
    refused: list[str] = []
    kept_out: list[str] = []
    for name, value in given.items():
        if not is_admitted(name, value, local=local):
            refused.append(name)
            continue
        left_out = name in excluded and not own_folder
        if not left_out:
            admitted[name] = value
        if name in environ:
            continue
        if left_out:
            kept_out.append(name)
        else:
            taken[name] = value
    warnings: tuple[str, ...] = ()
    if refused:
        whose = "a project's" if local else "any"
        warnings = (f"{path}: not taken from {whose} .env file: {', '.join(refused)}.",)
    notes = (f"{path} is read.",)
    inner = [name for name in taken if local and name not in PROJECT_CREDENTIALS]
    if inner:
        named = ", ".join(inner)
        notes += (f"{path}: for the settings of that project alone, no program gets it: {named}.",)
    if kept_out:
        named = ", ".join(kept_out)
        notes += (f"{path}: advanced.excludedEnvVars leaves out {named}.",)
    return FoundEnvFile(
        path=path,
        local=local,
        variables=taken,
        admitted=admitted,
        warnings=warnings,
        notes=notes,
    )


def is_admitted(name: str, value: str, *, local: bool) -> bool:
    """True when a variable may come from a .env file of the user or of a project (`local`), if only
    for the settings of that project."""
    upper = name.upper()
    if upper in PLACES or "\0" in value:
        return False
    if not local:
        return True
    if name in PROJECT_CREDENTIALS:
        # Part of a model's name may select another service.
        return name != "GEMINI_MODEL" or not ({":", "/"} & set(value))
    return not is_choosing(name)


def is_ours(path: Path) -> bool:
    """True when a file above the working directory belongs to this user or the administrator: a
    parent directory may be writable by everybody."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return owner in (os.geteuid(), 0)


def _unreadable(path: Path, why: str, *, local: bool) -> FoundEnvFile:
    warning = f"{path} is not read: {why}."
    return FoundEnvFile(path=path, local=local, variables={}, warnings=(warning,))
