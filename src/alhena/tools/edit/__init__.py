"""Edits of files: finds old text, replaces it, shows the diff and writes the file."""
