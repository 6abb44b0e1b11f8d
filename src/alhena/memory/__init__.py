"""What is remembered beyond a session: the user's GEMINI.md."""
