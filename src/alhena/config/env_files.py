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
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from alhena.config.documents import read_limited
from alhena.config.environment import is_choosing

_BLANK = "[ \t\v\f\u00a0\ufeff]"
_LINE = rf"""
    ^{_BLANK}*(?:export{_BLANK}+)?([\w.-]+)(?:{_BLANK}*=|:{_BLANK}){_BLANK}*
    ('(?:\\'|[^'])*'|"(?:\\"|[^"])*"|`(?:\\`|[^`])*`|[^\#\n]*){_BLANK}*(?:\#.*)?$
"""


def parse_env(text: str) -> dict[str, str]:
    """Parses a .env file, in order of definition."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found: dict[str, str] = {}
    for line in re.finditer(_LINE, text, re.ASCII | re.MULTILINE | re.VERBOSE):
        value = line[2].strip(" \t\v\f\u00a0\ufeff")
        quote = value[:1]
        if len(value) > 1 and quote == value[-1] and quote in "'\"`":
            value = value[1:-1]
        if quote == '"':
            value = value.replace("\\n", "\n").replace("\\r", "\r")
        found.pop(line[1], None)
        found[line[1]] = value
    return found


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
