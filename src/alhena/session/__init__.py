"""What outlives a run: the journal of a session, its reading, and what is made of it."""
