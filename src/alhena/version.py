"""The version, alone in a module so that `alhena --version` loads nothing else."""

__version__ = "0.1.0"
