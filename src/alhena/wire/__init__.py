"""Gemini's vocabulary, its bytes and the rules of a conversation. Pure: no I/O, no clock."""
