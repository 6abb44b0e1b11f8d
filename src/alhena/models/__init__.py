"""Model services: the ContentGenerator protocol and its implementations."""
