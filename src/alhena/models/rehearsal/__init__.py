"""A generator of fixed rules that speaks the protocol of a model, for use without credentials."""
