"""Conversations that were shortened, as records and as a metric."""

import pytest

from alhena.events import CompressedEvent, OutputsMaskedEvent
from alhena.telemetry.metrics import Metrics
from tests.telemetry.test_translation import records


@pytest.mark.requirement("TEL-01")
def test_what_was_compressed_and_masked_is_told_in_tokens():
    compressed = CompressedEvent(original_tokens=90, new_tokens=10, status="compressed")
    masked = OutputsMaskedEvent(results=3, original_tokens=80, new_tokens=20, role="subagent")
    told = records(compressed, masked)
    assert [record.name for record in told] == ["chat_compression", "tool_output_masking"]
    assert told[0].attributes == {
        "tokens_before": 90,
        "tokens_after": 10,
        "status": "compressed",
        "trigger": "auto",
        "role": "main",
    }
    assert told[1].attributes == {
        "tokens_before": 80,
        "tokens_after": 20,
        "masked_count": 3,
        "role": "subagent",
    }
    metrics = Metrics()
    for record in told:
        metrics.take(record, 1)
    (metric,) = metrics.scope_metrics({}, 2)
    assert metric["descriptor"]["name"] == "gemini_cli.chat_compression"
    (point,) = metric["dataPoints"]
    assert point["value"] == 1
    assert point["attributes"] == {"status": "compressed", "trigger": "auto"}
