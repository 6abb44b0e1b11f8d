"""Services behind the gateway that do not speak Gemini."""

from typing import Any

from alhena.models.anthropic_api import AnthropicApi
from alhena.models.endpoint import parse_endpoint
from tests.gateway.kit import client, gateway
from tests.support.server import ScriptedServer, json_reply

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "SIG-_no base64"}
CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "r"}]}


async def test_signed_thinking_reaches_the_service_that_signed_it(server: ScriptedServer):
    done = {"content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"}
    server.reply(json_reply({"content": [THOUGHT, CALL], "stop_reason": "tool_use"}))
    server.reply(json_reply(done))
    service = AnthropicApi(parse_endpoint(server.url, "ANTHROPIC_BASE_URL"), "key")
    messages: list[Any] = [{"role": "user", "content": "go"}]
    asked: dict[str, Any] = {
        "model": "c",
        "max_tokens": 3000,
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    }
    async with (
        gateway(service, model="anthropic:claude-x", gemini=False) as running,
        client(running) as http,
    ):
        first = await http.post("/v1/messages", json={**asked, "messages": messages})
        assert first.json()["content"] == [THOUGHT, CALL]
        messages.append({"role": "assistant", "content": first.json()["content"]})
        messages.append({"role": "user", "content": [RESULT]})
        second = await http.post("/v1/messages", json={**asked, "messages": messages})
    assert second.json()["content"] == done["content"]
    sent = server.requests[1].json
    assert sent["messages"][1]["content"] == [THOUGHT, CALL]
    assert sent["messages"][2]["content"] == [RESULT]
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 2000}
