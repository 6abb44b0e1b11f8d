"""Edits of files: old text found, new text put in its place, the change shown and written."""
