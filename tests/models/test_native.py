"""The provider flow over a generator, turn after turn."""

import json
from pathlib import Path
from typing import Any

import pytest

from alhena.models.native import NativeProvider, sendable
from alhena.wire.content import SIGNATURE_SENTINEL, Part
from alhena.wire.dialects import anthropic
from alhena.wire.dialects.native import AssistantMessageParser, native_request, tool_results
from alhena.wire.errors import ConformanceError
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, chunk, sse

TOOL = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def calling(path: str, **part: Any) -> dict[str, Any]:
    return {"functionCall": {"name": "read_file", "args": {"path": path}}, **part}


async def answered(
    provider: NativeProvider, history: list[Any], model: str
) -> AssistantMessageParser:
    parser = AssistantMessageParser()
    request = native_request(model=model, system="s", messages=history, tools=[TOOL])
    async for one in provider.create_message(request):
        parser.feed(one)
    parser.finish()
    history.append(json.loads(json.dumps(parser.message)))
    return parser


@pytest.mark.requirement("NATIVE-04")
async def test_a_conversation_goes_on_over_calls_results_and_signatures() -> None:
    generator = ScriptedGenerator(
        [chunk(calling("a", thoughtSignature="QUJD"), calling("b"), finish="STOP")],
        [chunk({"text": "hm", "thought": True}), chunk({"text": "Both."}, finish="STOP")],
    )
    provider = NativeProvider(generator, token="t")
    history: list[Any] = [{"role": "user", "content": "Compare a and b."}]
    parser = await answered(provider, history, "gemini-3-flash-preview")
    calls = [block["id"] for block in parser.content_blocks]
    assert len(set(calls)) == 2
    results = [
        {"tool_use_id": calls[0], "content": [PNG]},
        {"tool_use_id": calls[1], "content": "B"},
    ]
    history.append(tool_results(results))
    parser = await answered(provider, history, "gemini-3-flash-preview")
    assert [block["content"] for block in parser.content_blocks] == ["Both."]
    _, called, told = generator.seen(1)
    assert [part["functionCall"]["id"] for part in called["parts"]] == calls
    assert [part.get("thoughtSignature") for part in called["parts"]] == ["QUJD", None]
    assert [part["functionResponse"]["id"] for part in told["parts"]] == calls
    assert told["parts"][0]["functionResponse"]["parts"][0]["inlineData"]["data"] == "AAAA"


async def test_older_models_get_the_media_of_results_beside_them() -> None:
    use = {"type": "tool_use", "id": "c1", "name": "read_file", "input": {}}
    messages = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [use]},
        tool_results([{"tool_use_id": "c1", "content": [PNG]}]),
    ]
    request = native_request(model="gemini-2.5-pro", system="", messages=messages)
    parts = sendable(request, model="gemini-2.5-pro").contents[2].content.parts
    assert parts[0].function_response is not None
    assert parts[0].function_response.parts is None
    assert "read_file, call c1" in (parts[1].text or "")
    assert parts[2].inline_data is not None


def test_thinking_is_never_sent_and_takes_its_signature_with_it() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "other"}
    secret = {"type": "redacted_thinking", "data": "other"}
    own = {"type": "thinking", "thinking": "so", "signature": "gemini-own:QUJD"}
    use = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [thinking, secret, {"type": "text", "text": "Yes."}]},
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [own, use]},
            tool_results([{"tool_use_id": "c1", "content": "x"}]),
        ],
    }
    sent = sendable(anthropic.read_request(body), model="gemini-3-flash-preview")
    assert sent.contents[1].content.parts == (Part(text="Yes."),)
    (call,) = sent.contents[3].content.parts
    assert call.thought_signature == SIGNATURE_SENTINEL


async def test_what_can_be_repaired_is_and_what_cannot_is_refused() -> None:
    use = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
    messages = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [use]},
        tool_results([{"tool_use_id": "c1", "content": "x"}]),
    ]
    request = native_request(model="m", system="", messages=messages)
    sent = sendable(request, model="gemini-3-flash-preview")
    assert sent.contents[1].content.parts[0].thought_signature
    twice = native_request(model="m", system="", messages=messages, tools=[TOOL, TOOL])
    with pytest.raises(ConformanceError, match="T2"):
        sendable(twice, model="gemini-3-flash-preview")


async def test_giving_up_an_answer_closes_it() -> None:
    generator = ScriptedGenerator([chunk({"text": "a"}), chunk({"text": "b"}, finish="STOP")])
    messages = [{"role": "user", "content": "x"}]
    stream = NativeProvider(generator, token="t").create_message(
        native_request(model="m", system="", messages=messages)
    )
    async for _ in stream:
        break
    await stream.aclose()
    assert generator.closed_early == 1


async def test_the_example_of_the_documentation_runs(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    page = (Path(__file__).parents[2] / "docs/native-tools.md").read_text(encoding="utf-8")
    start = page.index("    import os, secrets\n    from alhena.models.native import")
    example = page[start : page.index("\n\n`choose_generator` takes", start)]
    server.reply(
        sse(chunk(calling("config.json"), finish="STOP")),
        sse(chunk({"text": "It is empty."}, finish="STOP")),
    )
    scope: dict[str, Any] = {
        "system": "Be brief.",
        "tools": [TOOL],
        "run": lambda call: f"{call['name']} {call['params']}",
    }
    exec(f"async def main():\n{example}\n    return history", scope)
    *_, told, last = await scope["main"]()
    assert told["content"][0]["content"] == "read_file {'path': 'config.json'}"
    assert last["content"] == [{"type": "text", "text": "It is empty."}]
