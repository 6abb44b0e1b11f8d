"""Session data on disk: journals, checkpoints, tags and transcripts."""
