"""Command lines as values: the commands that bash would run, by its own rules."""
