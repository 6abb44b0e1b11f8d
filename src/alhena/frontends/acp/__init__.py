"""Editors as clients, over the Agent Client Protocol."""
