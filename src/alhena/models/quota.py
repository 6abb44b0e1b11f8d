"""Classifies quota errors (WIRE-18), reads their retry times, and explains project errors."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

from alhena.models.errors import (
    CapacityError,
    DailyQuotaError,
    QuotaError,
    RateLimitError,
    SpentQuotaError,
    ValidationRequiredError,
    ZeroQuotaError,
)
from alhena.models.retry import LONGEST_WAIT_S
from alhena.wire.errors import ApiStatus
from alhena.wire.json_values import as_array, as_object

FAR_S = 366 * 86_400.0
"""Upper limit of a retry time: a year."""

_DURATION = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*s\s*")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_LENGTH = (
    r"(\d{1,12}(?:\.\d{1,12})?)\s?"
    r"(?:(ms|milliseconds?)|(s|secs?|seconds?)|(m|mins?|minutes?)|(h|hours?)|(d|days?))(?![a-z])"
)
_SAID = re.compile(
    rf"(?:retry|try again) (?:in|after)\s+({_LENGTH}(?:,?\s?{_LENGTH}){{0,4}})",
    re.IGNORECASE,
)
_LENGTHS = re.compile(rf"(?:{_LENGTH}){{1,5}}", re.IGNORECASE)
_LIMITED = ("requests", "tokens", "input-tokens", "output-tokens")
_ONE_LENGTH = re.compile(_LENGTH, re.IGNORECASE)
_MILLISECONDS = re.compile(r"\d{1,15}(?:\.\d{1,15})?", re.ASCII)
_DIGITS = re.compile(r"[0-9]+")


def retry_hint(api: ApiStatus) -> float | None:
    """The wait an error asks for: its RetryInfo, else the reset of the quota in its ErrorInfo, else
    the time in its message."""
    for detail in details_of(api, "RetryInfo"):
        seconds = duration_s(detail.get("retryDelay"))
        if seconds is not None:
            return seconds
    for detail in details_of(api, "ErrorInfo"):
        metadata = as_object(detail.get("metadata")) or {}
        for key in ("quotaResetDelay", "quotaResetTimeStamp"):
            seconds = _until_reset(metadata.get(key))
            if seconds is not None:
                return seconds
    said = _SAID.search(api.message)
    return _said_s(said[1]) if said is not None else None


def _until_reset(given: object) -> float | None:
    """The seconds of "1h16m0.5s" or "373.8ms", or until an ISO date; None for anything else."""
    if not isinstance(given, str):
        return None
    from time import time

    return _reset_s(given, time())


def _said_s(length: str) -> float | None:
    """Parses "8s", "7m12.5s" or "20 seconds" to seconds."""
    seconds = 0.0
    for found in _ONE_LENGTH.finditer(length):
        unit = next(name for name, said in zip(_UNITS, found.groups()[1:], strict=True) if said)
        seconds += float(found[1]) * _UNITS[unit]
    return _limit_wait(seconds)


def retry_after_s(header: str, date: str, now: float) -> float | None:
    """The wait of a Retry-After header: seconds, or a date.

    A date is relative to the response's own `date` header, because clocks differ, or to `now`
    (seconds since the epoch) without one. None for an invalid or missing header.
    """
    header = header.strip()
    if _DIGITS.fullmatch(header):
        return _limit_wait(float(header))
    until = _epoch_s(header)
    if until is None:
        return None
    since = _epoch_s(date)
    return _limit_wait(until - (now if since is None else since))


def retry_after_ms(header: str) -> float | None:
    """The wait in seconds of a header in milliseconds; None if invalid."""
    found = _MILLISECONDS.fullmatch(header.strip())
    return _limit_wait(float(found[0]) / 1000) if found else None


def renewal_s(header: Callable[[str], str], now: float) -> float | None:
    """The wait until limits are renewed of which headers say that nothing is left, such as
    `x-ratelimit-remaining-requests: 0` with `x-ratelimit-reset-requests: 6m0s`; None without any.

    A renewal is a length of time, seconds, or a date as Anthropic's services or a UNIX time has it.
    `now` is in seconds since the epoch.
    """
    names = [("x-ratelimit-remaining", "x-ratelimit-reset")]
    names += [(f"x-ratelimit-remaining-{kind}", f"x-ratelimit-reset-{kind}") for kind in _LIMITED]
    names += [
        (f"anthropic-ratelimit-{kind}-remaining", f"anthropic-ratelimit-{kind}-reset")
        for kind in _LIMITED
    ]
    used_up = [reset for remaining, reset in names if header(remaining).strip() == "0"]
    since = _epoch_s(header("date"))
    return longest(_reset_s(header(name), now if since is None else since) for name in used_up)


def _reset_s(text: str, now: float) -> float | None:
    """Parses "6m0s", "12.5", "1798761600" or "2027-01-01T00:00:00Z" to seconds from now."""
    text = text.strip()
    if _MILLISECONDS.fullmatch(text):
        seconds = float(text)
        return _limit_wait(seconds - now if seconds > FAR_S else seconds)
    if _LENGTHS.fullmatch(text):
        return _said_s(text)
    try:
        return _limit_wait(datetime.fromisoformat(text).timestamp() - now)
    except ValueError:
        return None


def longest(hints: Iterable[float | None]) -> float | None:
    """The longest of several waits; None without any."""
    return max((hint for hint in hints if hint is not None), default=None)


def duration_s(value: object) -> float | None:
    """Converts a google.protobuf.Duration to seconds: "2.5s", or an object with seconds and
    nanos."""
    if isinstance(value, str):
        found = _DURATION.fullmatch(value)
        return _limit_wait(float(found[1])) if found else None
    fields = as_object(value)
    if fields is None or not fields.keys() & {"seconds", "nanos"}:
        return None
    seconds, nanos = _number(fields.get("seconds", 0)), _number(fields.get("nanos", 0))
    return None if seconds is None or nanos is None else _limit_wait(seconds + nanos / 1e9)


def details_of(api: ApiStatus, kind: str) -> Iterator[dict[str, Any]]:
    """The details of a type, such as "RetryInfo". Keys are stripped, because some services write "
    @type"."""
    for detail in api.details:
        trimmed = {key.strip(): value for key, value in detail.items()}
        name = trimmed.get("@type")
        if isinstance(name, str) and name.rpartition(".")[2].strip() == kind:
            yield trimmed


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return float(value) if _DIGITS.fullmatch(value) else None
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


def _limit_wait(seconds: float) -> float | None:
    """Limits `seconds` to a year; None for an invalid number."""
    return None if math.isnan(seconds) else min(max(seconds, 0.0), FAR_S)


def _epoch_s(date: str) -> float | None:
    if not date.strip():
        return None
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError, TypeError):
        return None


MINUTE_S = 60.0
"""Default wait after a per-minute limit."""

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
"""Error codes of other dialects for an exhausted quota that waiting does not restore."""
_CODE_ASSIST = re.compile(r"(?:staging-|autopush-)?cloudcode-pa\.googleapis\.com")
_URL = re.compile(r"https://[!-~]{1,2000}")
_HELP_HOST = "https://support.google.com/"


def quota_class(code: int, api: ApiStatus, hint: float | None) -> type[QuotaError] | None:
    """The error class for a status 429, 499 or 503 about quota or capacity; None for other errors.
    `hint` is the requested wait in seconds."""
    if code not in _QUOTA_CODES:
        return None
    if _ZERO.search(api.message):
        return ZeroQuotaError
    told = _classify_details(api, hint)
    if told is not None:
        return told
    if code == 429:
        return _classify_throttling(api, hint)
    return CapacityError if code == 503 and _CAPACITY.search(api.message) else None


def minute_hint(kind: type[QuotaError] | None, hint: float | None) -> float | None:
    """`hint`, or a minute for a per-minute limit without one."""
    return MINUTE_S if hint is None and kind is RateLimitError else hint


def validation(api: ApiStatus, message: str) -> ValidationRequiredError | None:
    """The error for an account that has to be verified first, None for other errors.

    Links come unchanged from the service; only https is accepted.
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


def _classify_details(api: ApiStatus, hint: float | None) -> type[QuotaError] | None:
    """The class that is certain from the details; None otherwise."""
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
        return SpentQuotaError  # Code Assist names a retry time if a retry helps
    return None


def _classify_throttling(api: ApiStatus, hint: float | None) -> type[QuotaError]:
    """A 429 that a retry may fix, if the wait is not too long."""
    if hint is not None and hint > LONGEST_WAIT_S:
        return SpentQuotaError
    per_minute = any(_PER_MINUTE.search(name) for name in _quota_ids(api))
    if per_minute or "RATE_LIMIT_EXCEEDED" in api.reasons:
        return RateLimitError
    if hint is None and _EXHAUSTED.search(api.message):
        return SpentQuotaError  # like the reference
    if _CAPACITY.search(api.message):
        return CapacityError
    return RateLimitError if hint is not None else QuotaError


def _quota_ids(api: ApiStatus) -> list[str]:
    """The names of the exceeded limits."""
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


SHARED = (
    "GOOGLE_CLOUD_PROJECT is not set, so that the requests count to a project that Code Assist "
    "shares among many users: set it to a project of your own, or use a key of your own "
    "(GEMINI_API_KEY)."
)
"""The remedy for a quota error without a project of the user's."""

_CLIENTS = frozenset({"764086051850", "32555940559"})
"""The projects of gcloud's sign-in. No service can be enabled in them."""

_ADDRESS = re.compile(r"https://[!-~]{1,2000}")
_NO_OWN = (
    "The requests count to a project of gcloud's, for which no service can be enabled: set "
    "GOOGLE_CLOUD_QUOTA_PROJECT to a project of your own, or let the credentials name it "
    "(gcloud auth application-default set-quota-project PROJECT)."
)


def project_remedy(api: ApiStatus, clean: Callable[[str], str]) -> str | None:
    """The remedy for a project error; None for other errors. `clean` sanitizes names from the
    service."""

    for info in details_of(api, "ErrorInfo"):
        metadata = as_object(info.get("metadata")) or {}
        project = _text(metadata.get("consumer")).removeprefix("projects/")
        service = clean(_text(metadata.get("service"))) or "the API"
        named = f"the project {clean(project)}" if project else "the project"
        match info.get("reason"):
            case "SERVICE_DISABLED" if project in _CLIENTS:
                return _NO_OWN
            case "SERVICE_DISABLED":
                link = _text(metadata.get("activationUrl"))
                place = f" ({link})" if _ADDRESS.fullmatch(link) else ""
                return (
                    f"Enable {service} in {named}{place} and run again some minutes later, or use "
                    "credentials of another project."
                )
            case "USER_PROJECT_DENIED":
                return (
                    f"Ask for the role roles/serviceusage.serviceUsageConsumer in {named}, or set "
                    "GOOGLE_CLOUD_QUOTA_PROJECT to a project that you may use."
                )
            case "BILLING_DISABLED":
                return f"Set up billing for {named}, or use credentials of another project."
            case "CONSUMER_INVALID" | "RESOURCE_PROJECT_INVALID":
                return (
                    f"There is no usable project named {clean(project) or '(no name)'}:"
                    " correct GOOGLE_CLOUD_PROJECT, and GOOGLE_CLOUD_QUOTA_PROJECT if it is set."
                )
            case _:
                continue
    return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
