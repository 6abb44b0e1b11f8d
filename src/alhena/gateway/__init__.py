"""An HTTP server by which clients of several dialects use one ContentGenerator."""
