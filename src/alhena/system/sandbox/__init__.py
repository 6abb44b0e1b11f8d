"""Restricts commands by bubblewrap or Landlock; without either, nothing runs."""
