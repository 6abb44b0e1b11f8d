"""Languages within commands: the scripts of sed and awk, interpreters, tests, git."""
