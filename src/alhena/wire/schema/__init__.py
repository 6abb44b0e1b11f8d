"""From any JSON Schema to the forms in which the API takes the parameters of a function."""
