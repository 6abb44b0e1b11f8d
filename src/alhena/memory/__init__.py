"""Memory across sessions: GEMINI.md files."""
