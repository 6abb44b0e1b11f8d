"""`Deferred`, the exception that makes a call wait for an answer after the run."""


class Deferred(Exception):  # noqa: N818  it is no error: the call waits
    """Raised by a tool, or by `approve`, to make the call wait: the run ends with `stop_reason`
    "pending", and `Agent.resume` takes the answer. `reason` is shown to whoever answers."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
