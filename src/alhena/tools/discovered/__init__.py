"""Tools that a command of the settings lists and another one runs (TOOLS-07)."""
