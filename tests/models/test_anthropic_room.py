"""The room for an answer of Anthropic's: what is asked for behind a question that leaves little."""

import pytest

from alhena.wire.content import text_content
from alhena.wire.request import GenerationConfig, ThinkingConfig
from tests.models.test_anthropic_terms import sent
from tests.support.server import ScriptedServer


@pytest.mark.parametrize(
    ("characters", "budget", "asked", "thinking"),
    [
        (1_000, None, 32_000, None),
        (1_000, 10_000, 42_000, 10_000),
        (540_000, None, 19_000, None),
        (540_000, 20_000, 19_000, 9_500),
        (700_000, None, 8_192, None),
        (700_000, 20_000, 8_192, 4_096),
    ],
)
async def test_behind_a_large_question_less_is_asked_for(
    server: ScriptedServer, characters: int, budget: int | None, asked: int, thinking: int | None
):
    config = GenerationConfig()
    if budget is not None:
        config = GenerationConfig(thinking_config=ThinkingConfig(thinking_budget=budget))
    question = text_content("user", "x" * characters)
    body = await sent(server, question, model="claude-sonnet-4-5", generation_config=config)
    assert abs(body["max_tokens"] - asked) <= 1_000
    told = body.get("thinking", {}).get("budget_tokens")
    assert told is None if thinking is None else abs(told - thinking) <= 500
