"""The version, in a separate module so that `alhena --version` loads nothing else."""

__version__ = "0.1.0"
