"""Errors of settings, policies and environment."""

from alhena.errors import AlhenaError


class ConfigError(AlhenaError):
    """A configuration file or variable is unusable; the message names it and the position."""

    exit_code = 52
    kind = "config"


class DamagedError(ConfigError):
    """A file with recorded user decisions is invalid."""
