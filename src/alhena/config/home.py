"""Where the user's files live: the reference's places, so that both programs share them."""

import os
from collections.abc import Mapping
from pathlib import Path

from alhena.config.errors import ConfigError


def config_home(environ: Mapping[str, str]) -> Path:
    """`~/.gemini`, below GEMINI_CLI_HOME when that is set. Need not exist."""
    base = environ.get("GEMINI_CLI_HOME") or environ.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(base):
        raise ConfigError(
            f"the home directory {base!r} is not an absolute path.",
            remedy="Set HOME (or GEMINI_CLI_HOME) to an absolute path.",
        )
    return Path(base) / ".gemini"


def user_settings_path(environ: Mapping[str, str]) -> Path:
    """The user's settings.json."""
    return config_home(environ) / "settings.json"


def user_policies_path(environ: Mapping[str, str]) -> Path:
    """The directory of the user's policies."""
    return config_home(environ) / "policies"
