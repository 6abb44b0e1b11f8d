"""The loop, the session, and the builder that puts it together."""
