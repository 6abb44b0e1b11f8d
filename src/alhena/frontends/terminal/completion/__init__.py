"""Completion of commands, their values and paths in the input line."""
