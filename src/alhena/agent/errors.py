"""Why a run ended before its answer."""

from alhena.errors import AlhenaError


class TurnLimitError(AlhenaError):
    """The model asked for more turns than the limit allows; what was done until then stands."""

    exit_code = 53
    kind = "turn_limit"


class BusyError(AlhenaError):
    """An agent was given a second prompt while it works on the first, or used when closed."""

    kind = "busy"
