"""Toolset."""
