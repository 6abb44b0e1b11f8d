"""MCP servers: reaching them, what they offer, and tools made of it."""
