"""The loop, the builder that puts a session together, `Agent` for embedding."""
