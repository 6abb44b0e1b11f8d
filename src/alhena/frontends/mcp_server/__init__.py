"""The built-in tools as an MCP server, behind the same policy and hooks (`alhena mcp serve`)."""
