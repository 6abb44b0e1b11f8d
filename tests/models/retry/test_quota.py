"""WIRE-18: what is made of a service's error."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.errors import ModelError, ServerFaultError
from alhena.models.errors import (
    CapacityError,
    CredentialsError,
    DailyQuotaError,
    ModelNotFoundError,
    QuotaError,
    RateLimitError,
    RequestDetails,
    RequestRejectedError,
    SpentQuotaError,
    ValidationRequiredError,
    ZeroQuotaError,
)
from alhena.models.retry import RetryClass, manner_of
from alhena.models.status import api_error, refusal
from tests.support.each import for_each

ASKED = RequestDetails("gemini-2.5-pro", "https://api.example", ("s3cret-key",))
CODE_ASSIST = "cloudcode-pa.googleapis.com"
Detail = dict[str, Any]


def body(message: str = "no", *details: Detail, code: int = 429, status: str = "") -> bytes:
    error = {"code": code, "message": message, "status": status, "details": details}
    return json.dumps({"error": error}).encode()


def retry_info(delay: Any) -> Detail:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def quota(name: str) -> Detail:
    kind = "type.googleapis.com/google.rpc.QuotaFailure"
    return {"@type": kind, "violations": [{"quotaMetric": "m", "quotaId": name}]}


def info(reason: str, domain: str = "googleapis.com", **metadata: str) -> Detail:
    kind = "type.googleapis.com/google.rpc.ErrorInfo"
    return {"@type": kind, "reason": reason, "domain": domain, "metadata": metadata}


DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
EXHAUSTED = "You have exhausted your capacity on this model."
MINUTE = "GenerateRequestsPerMinutePerProjectPerModel"


@pytest.mark.requirement("WIRE-18")
@for_each(
    ("code", "message", "details", "expected", "hint"),
    [
        (429, "slow down", [], QuotaError, None),
        (429, "x", [quota(DAY), retry_info("3s")], DailyQuotaError, 3),
        (429, "x", [info("RATE_LIMIT_EXCEEDED", quota_limit="DailyLimit")], DailyQuotaError, None),
        (429, "x", [quota(MINUTE)], RateLimitError, 60),
        (429, "x", [quota(MINUTE), retry_info("2.5s")], RateLimitError, 2.5),
        (429, "x", [retry_info("14s")], RateLimitError, 14),
        (
            429,
            "x",
            [{" @type ": "a.b/google.rpc.RetryInfo", "retryDelay": "4s"}],
            RateLimitError,
            4,
        ),
        (429, "x", [retry_info({"seconds": "1", "nanos": 500_000_000})], RateLimitError, 1.5),
        (429, "x", [retry_info("301s")], SpentQuotaError, 301),
        (429, "Please retry in 12.5s.", [], RateLimitError, 12.5),
        (429, "Please retry in 600ms.", [], RateLimitError, 0.6),
        (429, "Please retry in 4000s.", [], SpentQuotaError, 4000),
        (429, "limit: 0, model: pro", [quota(DAY), retry_info("5s")], ZeroQuotaError, 5),
        (429, "limit: 0", [], ZeroQuotaError, None),
        (429, "limit: 05", [], QuotaError, None),
        (429, "limit: 0.5", [], QuotaError, None),
        (429, "limit: 10", [], QuotaError, None),
        (429, "x", [info("MODEL_CAPACITY_EXHAUSTED")], CapacityError, None),
        (503, "x", [info("MODEL_CAPACITY_EXHAUSTED"), retry_info("9s")], CapacityError, 9),
        (429, "No capacity available for model", [], CapacityError, None),
        (503, "no capacity", [], CapacityError, None),
        (429, EXHAUSTED, [], SpentQuotaError, None),
        (429, f"{EXHAUSTED} Please retry in 7s", [], RateLimitError, 7),
        (429, EXHAUSTED, [quota(MINUTE)], RateLimitError, 60),
        (429, EXHAUSTED, [info("MODEL_CAPACITY_EXHAUSTED")], CapacityError, None),
        (503, "The model is overloaded.", [], ServerFaultError, None),
        (503, "x", [retry_info("8s")], ServerFaultError, 8),
        (503, "back at noon", [retry_info("3600s")], ServerFaultError, 3600),
        (503, "limit: 0", [], ZeroQuotaError, None),
        (429, "x", [info("QUOTA_EXHAUSTED")], SpentQuotaError, None),
        (429, "x", [info("INSUFFICIENT_G1_CREDITS_BALANCE")], SpentQuotaError, None),
        (429, "x", [info("RATE_LIMIT_EXCEEDED")], RateLimitError, 60),
        (429, "x", [info("RATE_LIMIT_EXCEEDED", CODE_ASSIST)], SpentQuotaError, None),
        (
            429,
            "x",
            [info("RATE_LIMIT_EXCEEDED", f"staging-{CODE_ASSIST}"), retry_info("20s")],
            RateLimitError,
            20,
        ),
        (499, "cancelled", [retry_info("3s")], RequestRejectedError, 3),
        (499, "limit: 0", [], ZeroQuotaError, None),
        (500, "limit: 0", [], ServerFaultError, None),
        (400, "x", [quota(DAY)], RequestRejectedError, None),
        (404, "x", [], ModelNotFoundError, None),
        (403, "x", [info("VALIDATION_REQUIRED", "other.example")], CredentialsError, None),
    ],
)
def test_errors_are_told_apart_by_what_the_service_says(
    code: int, message: str, details: list[Detail], expected: type[ModelError], hint: float | None
):
    said = body(message, *details, code=code)
    streamed = api_error(said, ASKED)
    assert streamed is not None
    for error in (refusal(code, said, ASKED), streamed):
        assert type(error) is expected
        assert error.status == code
        assert error.retry_after_s == hint
        assert [detail.keys() for detail in error.details] == [
            {key.strip() for key in detail} for detail in details
        ]


@for_each(
    ("code", "details", "manner"),
    [
        (429, [], RetryClass.BACKOFF),
        (429, [quota(MINUTE)], RetryClass.BACKOFF),
        (429, [quota(DAY)], RetryClass.NEVER),
        (429, [info("MODEL_CAPACITY_EXHAUSTED")], RetryClass.CAPACITY),
        (408, [], RetryClass.BACKOFF),
        (500, [], RetryClass.BACKOFF),
        (599, [], RetryClass.BACKOFF),
        (503, [], RetryClass.BACKOFF),
        (499, [retry_info("1s")], RetryClass.BACKOFF),
        (409, [], RetryClass.BACKOFF),
        (400, [], RetryClass.NEVER),
        (401, [], RetryClass.NEVER),
        (403, [], RetryClass.NEVER),
        (404, [], RetryClass.NEVER),
        (302, [], RetryClass.NEVER),
    ],
)
def test_what_is_sent_again_follows_from_the_class(
    code: int, details: list[Detail], manner: RetryClass
):
    assert manner_of(refusal(code, body("x", *details, code=code), ASKED)) is manner


def test_a_wait_is_the_longest_that_header_and_details_ask_for():
    said = body("x", retry_info("3s"))
    assert refusal(429, said, ASKED, retry_after_s=9).retry_after_s == 9
    assert refusal(429, said, ASKED, retry_after_s=1).retry_after_s == 3
    assert isinstance(refusal(429, b"", ASKED, retry_after_s=7200), SpentQuotaError)
    assert refusal(503, b"<html>", ASKED, retry_after_s=4).retry_after_s == 4


def test_an_account_that_must_be_verified_says_where():
    links = [
        {"description": "Verify", "url": "https://accounts.example/verify?a=1"},
        {"description": "Learn more", "url": "https://help.example/why"},
    ]
    details = (
        info("VALIDATION_REQUIRED", CODE_ASSIST, validation_link="https://other.example"),
        {"@type": "type.googleapis.com/google.rpc.Help", "links": links},
    )
    error = refusal(403, body("verify first", *details, code=403), ASKED)
    assert isinstance(error, ValidationRequiredError)
    assert (error.link, error.description) == (links[0]["url"], "Verify")
    assert error.learn_more == "https://help.example/why"
    assert links[0]["url"] in str(error)
    assert error.exit_code == 41

    error = refusal(403, body("verify", details[0], code=403), ASKED)
    assert isinstance(error, ValidationRequiredError)
    assert error.link == "https://other.example"
    bad = info("VALIDATION_REQUIRED", CODE_ASSIST, validation_link="javascript:alert(1)")
    error = refusal(403, body("verify", bad, code=403), ASKED)
    assert isinstance(error, ValidationRequiredError)
    assert error.link is None


def test_nothing_secret_is_in_what_an_error_says():
    echoed = info("RATE_LIMIT_EXCEEDED", key="s3cret-key")
    error = refusal(429, body("key s3cret-key is throttled", echoed), ASKED)
    assert "s3cret-key" not in f"{error} {error!r} {error.message} {error.remedy} {error.details}"


plain = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=20) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "@type",
                    "retryDelay",
                    "violations",
                    "quotaId",
                    "reason",
                    "domain",
                    "metadata",
                    "links",
                ]
            )
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
kinds = st.sampled_from(["RetryInfo", "QuotaFailure", "ErrorInfo", "Help"]).map(
    lambda name: {"@type": f"type.googleapis.com/google.rpc.{name}"}
)
strange = st.tuples(kinds, st.dictionaries(st.text(max_size=8), plain, max_size=3)).map(
    lambda pair: pair[1] | pair[0]
)


@given(
    st.sampled_from([403, 429, 499, 500, 503]),
    st.lists(strange | st.dictionaries(st.text(max_size=8), plain), max_size=4),
    st.text(max_size=60),
)
def test_details_of_any_shape_give_an_error_of_the_tree(
    code: int, details: list[Detail], message: str
):
    error = refusal(code, body(message, *details, code=code), ASKED)
    assert error.status == code
    assert error.retry_after_s is None or error.retry_after_s >= 0


def said(message: str, code: str | None, kind: str) -> bytes:
    """An error object of OpenAI's."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return json.dumps({"error": error}).encode()


@pytest.mark.requirement("WIRE-18")
@pytest.mark.parametrize(
    ("body", "header", "expected", "hint"),
    [
        (said("no", "insufficient_quota", "insufficient_quota"), None, SpentQuotaError, None),
        (said("no", None, "insufficient_quota"), 3, SpentQuotaError, 3),
        (said("Please try again in 8s.", "rate_limit_exceeded", "tokens"), None, RateLimitError, 8),
        (said("Please try again in 8s.", None, "tokens"), 9.5, RateLimitError, 9.5),
        (said("(RPD). Please try again in 7m12s.", "x", "requests"), None, SpentQuotaError, 432),
        (said("slow down", "rate_limit_exceeded", "tokens"), None, QuotaError, None),
    ],
)
def test_the_words_of_other_services_say_whether_a_wait_helps_and_how_long(
    body: bytes, header: float | None, expected: type, hint: float | None
):
    error = refusal(429, body, ASKED, retry_after_s=header)
    assert (type(error), error.retry_after_s) == (expected, hint)
    never = expected is SpentQuotaError
    assert (manner_of(error) is RetryClass.NEVER) == never
