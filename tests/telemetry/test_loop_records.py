"""Loops as records of telemetry."""

import pytest

from alhena.events import LoopCheckEvent, LoopDetectedEvent
from tests.telemetry.reading import ATTRIBUTES
from tests.telemetry.test_translation import records


@pytest.mark.parametrize("texts", [True, False])
def test_loops_are_told_of_and_what_was_said_in_them_only_when_asked_for(texts: bool):
    loop = LoopDetectedEvent(
        kind="chanting_identical_sentences", detail="k-123456", action="ended", prompt_id="s#1"
    )
    check = LoopCheckEvent(prompt_id="s#1", model="flash", confidence=0.5)
    sure = LoopCheckEvent(
        prompt_id="s#1", model="flash", confidence=1.0, second_model="m", second_confidence=0.9
    )
    found, asked_one, asked_two = made = records(loop, check, sure, texts=texts)
    assert [record.name for record in made] == ["loop_detected", "llm_loop_check", "llm_loop_check"]
    assert found.attributes["loop_type"] == "chanting_identical_sentences"
    assert ("detail" in found.attributes) is texts
    assert "k-123456" not in str(found.attributes)
    assert "main_model" not in asked_one.attributes
    assert asked_two.attributes["main_model_confidence"] == 0.9
    for record in made:
        known = ATTRIBUTES[record.name]
        assert set(known["required"]) <= set(record.attributes)
        assert set(record.attributes) <= {*known["required"], *known["optional"]}
