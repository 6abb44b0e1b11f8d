"""Who asks: signing in to MCP servers by OAuth 2.1, and the tokens that come of it."""
