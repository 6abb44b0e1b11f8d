"""The time limit of tests that wait for a process."""

PATIENCE_S = 50.0
"""Seconds, below the limit of a test (`timeout` in pyproject.toml), so that the failure names
the process."""
