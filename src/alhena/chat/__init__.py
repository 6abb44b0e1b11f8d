"""History and its curation, one streamed turn, prompts and context."""
