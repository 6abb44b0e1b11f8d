"""When a service says it may be asked again, in seconds from now."""

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from alhena.wire.plain import as_object
from alhena.wire.status import ApiStatus

FAR_S = 366 * 86_400.0
"""What is later than a year from now is cut to that."""

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
_ONE_LENGTH = re.compile(_LENGTH, re.IGNORECASE)
_MILLISECONDS = re.compile(r"\d{1,15}(?:\.\d{1,15})?", re.ASCII)
_DIGITS = re.compile(r"[0-9]+")


def retry_hint(api: ApiStatus) -> float | None:
    """The wait that an error asks for: its RetryInfo, else what its message says."""
    for detail in details_of(api, "RetryInfo"):
        seconds = duration_s(detail.get("retryDelay"))
        if seconds is not None:
            return seconds
    said = _SAID.search(api.message)
    return _said_s(said[1]) if said is not None else None


def _said_s(length: str) -> float | None:
    """The seconds of "8s", "7m12.5s", "20 seconds"."""
    seconds = 0.0
    for found in _ONE_LENGTH.finditer(length):
        unit = next(name for name, said in zip(_UNITS, found.groups()[1:], strict=True) if said)
        seconds += float(found[1]) * _UNITS[unit]
    return _bounded(seconds)


def retry_after_s(header: str, date: str, now: float) -> float | None:
    """The wait that a Retry-After header asks for: seconds, or a date.

    A date is measured from the response's own `date` header, for clocks differ, and from `now`
    (seconds since the epoch) when there is none. None for what is neither, and for no header.
    """
    header = header.strip()
    if _DIGITS.fullmatch(header):
        return _bounded(float(header))
    until = _epoch_s(header)
    if until is None:
        return None
    since = _epoch_s(date)
    return _bounded(until - (now if since is None else since))


def retry_after_ms(header: str) -> float | None:
    """The wait, in seconds, that a header in milliseconds asks for; None for no number."""
    found = _MILLISECONDS.fullmatch(header.strip())
    return _bounded(float(found[0]) / 1000) if found else None


def longest(hints: Iterable[float | None]) -> float | None:
    """The longest of some waits; None when none is asked for."""
    return max((hint for hint in hints if hint is not None), default=None)


def duration_s(value: object) -> float | None:
    """A google.protobuf.Duration in seconds: "2.5s", or an object with seconds and nanos."""
    if isinstance(value, str):
        found = _DURATION.fullmatch(value)
        return _bounded(float(found[1])) if found else None
    fields = as_object(value)
    if fields is None or not fields.keys() & {"seconds", "nanos"}:
        return None
    seconds, nanos = _number(fields.get("seconds", 0)), _number(fields.get("nanos", 0))
    return None if seconds is None or nanos is None else _bounded(seconds + nanos / 1e9)


def details_of(api: ApiStatus, kind: str) -> Iterator[dict[str, Any]]:
    """The details of a type, such as "RetryInfo". Keys may have blanks around them, as some
    services write " @type"."""
    for detail in api.details:
        trimmed = {key.strip(): value for key, value in detail.items()}
        name = trimmed.get("@type")
        if isinstance(name, str) and name.rpartition(".")[2].strip() == kind:
            yield trimmed


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return float(value) if _DIGITS.fullmatch(value) else None
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


def _bounded(seconds: float) -> float | None:
    """`seconds` between none and a year; None for what is no number."""
    return None if math.isnan(seconds) else min(max(seconds, 0.0), FAR_S)


def _epoch_s(date: str) -> float | None:
    if not date.strip():
        return None
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError, TypeError):
        return None
