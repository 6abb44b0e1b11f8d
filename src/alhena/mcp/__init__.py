"""MCP servers: connections, lists, and the tools built from them."""
