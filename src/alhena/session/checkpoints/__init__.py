"""Checkpoints: snapshots of a project's files in a private git repository, and restoring them."""
