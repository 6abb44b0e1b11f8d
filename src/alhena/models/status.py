"""Converts HTTP statuses and error bodies to errors of this room."""

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from alhena.errors import ModelError, ServerFaultError
from alhena.models.errors import (
    KEY_REMEDY,
    CapacityError,
    CredentialsError,
    DailyQuotaError,
    MediaRefusedError,
    ModelNotFoundError,
    QuotaError,
    RateLimitError,
    RequestDetails,
    RequestRejectedError,
    SignatureError,
    SpentQuotaError,
    ZeroQuotaError,
)
from alhena.near_names import near_name
from alhena.wire.encode import decode_error
from alhena.wire.errors import ApiStatus, DecodeError, SseError
from alhena.wire.json_values import as_array, as_object, excerpt

E = TypeVar("E", SseError, DecodeError)

DETAIL_LIMIT = 2000
DETAIL_DEPTH = 16

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
_TYPES = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "invalid_image": 400,
    "invalid_image_format": 400,
    "invalid_image_url": 400,
    "invalid_base64_image": 400,
    "image_too_large": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Statuses for errors of other dialects that arrive with status 200."""

_NOT_SERVED = re.compile(
    r"no longer available|not available to new|has been (?:retired|shut down)", re.IGNORECASE
)
_TOO_LONG = frozenset({"exceed_context_size_error", "context_length_exceeded"})
"""Names of errors for a conversation that is too long, told because their messages differ."""
_SIGNATURE = re.compile(
    r"signature|invalid_encrypted_content|of type 'reasoning'|redacted_thinking"
    r"|cannot (?:be|contain) `thinking`",
    re.IGNORECASE,
)
_MEDIA = re.compile(
    r"\b(?:images?|pdfs?|documents?|audio|video|media|mime[ _]?types?|inline_?data|multimodal"
    r"|vision|payload size|request_too_large)\b|invalid_(?:image|base64)|image_too_large",
    re.IGNORECASE,
)
_WAIT = "Wait a while, or choose another model with -m."
_QUOTA_WORDS: dict[type[QuotaError], tuple[str, str]] = {
    QuotaError: ("Quota for {model} exceeded ({said})", _WAIT),
    RateLimitError: ("Rate limit of {model} reached (per minute{said})", _WAIT),
    CapacityError: ("{model} is overloaded ({said})", _WAIT),
    SpentQuotaError: (
        "Quota for {model} used up ({said})",
        "Choose another model with -m, or raise the quota.",
    ),
    DailyQuotaError: (
        "Daily quota for {model} used up ({said})",
        "Try again tomorrow, or choose another model with -m.",
    ),
    ZeroQuotaError: (
        "The account has no quota for {model} ({said})",
        "Choose another model with -m, or set up billing.",
    ),
}
"""Message and remedy by error class."""


def refusal(
    http_status: int, body: bytes, asked: RequestDetails, *, retry_after_s: float | None = None
) -> ModelError:
    """The error for a response that is not 2xx. `retry_after_s` is the wait of its Retry-After
    header."""
    api = decode_error(body)
    if api is None:
        text = excerpt(asked.clean(body.decode("utf-8", "replace"), 4000), 160)
        api = ApiStatus(code=http_status, message=text)
    return _error(http_status, api, asked, retry_after_s)


def api_error(body: bytes, asked: RequestDetails) -> ModelError | None:
    """The error in a body or stream event of a 2xx response, None without one."""
    api = decode_error(body)
    if api is None:
        return None
    if 400 <= api.code <= 599:
        return _error(api.code, api, asked)
    word = next((word for word in api.words if word in _TYPES), "")
    code = _TYPES.get(word) or _CANONICAL.get(api.status, 500)
    return _error(code, api, asked, label=word)


def explain_body(error: E, body: bytes, asked: RequestDetails) -> ModelError | E:
    """The error for an unreadable body: its API error, else `error` with secrets redacted from
    quotations."""
    return api_error(body, asked) or type(error)(asked.clean(error.message), remedy=error.remedy)


def _error(
    code: int,
    api: ApiStatus,
    asked: RequestDetails,
    retry_after_s: float | None = None,
    *,
    label: str = "",
) -> ModelError:
    """The error for a status. `label`: the service's name of the error if that was not a status."""
    from alhena.models.quota import longest, minute_hint, quota_class, retry_hint
    from alhena.models.retry import LONGEST_WAIT_S

    said = asked.clean(api.message) or asked.clean(api.status) or "no reason given"
    said = f"{label or f'HTTP {code}'}: {said.removesuffix('.')}"
    said += "".join(f" ({word})" for word in api.words if word in _TOO_LONG and word not in said)
    hint = longest((retry_after_s, retry_hint(api)))
    kind = quota_class(code, api, hint)
    if kind is not None:
        what, remedy = _QUOTA_WORDS[kind]
        if kind is SpentQuotaError and hint is not None and hint > LONGEST_WAIT_S:
            remedy = f"It asks for a wait of {hint:.0f} s. {remedy}"
        if asked.quota_tip and kind is not CapacityError:  # capacity does not depend on projects
            remedy = f"{remedy} {asked.quota_tip}"
        model = asked.clean(asked.model)
        gap = ", " if "minute{" in what else ""
        error = kind(
            f"{what.format(model=model, said=gap + _with_place(said, asked))}.", remedy=remedy
        )
        error.status = code
        hint = minute_hint(kind, hint)
    else:
        error = _by_code(code, api, asked, said)
    error.details = tuple(_redact_detail(detail, asked) for detail in api.details)
    error.retry_after_s = hint
    return error


def _with_place(said: str, asked: RequestDetails) -> str:
    """The service's words, with its address at the end where that is not the usual one."""
    return said if asked.usual else f"{said.rstrip('.')}, {asked.place}"


def _redact_detail(value: object, asked: RequestDetails, depth: int = 0) -> Any:
    """Redacts secrets in an error detail, to a limited depth."""
    if isinstance(value, str):
        return asked.clean(value, DETAIL_LIMIT)
    fields, array = as_object(value), as_array(value)
    if fields is None and array is None:
        return value
    if depth >= DETAIL_DEPTH:
        return None
    if fields is not None:
        return {asked.clean(k): _redact_detail(v, asked, depth + 1) for k, v in fields.items()}
    return [_redact_detail(item, asked, depth + 1) for item in array or ()]


def _by_code(code: int, api: ApiStatus, asked: RequestDetails, said: str) -> ModelError:
    said, model = _with_place(said, asked), asked.clean(asked.model)
    if code == 403 and _NOT_SERVED.search(api.message):
        return ModelNotFoundError(
            f"Model {model} is not offered ({said}).",
            remedy="Choose another model with -m.",
            status=code,
        )
    if code in {401, 403} or (code == 400 and _names_key(api)):
        return _not_let_in(code, api, asked, said)
    if code == 404:
        return ModelNotFoundError(
            f"Model {model} not found ({said}).",
            remedy=f"Choose another with -m, and check {asked.source} if it is set.",
            status=code,
        )
    if code >= 500:
        return ServerFaultError(
            f"{_describe_fault(code, model)} ({said}).", remedy="Run again later.", status=code
        )
    if code < 400:
        return RequestRejectedError(
            f"The service sends requests elsewhere ({said}).",
            remedy=f"Set {asked.source} to the address it redirects to.",
            status=code,
        )
    if code == 400 and _SIGNATURE.search(" ".join((api.message, *api.words))):
        return SignatureError(
            f"The service rejected the thought signatures of the conversation ({said}).",
            remedy="Begin a new session, or choose another model with -m.",
            status=code,
        )
    if code in {400, 413} and _MEDIA.search(" ".join((api.message, *api.words))):
        return MediaRefusedError(f"The service rejected the request ({said}).", status=code)
    return RequestRejectedError(f"The service rejected the request ({said}).", status=code)


def _describe_fault(code: int, model: str) -> str:
    return f"{model} is overloaded" if code in (503, 529) else "The service failed"


def near_model(model: str, listed: Iterable[str] = ()) -> str | None:
    """The model of a similar name among those that are known or `listed`."""
    from alhena.models.catalogue import served_models, today

    names = [*listed, *(each.name for each in served_models(today()))]
    return near_name(model, names)


def _not_let_in(code: int, api: ApiStatus, asked: RequestDetails, said: str) -> CredentialsError:
    from alhena.models.quota import validation

    if code == 403:
        error = validation(api, f"The service wants the account to be verified first ({said}).")
        if error is not None:
            return error
        from alhena.models.quota import project_remedy

        remedy = project_remedy(api, lambda text: asked.clean(text, 100))
        if remedy is not None:
            return CredentialsError(
                f"The service refused the request ({said}).", remedy=remedy, status=code
            )
    what = "API key" if asked.remedy == KEY_REMEDY else "Credentials"
    return CredentialsError(f"{what} refused ({said}).", remedy=asked.remedy, status=code)


def _names_key(api: ApiStatus) -> bool:
    if _KEY_REASONS.intersection(api.reasons):
        return True
    message = api.message.lower()
    return "api key not valid" in message or "api key expired" in message
