"""The command line, the terminal UI and the MCP server."""
