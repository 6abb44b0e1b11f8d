"""The time limit of tests that wait for a process."""

PATIENCE_S = 59.0
"""Seconds, just below the limit of a test (`timeout` in pyproject.toml), so that the failure names
the process."""
