"""How long and how often a request is sent again, and what speaks against it."""
