"""An answer that came but cannot be used."""

from alhena.errors import AlhenaError


class InvalidResponseError(AlhenaError):
    """The model's answer is empty, blocked or malformed. `reason` is a stable word for it."""

    kind = "invalid_response"

    def __init__(self, reason: str, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason
