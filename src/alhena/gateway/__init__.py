"""An HTTP server that offers one ContentGenerator to clients of several dialects."""
