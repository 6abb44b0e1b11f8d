"""Choice of the fallback model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.errors import ModelError, NetworkError, ServerFaultError
from alhena.models.catalogue import fallback_model, successors
from alhena.models.errors import (
    CapacityError,
    CredentialsError,
    DailyQuotaError,
    ModelNotFoundError,
    QuotaError,
    RequestRejectedError,
    ZeroQuotaError,
)
from tests.support.each import for_each

DAILY = DailyQuotaError("x", status=429)
MISSING = ModelNotFoundError("x", status=404)


@for_each(
    ("model", "error", "other"),
    [
        ("gemini-2.5-pro", DAILY, "gemini-2.5-flash"),
        ("models/gemini-2.5-pro", DAILY, "gemini-2.5-flash"),
        ("gemini-2.5-pro", ZeroQuotaError("x", status=429), "gemini-2.5-flash"),
        ("gemini-2.5-pro", CapacityError("x", status=503), "gemini-2.5-flash"),
        ("gemini-2.5-pro", QuotaError("x", status=429), "gemini-2.5-flash"),
        ("gemini-2.5-pro", ServerFaultError("x", status=503), "gemini-2.5-flash"),
        ("gemini-2.5-pro", MISSING, None),
        ("gemini-2.5-pro", NetworkError("x"), None),
        ("gemini-2.5-pro", CredentialsError("x", status=401), None),
        ("gemini-2.5-pro", RequestRejectedError("x", status=400), None),
        ("gemini-2.5-pro", ServerFaultError("not asked for"), None),
        ("gemini-2.5-flash", DAILY, None),
        ("gemini-2.5-flash-lite", DAILY, None),
        ("gemini-3-pro-preview", DAILY, "gemini-3-flash-preview"),
        ("gemini-3.1-pro-preview-customtools", DAILY, "gemini-3-flash-preview"),
        ("gemini-3-pro-preview", MISSING, "gemini-2.5-pro"),
        ("gemini-3-flash-preview", MISSING, "gemini-2.5-flash"),
        ("gemini-3-flash-preview", DAILY, "gemini-2.5-flash"),
        ("gemini-3.1-flash-lite-preview", DAILY, "gemini-2.5-flash-lite"),
        ("gemini-2.5-pro-tts", DAILY, None),
        ("my-model", DAILY, None),
        ("tunedModels/gemini-2.5-pro", DAILY, None),
        ("", DAILY, None),
    ],
)
def test_the_next_model_follows_from_the_name_and_the_failure(
    model: str, error: ModelError, other: str | None
):
    assert fallback_model(model, error) == other


@given(
    st.sampled_from(["2.5", "3", "3.1"]),
    st.sampled_from(["pro", "flash", "flash-lite"]),
    st.sampled_from(["", "-preview", "-preview-06-05"]),
    st.lists(st.sampled_from([DAILY, MISSING]), min_size=8, max_size=8),
)
def test_every_chain_of_models_ends(
    series: str, size: str, preview: str, failures: list[ModelError]
):
    model: str | None = f"gemini-{series}-{size}{preview}"
    seen = {model}
    for error in failures:
        model = fallback_model(model, error)
        if model is None:
            break
        assert model not in seen
        seen.add(model)
    assert len(seen) <= 4


@pytest.mark.parametrize(
    ("model", "others"),
    [
        ("gemini-2.5-pro", {"gemini-2.5-flash"}),
        ("gemini-2.5-flash", set[str]()),
        (
            "gemini-3.1-pro-preview",
            {"gemini-2.5-pro", "gemini-2.5-flash", "gemini-3-flash-preview"},
        ),
        ("tunedModels/mine", set[str]()),
    ],
)
def test_all_that_may_come_after_a_model_are_known_before(model: str, others: set[str]):
    assert set(successors(model)) == others
    assert len(successors(model)) == len(others)
