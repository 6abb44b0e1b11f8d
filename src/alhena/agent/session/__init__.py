"""Session_room."""
