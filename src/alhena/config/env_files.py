"""Which variables of a .env file count, and for whom.

Those of the user's own file: nearly all, for the agent and all that it runs. Those of a project: a
few that are named here, for the agent; the others stand for `$NAME` in the settings of the project
and reach nothing else. Whatever they are called, no program that is run gets them by itself.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from alhena.config.choosing import is_choosing
from alhena.config.dotenv import parse_env
from alhena.config.files import read_limited

PLACES = frozenset(
    {
        *("HOME", "USERPROFILE", "GEMINI_CLI_HOME", "GEMINI_CLI_SYSTEM_SETTINGS_PATH"),
        *("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "GEMINI_CLI_TRUSTED_FOLDERS_PATH"),
        *("GEMINI_CLI_TRUST_WORKSPACE", "GEMINI_RESTRICTED_MODE"),
    }
)
"""They say which files are read at all, and are taken from no file."""

PROJECT_CREDENTIALS = frozenset(
    {
        *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GEMINI_MODEL", "GOOGLE_CLOUD_PROJECT"),
        *("GOOGLE_CLOUD_PROJECT_ID", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_VERTEXAI"),
        "GOOGLE_GENAI_USE_GCA",
    }
)
"""Of what the agent itself reads, these a project may say: who pays for it, not who hears it."""


class FoundEnvFile(msgspec.Struct, frozen=True, kw_only=True):
    """A .env file and what is taken from it: `variables` that were not set, and of a project
    (`local`) of these what the agent itself takes (`own`). `admitted` is what it may set, set
    already or not."""

    path: Path
    local: bool
    variables: dict[str, str]
    admitted: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def own(self) -> dict[str, str]:
        """The variables that the agent itself takes."""
        if not self.local:
            return self.variables
        return {name: text for name, text in self.variables.items() if name in PROJECT_CREDENTIALS}


def read_env_file(
    path: Path, environ: Mapping[str, str], excluded: Collection[str], *, local: bool
) -> FoundEnvFile:
    """What a .env file adds to the environment. `excluded` are names that no file outside of a
    .gemini directory sets. A file that cannot be read says nothing, which is a warning."""
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
    """Whether a variable may come from a .env file, the user's own or a project's (`local`), and be
    it for the settings of that project alone."""
    upper = name.upper()
    if upper in PLACES or "\0" in value:
        return False
    if not local:
        return True
    if name in PROJECT_CREDENTIALS:
        # Of a model another service may be part of the name.
        return name != "GEMINI_MODEL" or not ({":", "/"} & set(value))
    return not is_choosing(name)


def is_ours(path: Path) -> bool:
    """Whether a file above the working directory is this user's or the administrator's: there may
    be directories that everybody writes to."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return owner in (os.geteuid(), 0)


def _unreadable(path: Path, why: str, *, local: bool) -> FoundEnvFile:
    warning = f"{path} is not read: {why}."
    return FoundEnvFile(path=path, local=local, variables={}, warnings=(warning,))
