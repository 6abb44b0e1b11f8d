"""Waits that a service asks for."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.models.retry.hints import FAR_S, duration_s, retry_after_s

NOON = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
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
