"""Arguments and subcommands."""
