"""Limits_room."""
