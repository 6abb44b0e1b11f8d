"""From HTTP statuses and error bodies to the errors of this room."""

import re
from collections.abc import Iterable
from typing import TypeVar

from alhena.models.errors import (
    CredentialsError,
    ModelError,
    ModelNotFoundError,
    QuotaError,
    RequestRejectedError,
    ServerFaultError,
)
from alhena.wire.decode import decode_error
from alhena.wire.errors import DecodeError, SseError
from alhena.wire.status import ApiStatus
from alhena.wire.text import excerpt

E = TypeVar("E", SseError, DecodeError)

KEY_REMEDY = "Set GEMINI_API_KEY to a valid key (https://aistudio.google.com/apikey)."
MESSAGE_LIMIT = 500

_KEY_REASONS = frozenset({"API_KEY_INVALID", "API_KEY_EXPIRED", "API_KEY_SERVICE_BLOCKED"})
_CANONICAL = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


class Asked:
    """Whom was asked for what, as messages name it; `secrets` are kept out of them."""

    __slots__ = ("_secrets", "model", "place")

    def __init__(self, model: str, place: str, secrets: Iterable[str] = ()) -> None:
        self.model = model
        self.place = place
        self._secrets = tuple(sorted((s for s in secrets if s), key=len, reverse=True))

    def clean(self, text: str, limit: int = MESSAGE_LIMIT) -> str:
        """`text` on one line, at most `limit` characters, without the secrets."""
        for secret in self._secrets:
            # A short secret is replaced only where it stands alone: "x" is in every other word.
            edge = r"(?<![\w-])", r"(?![\w-])"
            pattern = re.escape(secret)
            text = re.sub(pattern if len(secret) >= 8 else pattern.join(edge), "[redacted]", text)
        return excerpt(text, limit)


def refusal(http_status: int, body: bytes, asked: Asked) -> ModelError:
    """The error for a response that is none of the 2xx."""
    api = decode_error(body)
    if api is None:
        text = excerpt(asked.clean(body.decode("utf-8", "replace"), 4000), 160)
        api = ApiStatus(code=http_status, message=text)
    return _error(http_status, api, asked)


def api_error(body: bytes, asked: Asked) -> ModelError | None:
    """The error that a body or stream event of a 2xx response holds, None when it holds none."""
    api = decode_error(body)
    if api is None:
        return None
    code = api.code if 400 <= api.code <= 599 else _CANONICAL.get(api.status, 500)
    return _error(code, api, asked)


def told(error: E, body: bytes, asked: Asked) -> ModelError | E:
    """What to raise for a body that could not be read: the API error it holds, else `error`
    without the secrets that a quotation in its message may hold."""
    return api_error(body, asked) or type(error)(asked.clean(error.message), remedy=error.remedy)


def _error(code: int, api: ApiStatus, asked: Asked) -> ModelError:
    said = asked.clean(api.message) or asked.clean(api.status) or "no reason given"
    said = f"HTTP {code}: {said}"
    if code in {401, 403} or (code == 400 and _names_key(api)):
        return CredentialsError(
            f"{asked.place} refused the credentials ({said})", remedy=KEY_REMEDY, status=code
        )
    if code == 404:
        return ModelNotFoundError(
            f"{asked.place} has no model {asked.clean(asked.model)!r} ({said})",
            remedy="Choose another with -m, and check GOOGLE_GEMINI_BASE_URL if it is set.",
            status=code,
        )
    if code == 429:
        return QuotaError(
            f"{asked.place} answers no more for now ({said})",
            remedy="Wait a while, or choose another model with -m.",
            status=code,
        )
    if code >= 500:
        return ServerFaultError(
            f"{asked.place} failed ({said})", remedy="Run again later.", status=code
        )
    if code < 400:
        return RequestRejectedError(
            f"{asked.place} sends requests elsewhere ({said})",
            remedy="Set GOOGLE_GEMINI_BASE_URL to the address it redirects to.",
            status=code,
        )
    return RequestRejectedError(f"{asked.place} rejected the request ({said})", status=code)


def _names_key(api: ApiStatus) -> bool:
    if _KEY_REASONS.intersection(api.reasons):
        return True
    message = api.message.lower()
    return "api key not valid" in message or "api key expired" in message
