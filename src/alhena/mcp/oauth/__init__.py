"""OAuth 2.1 sign-in to MCP servers, and the resulting tokens."""
