"""The built-in tools, one file each, the description for the model in a `.md` beside it."""
