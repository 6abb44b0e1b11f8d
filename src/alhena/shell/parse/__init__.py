"""The parser: a command line as the commands that bash would run, by its own rules."""
