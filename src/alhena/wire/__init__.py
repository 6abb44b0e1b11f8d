"""Gemini's data types, their encoding, and the rules of a conversation. Pure: no I/O, no clock."""
