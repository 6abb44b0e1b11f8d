"""The room for an answer of Anthropic's: what is asked for behind a question that leaves little."""

from contextlib import aclosing
from typing import Any

import pytest

from alhena.models.errors import RequestRejectedError
from alhena.wire.content import text_content
from alhena.wire.request import GenerationConfig, ThinkingConfig
from tests.models.test_anthropic_api import asking, connected, message, taken, words
from tests.models.test_anthropic_terms import sent
from tests.support.server import Reply, ScriptedServer, json_reply

CLAUDE = "anthropic:claude-sonnet-4-5"
WHOLE = {"type": "message", "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"}


def refused(used: int, asked: int) -> Reply:
    said = (
        f"input length and `max_tokens` exceed context limit: {used} + {asked} > 200000, decrease"
    )
    error = {"type": "invalid_request_error", "message": f"{said} input length and try again"}
    return json_reply({"type": "error", "error": error}, status=400)


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


async def test_where_the_service_has_less_room_so_much_is_asked_for_once(server: ScriptedServer):
    server.reply(refused(181_488, 32_000), message(words("done"), stop="end_turn"))
    server.reply(refused(181_488, 32_000), json_reply(WHOLE))
    generator = connected(server)
    async with aclosing(generator):
        chunks = await taken(generator, asking(model=CLAUDE))
        assert "".join(part.text or "" for chunk in chunks for part in chunk.parts) == "done"
        assert (await generator.generate(asking(model=CLAUDE))).parts[0].text == "hi"
    limits = [request.json["max_tokens"] for request in server.requests]
    assert limits[0] == limits[2] == 32_000
    assert limits[1] == limits[3]
    assert 18_000 < limits[1] <= 200_000 - 181_488


@pytest.mark.parametrize(
    ("replies", "limit"),
    [
        ([refused(181_488, 32_000)], 32_000),
        ([refused(199_900, 32_000)], None),
        ([refused(181_488, 32_000), refused(181_488, 18_448)], None),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
async def test_a_limit_that_was_set_stands_and_a_second_refusal_is_the_last(
    server: ScriptedServer, replies: list[Any], limit: int | None, whole: bool
):
    server.reply(*replies)
    generator = connected(server)
    request = asking(model=CLAUDE, generation_config=GenerationConfig(max_output_tokens=limit))
    async with aclosing(generator):
        with pytest.raises(RequestRejectedError, match="exceed context limit"):
            await (generator.generate(request) if whole else taken(generator, request))
    assert len(server.requests) == len(replies)
