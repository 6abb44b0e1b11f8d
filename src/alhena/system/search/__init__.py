"""Searches files for a regular expression: ripgrep or git grep select files, our code matches
lines."""
