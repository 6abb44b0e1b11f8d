"""May this call run? Rules, their loading, and the decision with its reason."""
