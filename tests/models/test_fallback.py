"""Choice of the fallback model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.errors import ModelError, NetworkError, ServerFaultError
from alhena.models.catalogue import (
    FLASH,
    FLASH_LITE,
    PRO,
    fallback_model,
    model_info,
    successors,
)
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
        (PRO, DAILY, FLASH),
        (f"models/{PRO}", DAILY, FLASH),
        (PRO, ZeroQuotaError("x", status=429), FLASH),
        (PRO, CapacityError("x", status=503), FLASH),
        (PRO, QuotaError("x", status=429), FLASH),
        (PRO, ServerFaultError("x", status=503), FLASH),
        (PRO, MISSING, None),
        (PRO, NetworkError("x"), None),
        (PRO, CredentialsError("x", status=401), None),
        (PRO, RequestRejectedError("x", status=400), None),
        (PRO, ServerFaultError("not asked for"), None),
        ("gemini-4-argon", DAILY, FLASH),
        ("gemini-2.5-pro", DAILY, FLASH),
        ("gemini-3.7-flash", DAILY, FLASH),
        ("gemini-2.5-flash-lite", DAILY, FLASH_LITE),
        (FLASH, DAILY, None),
        (FLASH_LITE, DAILY, None),
        ("gemini-3-pro-preview", MISSING, None),
        ("gemini-3.8-flash-preview-tts", DAILY, None),
        ("my-model", DAILY, None),
        ("tunedModels/gemini-2.5-pro", DAILY, None),
        ("", DAILY, None),
    ],
)
def test_the_next_model_follows_from_the_name_and_the_failure(
    model: str, error: ModelError, other: str | None
):
    assert fallback_model(model, error) == other


@pytest.mark.requirement("TODAY-01")
@given(
    st.sampled_from(["2.5", "3", "3.1", "3.8", "4", "6"]),
    st.sampled_from(["pro", "flash", "flash-lite", "argon"]),
    st.sampled_from(["", "-preview", "-preview-06-05", "-latest"]),
)
def test_every_chain_of_models_ends_at_one_that_is_served(series: str, size: str, preview: str):
    chain = successors(f"gemini-{series}-{size}{preview}")
    assert len(set(chain)) == len(chain) <= 2
    assert not chain or not model_info(chain[-1]).ends


@pytest.mark.parametrize(
    ("model", "others"),
    [(PRO, (FLASH,)), (FLASH, ()), ("gemini-2.5-flash", (FLASH,)), ("tunedModels/mine", ())],
)
def test_all_that_may_come_after_a_model_are_known_before(model: str, others: tuple[str, ...]):
    assert successors(model) == others
