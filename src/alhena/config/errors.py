"""What can be wrong with settings, policies and environment."""

from alhena.errors import AlhenaError


class ConfigError(AlhenaError):
    """A configuration file or variable cannot be used; the message names it and the place."""

    exit_code = 52
    kind = "config"


class DamagedError(ConfigError):
    """A file in which is written down what the user has said holds something else."""
