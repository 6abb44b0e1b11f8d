"""Questions at the terminal: approval of calls, trust of a folder."""
