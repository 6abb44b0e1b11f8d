"""The built-in tools by subject; each tool's declaration is in `NAME.json` and `NAME.md`."""
