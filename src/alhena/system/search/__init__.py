"""Searches files for a regular expression: ripgrep or git grep to find them, our own lines."""
