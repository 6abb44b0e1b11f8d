"""Settings, paths, environment, trust."""
