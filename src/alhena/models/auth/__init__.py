"""Who we are to a service: access tokens, where they come from and how they are renewed."""
