"""How the bus can be used wrongly. What goes wrong with a listener is never one of these."""

from alhena.errors import AlhenaError


class BusError(AlhenaError):
    """A request that cannot be made: its correlation id is taken."""

    kind = "bus"


class LinkError(BusError):
    """A front end in another process sent what is no answer; it is cut off."""

    kind = "link"
