"""The interactive terminal: a prompt that stays usable, and what the agent does above it."""
