"""Code Assist: models for users who sign in with a Google account."""
