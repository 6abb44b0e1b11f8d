"""Code Assist: the models for a user who signs in with a Google account."""
