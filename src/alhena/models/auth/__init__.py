"""Authentication with model services: access tokens, their sources and renewal."""
