"""Tools that one configured command lists and another runs (TOOLS-07)."""
