"""Number and length of waits."""

import errno
import socket
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.config.settings import GeneralSettings
from alhena.errors import AlhenaError, NetworkError, ServerFaultError, StreamCutError
from alhena.http import MalformedResponseError
from alhena.models.errors import CapacityError, QuotaError, RecordingError
from alhena.models.retry import RetryBudget, RetryClass, RetryPolicy, manner_of, retry_policy
from alhena.wire.errors import DecodeError, EncodeError, SseError
from tests.support.each import for_each


def waits(error: AlhenaError, policy: RetryPolicy | None = None, chance: float = 0) -> list[float]:
    patience = RetryBudget(policy or RetryPolicy(), lambda: chance)
    found: list[float] = []
    while (wait := patience.after(error)) is not None:
        found.append(wait)
    assert patience.attempts == len(found) + 1
    return found


@pytest.mark.requirement("WIRE-18")
def test_waits_double_from_five_seconds_to_thirty_within_ten_attempts():
    error = ServerFaultError("x", status=503)
    assert waits(error) == [5, 10, 20, 30, 30, 30, 30, 30, 30]
    assert error.attempts == 10
    assert str(error) == "x (Tried 10 times.)"
    assert waits(error, RetryPolicy(max_attempts=3)) == [5, 10]


def test_chance_only_ever_lengthens_a_wait():
    assert waits(ServerFaultError("x", status=500), RetryPolicy(max_attempts=3), 1) == [6, 12]


@pytest.mark.requirement("WIRE-18")
def test_no_wait_is_shorter_than_what_the_service_asks_for():
    error = QuotaError("x", status=429, retry_after_s=17)
    assert waits(error, RetryPolicy(max_attempts=5)) == [17, 17, 20, 30]
    error = QuotaError("x", status=429, retry_after_s=60)
    assert waits(error) == [60, 60, 60, 60, 60], "five minutes in all"


def test_a_broken_answer_is_asked_for_four_times():
    assert waits(StreamCutError("x")) == [1, 2, 4]
    assert waits(StreamCutError("x"), RetryPolicy(max_attempts=2)) == [1]


def test_a_model_without_room_is_asked_again_soon_then_with_backoff():
    error = CapacityError("x", status=429)
    patience = RetryBudget(RetryPolicy(), lambda: 0)
    assert [patience.after(error) for _ in range(2)] == [1, 3]
    assert patience.capacity_spent
    assert [patience.after(error) for _ in range(2)] == [5, 10]


def test_settings_say_how_often_and_never_less_than_once():
    assert retry_policy(GeneralSettings()).max_attempts == 10
    assert retry_policy(GeneralSettings(max_attempts=-4)).max_attempts == 1
    assert not retry_policy(GeneralSettings(retry_fetch_errors=False)).retry_fetch_errors


errors = st.sampled_from(
    [
        ServerFaultError("x", status=503),
        QuotaError("x", status=429, retry_after_s=7),
        QuotaError("x", status=429, retry_after_s=40),
        CapacityError("x", status=429),
        StreamCutError("x"),
        SseError("x"),
        NetworkError("x"),
    ]
)
policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 20),
    max_wait_s=st.floats(0, 400),
    jitter=st.floats(0, 1),
)


@given(policies, st.lists(errors, min_size=40, max_size=40), st.lists(st.floats(0, 1), min_size=1))
def test_every_order_of_failures_ends_within_both_limits(
    policy: RetryPolicy, failures: list[AlhenaError], chances: list[float]
):
    turn = 0

    def chance() -> float:
        nonlocal turn
        turn += 1
        return chances[turn % len(chances)]

    patience = RetryBudget(policy, chance)
    total, attempts = 0.0, 1
    for error in failures:
        wait = patience.after(error)
        if wait is None:
            break
        hint = getattr(error, "retry_after_s", None) or 0
        assert wait >= hint
        total, attempts = total + wait, attempts + 1
    assert total <= policy.max_wait_s * (1 + 1e-12)  # a sum of floats is rounded
    assert attempts <= policy.max_attempts


def network(*causes: BaseException) -> NetworkError:
    """A network error with causes, nearest first."""
    error = NetworkError("x")
    below: BaseException = error
    for cause in causes:
        below.__cause__ = cause
        below = cause
    return error


def tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "x")
    error.reason = reason
    return error


CUT = ConnectionResetError(errno.ECONNRESET, "reset")


@for_each(
    ("error", "always", "with_fetch_errors"),
    [
        (network(CUT), RetryClass.BACKOFF, RetryClass.BACKOFF),
        (network(ValueError(), KeyError(), CUT), RetryClass.BACKOFF, RetryClass.BACKOFF),
        (network(*(ValueError() for _ in range(5)), CUT), RetryClass.NEVER, RetryClass.BACKOFF),
        (network(ConnectionRefusedError()), RetryClass.BACKOFF, RetryClass.BACKOFF),
        (network(BrokenPipeError()), RetryClass.BACKOFF, RetryClass.BACKOFF),
        (network(socket.gaierror(socket.EAI_AGAIN, "x")), RetryClass.BACKOFF, RetryClass.BACKOFF),
        (network(OSError(errno.ETIMEDOUT, "x")), RetryClass.BACKOFF, RetryClass.BACKOFF),
        (network(OSError(errno.EPROTO, "x")), RetryClass.BACKOFF, RetryClass.BACKOFF),
        (network(OSError(errno.EACCES, "x")), RetryClass.NEVER, RetryClass.BACKOFF),
        (network(TimeoutError()), RetryClass.BROKEN, RetryClass.BROKEN),
        (network(tls("WRONG_VERSION_NUMBER")), RetryClass.BACKOFF, RetryClass.BACKOFF),
        (network(tls("SSLV3_ALERT_BAD_RECORD_MAC")), RetryClass.BACKOFF, RetryClass.BACKOFF),
        (network(tls("HANDSHAKE_FAILURE")), RetryClass.NEVER, RetryClass.BACKOFF),
        (network(ssl.SSLCertVerificationError(1, "x")), RetryClass.NEVER, RetryClass.NEVER),
        (
            network(ValueError(), ssl.SSLCertVerificationError(1, "x")),
            RetryClass.NEVER,
            RetryClass.NEVER,
        ),
        (network(MalformedResponseError("x")), RetryClass.BROKEN, RetryClass.BROKEN),
        (network(ValueError()), RetryClass.NEVER, RetryClass.BACKOFF),
        (network(), RetryClass.BACKOFF, RetryClass.BACKOFF),
    ],
)
def test_a_network_error_is_judged_by_what_caused_it(
    error: NetworkError, always: RetryClass, with_fetch_errors: RetryClass
):
    assert manner_of(error, fetch_errors=False) is always
    assert manner_of(error, fetch_errors=True) is with_fetch_errors


def test_a_proxy_that_refuses_and_what_is_our_own_fault_are_not_tried_again():
    assert manner_of(NetworkError("x", status=407)) is RetryClass.NEVER
    assert manner_of(EncodeError("x")) is RetryClass.NEVER
    assert manner_of(RecordingError("x")) is RetryClass.NEVER
    assert manner_of(AlhenaError("x")) is RetryClass.NEVER
    assert manner_of(DecodeError("x")) is RetryClass.BROKEN
    assert manner_of(ServerFaultError("encoded as nobody asked")) is RetryClass.BROKEN


@pytest.mark.requirement("WIRE-18")
def test_chance_never_makes_a_wait_too_long_that_the_service_asked_for():
    error = QuotaError("x", status=429, retry_after_s=280)
    assert waits(error, chance=1) == [300]


def test_a_wait_that_is_too_long_is_named_when_it_ends_a_run():
    error = QuotaError("x", status=429, retry_after_s=290)
    assert waits(error) == [290]
    assert str(error) == "x (The service asks for a wait of 290 s.) (Tried 2 times.)"
    spent = QuotaError("x", status=429, retry_after_s=3)
    waits(spent)
    assert "asks for" not in str(spent)


def test_a_broken_answer_says_how_many_attempts_are_left_for_its_kind():
    patience = RetryBudget(RetryPolicy(), lambda: 0)
    limits: list[int] = []
    for error in (ServerFaultError("x", status=503), StreamCutError("x"), StreamCutError("x")):
        patience.after(error)
        limits.append(patience.limit)
    assert limits == [10, 5, 5]
