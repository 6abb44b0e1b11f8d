"""User commands run at events: configuration, matching, execution, output."""
