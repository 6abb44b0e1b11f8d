"""Programs and functions that look at a call after the rules, and may be stricter than they are."""
