"""Converts JSON Schema to the forms that the API accepts for function parameters."""
