"""Shows what happened in a recorded session: as a timeline and as a page."""
