"""Measurements of `make bench`: each figure is a ratio to a baseline run beside it."""
