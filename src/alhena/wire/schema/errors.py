"""A schema that cannot be told to a model."""

from alhena.wire.errors import WireError


class SchemaError(WireError):
    """The schema is no object of parameters, or too large. The tool it belongs to is left out."""

    kind = "schema"
