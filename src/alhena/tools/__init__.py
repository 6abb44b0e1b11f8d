"""Tools: their contract, the registry, parameters, results as parts of a content."""
