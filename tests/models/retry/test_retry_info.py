"""Waits that a service asks for."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.models.quota import (
    FAR_S,
    duration_s,
    renewal_s,
    retry_after_ms,
    retry_after_s,
    retry_hint,
)
from alhena.wire.errors import ApiStatus
from tests.support.each import for_each

NOON = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@for_each(
    ("header", "date", "seconds"),
    [
        ("120", "", 120),
        (" 0 ", "", 0),
        ("Tue, 14 Nov 2023 22:14:20 GMT", "", 60),
        ("Tue, 14 Nov 2023 22:14:20 GMT", "Tue, 14 Nov 2023 22:14:10 GMT", 10),
        ("Tue, 14 Nov 2023 22:00:00 GMT", "", 0),
        ("Tue, 14 Nov 2023 22:14:20 GMT", "no date", 60),
        ("9" * 400, "", FAR_S),
        ("", "", None),
        ("soon", "", None),
        ("-5", "", None),
        ("1.5", "", None),
        ("²", "", None),
        ("Tue, 99 Nov 2023 22:14:20 GMT", "", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, date: str, seconds: float | None):
    assert retry_after_s(header, date, NOON) == seconds


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("2500", 2.5), (" 1.5 ", 0.0015), ("", None), ("2s", None), ("-1", None), ("9" * 15, FAR_S)],
)
def test_a_wait_may_be_told_in_milliseconds(header: str, seconds: float | None):
    assert retry_after_ms(header) == seconds


@for_each(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0.5s"}, 360.5),
        ({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "6m0s"}, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "12"}, 12),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": f"{NOON + 9:.0f}"}, 9),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, None),
        ({"x-ratelimit-remaining": "0"}, None),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2023-11-14T22:13:30Z",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2023-11-14T22:14:20Z",
            },
            60,
        ),
    ],
)
def test_a_limit_that_is_used_up_says_when_it_is_renewed(
    headers: dict[str, str], seconds: float | None
):
    found = renewal_s(lambda name: headers.get(name, ""), NOON)
    assert found == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.requirement("WIRE-18")
@for_each(
    ("message", "seconds"),
    [
        ("Rate limit reached (TPM): Limit 30000. Please try again in 8s.", 8),
        ("on requests per day (RPD): Limit 200. Please try again in 7m12s.", 432),
        ("Please try again in 1h2m3.5s. Visit …", 3723.5),
        ("Please try again in 2d1h", 176_400),
        ("Please try again in 120ms.", 0.12),
        ("Please retry after 7 seconds.", 7),
        ("Please retry in 2.5s.", 2.5),
        ("please retry in 300ms", 0.3),
        ("Try again in 1 minute, 30 seconds", 90),
        ("Please try again in 20 s", 20),
        ("Please try again in 5 mins", 300),
        ("try again in 99999999999d", FAR_S),
        ("Please try again in a while.", None),
        ("try again in 5 months", None),
        ("try again in 5", None),
        ("try again in 1.2.3s", None),
        ("take 8s", None),
    ],
)
def test_a_wait_is_read_in_the_words_of_a_service(message: str, seconds: float | None):
    assert retry_hint(ApiStatus(message=message)) == pytest.approx(seconds)


@given(st.text(st.sampled_from("0123456789.msh dtry again in"), max_size=200))
def test_any_message_gives_a_wait_or_none(message: str):
    seconds = retry_hint(ApiStatus(message=f"try again in {message}"))
    assert seconds is None or 0 <= seconds <= FAR_S


@for_each(
    ("value", "seconds"),
    [
        ("2.5s", 2.5),
        ("0s", 0),
        (".5s", 0.5),
        (" 3s ", 3),
        ("1e3s", None),
        ("-1s", None),
        ("3m", None),
        ("", None),
        ({"seconds": 3}, 3),
        ({"seconds": "3", "nanos": 250_000_000}, 3.25),
        ({"seconds": -3}, 0),
        ({"seconds": math.nan}, None),
        ({"seconds": True}, None),
        ({"other": 1}, None),
        (7, None),
        (None, None),
    ],
)
def test_durations_are_read_in_both_forms(value: Any, seconds: float | None):
    assert duration_s(value) == seconds


@given(st.text(max_size=40), st.text(max_size=40), st.floats(0, 4e9))
def test_any_header_gives_a_wait_or_none(header: str, date: str, now: float):
    seconds = retry_after_s(header, date, now)
    assert seconds is None or 0 <= seconds <= FAR_S
