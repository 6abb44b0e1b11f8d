import pytest

from alhena.models.thinking import default_model, thinking_config, wants_signatures
from alhena.wire.request import ThinkingConfig

BUDGET = ThinkingConfig(thinking_budget=-1, include_thoughts=True)
LEVEL = ThinkingConfig(thinking_level="HIGH", include_thoughts=True)


@pytest.mark.requirement("WIRE-09")
@pytest.mark.parametrize(
    ("model", "config", "signatures"),
    [
        ("gemini-2.5-pro", BUDGET, False),
        ("models/gemini-2.5-flash-lite", BUDGET, False),
        ("gemini-2.5-pro-preview-06-05", BUDGET, False),
        ("gemini-2.5-flash-image", None, False),
        ("gemini-2.5-flash-preview-tts", None, False),
        ("gemini-3-pro-preview", LEVEL, True),
        ("gemini-3-pro-image-preview", None, True),
        ("gemini-3.1-pro-preview", LEVEL, True),
        ("models/gemini-3.5-flash-lite", LEVEL, True),
        ("gemini-3", LEVEL, True),
        ("gemini-30-pro", None, False),
        ("gemini-2.50-pro", None, False),
        ("gemini-2.0-flash", None, False),
        ("gemini-1.5-pro", None, False),
        ("gemini-embedding-001", None, False),
        ("gemma-3-27b-it", None, False),
        ("my-gemini-2.5-pro", None, False),
        ("", None, False),
    ],
)
def test_the_series_of_a_model_decides_its_thinking(
    model: str, config: ThinkingConfig | None, signatures: bool
):
    assert thinking_config(model) == config
    assert wants_signatures(model) is signatures


def test_a_session_without_a_chosen_model_thinks():
    assert default_model() == "gemini-2.5-pro"
    assert thinking_config(default_model()) == BUDGET
