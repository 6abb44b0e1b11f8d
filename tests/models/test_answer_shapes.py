"""Answers in the shapes that services and proxies give beside their documents, of three families."""

import json
from pathlib import Path
from typing import Any

import pytest

from alhena import Agent
from alhena.events import RetryEvent, WarningEvent
from alhena.models import Anthropic, Gemini, OpenAICompatible
from alhena.models.retry import REPLAY
from tests.support.server import Reply, ScriptedServer, json_reply

GEMINI, OPENAI, ANTHROPIC = "gemini", "openai", "anthropic"
COUNTS = {"promptTokenCount": 50, "candidatesTokenCount": 4, "totalTokenCount": 54}
USAGE = {"prompt_tokens": 50, "completion_tokens": 4, "total_tokens": 54}
DONE = b"data: [DONE]\n\n"


def model_of(family: str, server: ScriptedServer) -> Gemini | OpenAICompatible | Anthropic:
    made: Any
    if family == GEMINI:
        made = Gemini("gemini-2.5-flash", api_key="k", base_url=server.url)
    elif family == OPENAI:
        made = OpenAICompatible("qwen", base_url=f"{server.url}/v1")
    else:
        made = Anthropic("claude-x", api_key="k", base_url=server.url)
    made.policy = REPLAY
    return made


def events(*payloads: Any, end: bytes = b"") -> Reply:
    raw = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in payloads]
    pieces = [b"data: " + each + b"\n\n" for each in raw]
    return Reply(content_type="text/event-stream", pieces=[*pieces, end] if end else pieces)


def said(family: str, words: bytes, *, reason: bool, counts: bool) -> list[bytes]:
    """The events of an answer; `words` are the inside of a JSON text."""
    if family == GEMINI:
        end = b', "finishReason": "STOP"' if reason else b""
        usage = b', "usageMetadata": ' + json.dumps(COUNTS).encode() if counts else b""
        content = b'{"role": "model", "parts": [{"text": "' + words + b'"}]}'
        return [b'{"candidates": [{"content": ' + content + end + b"}]" + usage + b"}"]
    if family == OPENAI:
        end = b'"stop"' if reason else b"null"
        choice = b'{"index": 0, "delta": {"content": "' + words + b'"}, "finish_reason": ' + end
        usage = [json.dumps({"choices": [], "usage": USAGE}).encode()] if counts else []
        return [b'{"id": "1", "choices": [' + choice + b"}]}", *usage]
    start = {"type": "message_start", "message": {"id": "1", "usage": {"input_tokens": 50}}}
    block = b'{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", '
    last: dict[str, Any] = {"type": "message_delta", "delta": {}}
    if reason:
        last["delta"] = {"stop_reason": "end_turn"}
    if counts:
        last["usage"] = {"output_tokens": 4}
    return [
        json.dumps(start).encode(),
        b'{"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}',
        block + b'"text": "' + words + b'"}}',
        b'{"type": "content_block_stop", "index": 0}',
        *([json.dumps(last).encode()] if reason or counts else []),
    ]


async def ask(family: str, server: ScriptedServer, project: Path) -> tuple[str, list[Any], Any]:
    """The text of an answer, the events, and the result."""
    seen: list[Any] = []
    async with model_of(family, server) as model:
        run = Agent(model, cwd=project, isolated=True, builtin_tools=()).run("go")
        async for event in run:
            seen.append(event)
        result = await run
    return result.text, seen, result


@pytest.mark.parametrize("end", [b"", DONE, b"data: [DONE]"], ids=["end", "marker", "bare"])
@pytest.mark.parametrize("family", [GEMINI, OPENAI, ANTHROPIC])
async def test_a_counted_text_without_a_reason_is_an_answer_with_a_warning(
    server: ScriptedServer, project: Path, family: str, end: bytes
):
    server.reply(events(*said(family, b"Bern", reason=False, counts=True), end=end))
    answer, seen, result = await ask(family, server, project)
    assert answer == "Bern"
    assert len(server.requests) == 1
    (warning,) = [each.message for each in seen if isinstance(each, WarningEvent)]
    assert "without a finish reason" in warning
    assert result.usage.output_tokens == 4


@pytest.mark.parametrize("family", [GEMINI, OPENAI, ANTHROPIC])
async def test_a_text_without_reason_and_counts_is_asked_for_again(
    server: ScriptedServer, project: Path, family: str
):
    whole = events(*said(family, b"Bern", reason=True, counts=True))
    server.reply(events(*said(family, b"Be", reason=False, counts=False)), whole)
    answer, seen, _ = await ask(family, server, project)
    assert answer == "Bern"
    assert any(isinstance(each, RetryEvent) for each in seen)


@pytest.mark.parametrize("family", [GEMINI, OPENAI, ANTHROPIC])
async def test_what_follows_the_end_marker_is_not_read(
    server: ScriptedServer, project: Path, family: str
):
    first = said(family, b"Bern", reason=True, counts=True)
    server.reply(events(*first, end=DONE + b"data: no JSON\n\n"))
    answer, seen, _ = await ask(family, server, project)
    assert answer == "Bern"
    assert not any(isinstance(each, WarningEvent | RetryEvent) for each in seen)


@pytest.mark.parametrize("family", [GEMINI, OPENAI, ANTHROPIC])
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (rb"a\ud83d", "a\ufffd"),
        (rb"\ude00b", "\ufffdb"),
        (rb"\ud83d\ude00 \\ud83d \ud83d", "\U0001f600 \\ud83d \ufffd"),
    ],
)
async def test_half_a_character_is_text(
    server: ScriptedServer, project: Path, family: str, words: bytes, text: str
):
    server.reply(events(*said(family, words, reason=True, counts=True)))
    assert (await ask(family, server, project))[0] == text


async def test_half_a_character_in_the_arguments_of_a_call_is_text(
    server: ScriptedServer, project: Path
):
    given: list[str] = []

    def note(word: str) -> str:
        """Notes a word."""
        given.append(word)
        return "noted"

    function = {"name": "note", "arguments": r'{"word": "a\ud83d"}'}
    call = {"index": 0, "id": "1", "type": "function", "function": function}
    choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    server.reply(
        events({"id": "1", "choices": [choice]}, end=DONE),
        events(*said(OPENAI, b"ok", reason=True, counts=True)),
    )
    async with model_of(OPENAI, server) as model:
        agent = Agent(model, cwd=project, isolated=True, builtin_tools=(), tools=[note])
        assert await agent.ask("go") == "ok"
    assert given == ["a\ufffd"]


CANCELLED = {
    "error": {"code": 499, "message": "The operation was cancelled.", "status": "CANCELLED"}
}


@pytest.mark.parametrize("family", [GEMINI, OPENAI, ANTHROPIC])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_request_that_the_service_cancelled_is_sent_again(
    server: ScriptedServer, project: Path, family: str, streamed: bool
):
    failed = events(CANCELLED) if streamed else json_reply(CANCELLED, 499)
    server.reply(failed, events(*said(family, b"Bern", reason=True, counts=True)))
    answer, seen, _ = await ask(family, server, project)
    assert answer == "Bern"
    (retry,) = [each for each in seen if isinstance(each, RetryEvent)]
    assert "499" in retry.reason


@pytest.mark.parametrize(
    ("metadata", "seconds"),
    [
        ({"quotaResetDelay": "374ms"}, 0.374),
        ({"quotaResetDelay": "7s"}, 7),
        ({"quotaResetDelay": "1m3.5s"}, 63.5),
        ({"quotaResetDelay": "soon", "quotaResetTimeStamp": "2001-01-01T00:00:00Z"}, 0),
    ],
)
async def test_a_wait_named_only_by_the_reset_of_the_quota_counts(
    server: ScriptedServer, project: Path, metadata: dict[str, str], seconds: float
):
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "RATE_LIMIT_EXCEEDED",
        "domain": "cloudcode-pa.googleapis.com",
        "metadata": metadata,
    }
    error = {
        "code": 429,
        "message": "Exhausted.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [info],
    }
    server.reply(json_reply({"error": error}, 429))
    seen: list[float] = []
    async with (
        model_of(GEMINI, server) as model,
        Agent(model, cwd=project, isolated=True).run("go") as run,
    ):
        async for event in run:
            if isinstance(event, RetryEvent):
                seen.append(event.delay_s)
                break
    assert seen == [seconds]


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        # text, thoughts, cached
        ({"completion_tokens": 510, "total_tokens": 560, "reasoning_tokens": 500}, (10, 500, 0)),
        ({"completion_tokens": 10, "total_tokens": 560, "reasoning_tokens": 500}, (10, 500, 0)),
        ({"completion_tokens": 600, "total_tokens": 1150, "reasoning_tokens": 500}, (600, 500, 0)),
        ({"completion_tokens": 10, "total_tokens": 60, "prompt_cache_hit_tokens": 32}, (10, 0, 32)),
        ({"completion_tokens": 10, "total_tokens": 60, "cached_tokens": 32}, (10, 0, 32)),
    ],
)
async def test_tokens_are_counted_as_each_service_means_them(
    server: ScriptedServer, project: Path, usage: dict[str, int], counts: tuple[int, int, int]
):
    given: dict[str, Any] = {"prompt_tokens": 50, **usage}
    if (thoughts := given.pop("reasoning_tokens", None)) is not None:
        given["completion_tokens_details"] = {"reasoning_tokens": thoughts}
    first = said(OPENAI, b"Bern", reason=True, counts=False)
    server.reply(events(*first, {"choices": [], "usage": given}, end=DONE))
    _, _, result = await ask(OPENAI, server, project)
    found = result.usage
    assert found.input_tokens == 50
    assert (found.output_tokens, found.thought_tokens, found.cached_tokens) == counts
