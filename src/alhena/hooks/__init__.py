"""User commands around events: what is configured, what applies, running it, what it says."""
