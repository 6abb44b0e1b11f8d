"""Parts that several front ends use: arguments, settings, streams, trust, listings, words."""
