"""Bodies on their way out: whole, in pieces, once more, refused half way, given up half way."""

import json

from alhena.wire.content import Content, Part, text_content
from alhena.wire.encode import (
    EncodedContent,
    encode_request,
)
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from tests.models.asking import api, chunks, texts
from tests.support.server import ScriptedServer, sse, text


def request(*sizes: int, system: str = "") -> GenerateContentRequest:
    made = [
        Content(role=("user", "model")[index % 2], parts=(Part(text="é" * size),))
        for index, size in enumerate(sizes)
    ]
    config = GenerateContentConfig(
        system_instruction=text_content("user", system) if system else None
    )
    return GenerateContentRequest(
        model="gemini-2.5-pro",
        contents=tuple(map(EncodedContent, made)),
        config=config,
        prompt_id="p",
        session_id="s",
    )


LONG = request(*[40_000] * 41)
"""More than 3 MB."""


async def test_a_long_body_arrives_whole_time_after_time_on_one_connection(
    server: ScriptedServer,
) -> None:
    server.reply(sse(text("one")), sse(text("two")))
    ask = api(server.url)
    assert texts(await chunks(ask, LONG)) == ["one"]
    assert texts(await chunks(ask, LONG)) == ["two"]
    await ask.aclose()
    wanted = json.loads(encode_request(LONG))
    assert [received.json for received in server.requests] == [wanted, wanted]
    assert server.connections == 1
