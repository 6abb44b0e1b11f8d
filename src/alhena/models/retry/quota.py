"""What a service's error says of quota, capacity and the account (WIRE-18)."""

import re

from alhena.models.errors import (
    CapacityError,
    DailyQuotaError,
    QuotaError,
    RateLimitError,
    SpentQuotaError,
    ValidationRequiredError,
    ZeroQuotaError,
)
from alhena.models.retry.hints import details_of
from alhena.models.retry.policy import LONGEST_WAIT_S
from alhena.wire.plain import as_array, as_object
from alhena.wire.status import ApiStatus

MINUTE_S = 60.0
"""The wait behind a limit per minute when the service names none."""

_QUOTA_CODES = frozenset({429, 499, 503})
_ZERO = re.compile(r"limit:\s*0(?!\d|\.\d)")
_DAILY = re.compile(r"per_?day|daily", re.IGNORECASE)
_PER_MINUTE = re.compile(r"per_?minute", re.IGNORECASE)
_CAPACITY = re.compile(
    r"no capacity|out of capacity|capacity (?:is )?(?:exhausted|exceeded)", re.IGNORECASE
)
_EXHAUSTED = re.compile(r"exhausted your capacity", re.IGNORECASE)
_NO_ROOM = frozenset({"MODEL_CAPACITY_EXHAUSTED", "MODEL_CAPACITY_EXCEEDED"})
_SPENT = frozenset({"QUOTA_EXHAUSTED", "INSUFFICIENT_G1_CREDITS_BALANCE"})
_SPENT_WORDS = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
"""What services of other dialects call a quota that no wait brings back."""
_CODE_ASSIST = re.compile(r"(?:staging-|autopush-)?cloudcode-pa\.googleapis\.com")
_URL = re.compile(r"https://[!-~]{1,2000}")
_HELP_HOST = "https://support.google.com/"


def quota_class(code: int, api: ApiStatus, hint: float | None) -> type[QuotaError] | None:
    """The error class for a status of 429, 499 or 503 that speaks of quota or capacity; None for
    one that does not. `hint` is the wait that the service asks for, in seconds."""
    if code not in _QUOTA_CODES:
        return None
    if _ZERO.search(api.message):
        return ZeroQuotaError
    told = _told(api, hint)
    if told is not None:
        return told
    if code == 429:
        return _throttled(api, hint)
    return CapacityError if code == 503 and _CAPACITY.search(api.message) else None


def minute_hint(kind: type[QuotaError] | None, hint: float | None) -> float | None:
    """`hint`, or a minute for a limit per minute without one."""
    return MINUTE_S if hint is None and kind is RateLimitError else hint


def validation(api: ApiStatus, message: str) -> ValidationRequiredError | None:
    """The error for an account that has to be verified first, None when that is not the matter.

    Links are given as they came; they are the service's, and none but https is taken.
    """
    info = next(
        (
            detail
            for detail in details_of(api, "ErrorInfo")
            if detail.get("reason") == "VALIDATION_REQUIRED" and _is_code_assist(detail)
        ),
        None,
    )
    if info is None:
        return None
    links = [
        link
        for detail in details_of(api, "Help")
        for each in as_array(detail.get("links")) or ()
        if (link := as_object(each)) is not None and _https(link.get("url")) is not None
    ]
    metadata = as_object(info.get("metadata")) or {}
    first = links[0] if links else {"url": metadata.get("validation_link")}
    link = _https(first.get("url"))
    remedy = f"Verify it at {link}, then run again." if link else "Verify it, then run again."
    error = ValidationRequiredError(message, remedy=remedy, status=403)
    error.link, description = link, first.get("description")
    error.description = description if isinstance(description, str) else None
    error.learn_more = next((_https(each.get("url")) for each in links if _explains(each)), None)
    return error


def _explains(link: dict[str, object]) -> bool:
    description = str(link.get("description", "")).strip().lower()
    return description == "learn more" or str(link.get("url")).startswith(_HELP_HOST)


def _told(api: ApiStatus, hint: float | None) -> type[QuotaError] | None:
    """What the details leave no doubt of."""
    if any(_DAILY.search(name) for name in _quota_ids(api)):
        return DailyQuotaError
    reasons = {reason.strip() for reason in api.reasons}
    if reasons & _NO_ROOM:
        return CapacityError
    if reasons & _SPENT or _SPENT_WORDS.intersection(api.words):
        return SpentQuotaError
    if hint is None and any(
        info.get("reason") == "RATE_LIMIT_EXCEEDED" and _is_code_assist(info)
        for info in details_of(api, "ErrorInfo")
    ):
        return SpentQuotaError  # Code Assist says when to come back, where coming back helps
    return None


def _throttled(api: ApiStatus, hint: float | None) -> type[QuotaError]:
    """A 429 that a wait may help, if it is not too long."""
    if hint is not None and hint > LONGEST_WAIT_S:
        return SpentQuotaError
    per_minute = any(_PER_MINUTE.search(name) for name in _quota_ids(api))
    if per_minute or "RATE_LIMIT_EXCEEDED" in api.reasons:
        return RateLimitError
    if hint is None and _EXHAUSTED.search(api.message):
        return SpentQuotaError  # as the reference reads it
    if _CAPACITY.search(api.message):
        return CapacityError
    return RateLimitError if hint is not None else QuotaError


def _quota_ids(api: ApiStatus) -> list[str]:
    """The names of the limits that were passed."""
    names: list[object] = [
        violation.get("quotaId")
        for detail in details_of(api, "QuotaFailure")
        for each in as_array(detail.get("violations")) or ()
        if (violation := as_object(each)) is not None
    ]
    names.extend(
        (as_object(info.get("metadata")) or {}).get("quota_limit")
        for info in details_of(api, "ErrorInfo")
    )
    return [name for name in names if isinstance(name, str)]


def _is_code_assist(info: dict[str, object]) -> bool:
    domain = info.get("domain")
    return isinstance(domain, str) and _CODE_ASSIST.fullmatch(domain.strip()) is not None


def _https(url: object) -> str | None:
    if not isinstance(url, str) or not _URL.fullmatch(url):
        return None
    return url
