"""Subagents_room."""
