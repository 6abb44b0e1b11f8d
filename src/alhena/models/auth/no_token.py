"""What it means that somebody who gives out tokens gives none."""

from alhena.models.errors import CredentialsError, ModelError, ServerFaultError
from alhena.models.status import Asked
from alhena.wire.decode import decode_error


def no_token(status: int, answer: bytes, asked: Asked, what: str) -> ModelError:
    """The error of a token that is not given. What is missing here is no model, and no quota of
    one, so the words for those (`status.refusal`) do not fit."""
    api = decode_error(answer)
    said = f"HTTP {status}" + (f": {asked.clean(api.message)}" if api is not None else "")
    message = f"{asked.place} gives no {what} ({said})."
    if status == 429 or status >= 500:
        return ServerFaultError(message, remedy="Run again.", status=status)
    return CredentialsError(message, remedy=asked.remedy, status=status)
