"""Custom commands: prompts in TOML files, called by a name behind a slash."""
