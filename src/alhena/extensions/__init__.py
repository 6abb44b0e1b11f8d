"""Installs, updates and removes extensions, and tells what they bring."""
