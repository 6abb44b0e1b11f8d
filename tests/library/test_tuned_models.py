"""Models that a program tunes: settings, headers, timeouts, retries, fallbacks, limits, prefixes."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from alhena import Agent, ConfigError, ModelSettings
from alhena.errors import ModelError, NetworkError, ServerFaultError
from alhena.events import ContentEvent, ModelFallbackEvent
from alhena.models import (
    Anthropic,
    Fallback,
    Gemini,
    GenerateContentRequest,
    GenerateContentResponse,
    Limited,
    OpenAICompatible,
    RetryPolicy,
)
from alhena.models.combined import Places, RequestLimits
from alhena.testing import TestModel
from alhena.wire.content import EncodedContent, text_content
from tests.support.server import Reply, ScriptedServer, json_reply, sse, text

pytestmark = pytest.mark.requirement("LIB-11")

KEY = "a-key-of-tests"
ALONE: dict[str, Any] = {"isolated": True, "builtin_tools": ()}
SETTINGS = ModelSettings(
    temperature=0.2,
    top_k=3,
    max_output_tokens=500,
    thinking="low",
    stop_sequences=("END",),
    seed=7,
    safety={"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"},
    extra={"labels": {"team": "a"}, "generationConfig": {"own": True}},
)


async def test_settings_headers_and_extra_fields_reach_the_gemini_api(server: ScriptedServer):
    server.reply(sse(text("one")), sse(text("two")), json_reply(text("three")))
    headers = {"X-Team": "blue"}
    async with Gemini(
        "gemini-2.5-flash",
        api_key=KEY,
        base_url=server.url,
        headers=headers,
        settings=SETTINGS,
    ) as model:
        agent = Agent(model, model_settings=ModelSettings(temperature=0.5, thinking=0), **ALONE)
        await agent.ask("go")
        await agent.ask("go", model_settings=ModelSettings(temperature=0.9, seed=8))
        await model.generate(GenerateContentRequest(model=model.name, contents=()))
    first, second, plain = (request.json for request in server.requests)
    generation = first["generationConfig"]
    assert (generation["temperature"], generation["topK"], generation["seed"]) == (0.5, 3, 7)
    assert (generation["maxOutputTokens"], generation["stopSequences"]) == (500, ["END"])
    assert generation["thinkingConfig"] == {"thinkingBudget": 0}
    assert generation["own"] is True
    assert first["labels"] == {"team": "a"}
    assert first["safetySettings"] == [
        {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}
    ]
    again = second["generationConfig"]
    assert (again["temperature"], again["seed"], again["topK"]) == (0.9, 8, 3)
    assert plain["generationConfig"]["thinkingConfig"]["thinkingBudget"] == 1024
    assert {request.headers["x-team"] for request in server.requests} == {"blue"}


async def test_a_service_is_not_sent_what_it_does_not_have(server: ScriptedServer):
    message = {"role": "assistant", "content": "ok"}
    server.reply(json_reply({"choices": [{"message": message, "finish_reason": "stop"}]}))
    async with OpenAICompatible("qwen3", base_url=server.url, settings=SETTINGS) as model:
        hello = EncodedContent(text_content("user", "Hello."))
        await model.generate(GenerateContentRequest(model=model.name, contents=(hello,)))
    body = server.requests[0].json
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.2, 7, 500)
    assert (body["stop"], body["labels"]) == (["END"], {"team": "a"})
    assert not {"top_k", "safetySettings", "safety_settings"} & body.keys()

    server.reply(Reply(status=400))
    settings = ModelSettings(top_k=4, seed=1, thinking="high", extra={"metadata": {"user_id": "u"}})
    async with Anthropic(
        "claude-haiku-4-5", api_key=KEY, base_url=server.url, settings=settings, retry=None
    ) as other:
        with pytest.raises(ModelError):
            await Agent(other, **ALONE).ask("go")
    body = server.requests[1].json
    assert body["metadata"] == {"user_id": "u"}
    assert body["thinking"]["type"] == "enabled"
    assert "seed" not in body


async def test_retries_and_the_timeout_are_those_of_the_object(server: ScriptedServer):
    server.reply(Reply(status=503), Reply(status=503))
    async with Gemini("gemini-2.5-flash", api_key=KEY, base_url=server.url, retry=None) as model:
        with pytest.raises(ServerFaultError):
            await Agent(model, **ALONE).ask("go")
        with pytest.raises(ServerFaultError):
            await model.generate(GenerateContentRequest(model=model.name, contents=()))
    assert len(server.requests) == 2
    hold = threading.Event()
    server.reply(sse(text("a", finish=None), text("b"), hold=hold))
    try:
        async with Gemini(
            "gemini-2.5-flash", api_key=KEY, base_url=server.url, retry=None, timeout=0.05
        ) as impatient:
            with pytest.raises(NetworkError):
                await Agent(impatient, **ALONE).ask("go")
    finally:
        hold.set()


def test_wrong_arguments_are_named():
    bad: list[dict[str, Any]] = [
        {"temperature": -1},
        {"top_p": 2},
        {"thinking": "much"},
        {"top_k": "x"},
    ]
    for wrong in bad:
        with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
            ModelSettings(**wrong)
    for argument, value in (("timeout", 0), ("headers", 5), ("retry", 3), ("settings", {})):
        with pytest.raises(TypeError, match=argument):
            Gemini("gemini-2.5-flash", api_key=KEY, **cast("dict[str, Any]", {argument: value}))
    with pytest.raises(ConfigError, match="headers"):
        Gemini("gemini-2.5-flash", api_key=KEY, headers={"a b": "c"})
    with pytest.raises(TypeError, match="model_settings"):
        Agent(TestModel(), model_settings={"temperature": 1})  # pyright: ignore[reportCallIssue,reportArgumentType]
    with pytest.raises(TypeError, match="Fallback"):
        Fallback("gemini-3.8-flash")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="rpm"):
        Limited(TestModel(), rpm=0)


class Own:
    """A model of a program: what it does is `work`."""

    def __init__(self, name: str, *pieces: str | Exception) -> None:
        self.name = name
        self.asked = 0
        self._pieces = pieces

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncIterator[GenerateContentResponse]:
        self.asked += 1
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            async for response in TestModel(piece).stream(request):
                yield response

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        return [each async for each in self.stream(request)][-1]

    async def count_tokens(self, contents: Any, *, model: str) -> int:
        return 1

    async def embed(self, contents: Any, *, model: str) -> Any:
        raise NotImplementedError

    async def aclose(self) -> None:
        return


async def test_the_next_model_answers_and_what_was_shown_is_void(server: ScriptedServer):
    server.reply(Reply(status=503))
    first = Gemini("gemini-2.5-flash", api_key=KEY, base_url=server.url, retry=None)
    second = Own("second", "half an ", ModelError("it broke"))
    third = TestModel("the answer", "more", "and more")
    async with first, Agent(Fallback(first, second, third), **ALONE) as agent:
        events = [event async for event in agent.run("go")]
        told = [each for each in events if isinstance(each, ModelFallbackEvent)]
        assert [(each.instead_of, each.model, each.retract) for each in told] == [
            ("gemini-2.5-flash", "second", False),
            ("second", "test", True),
        ]
        said = [each.text for each in events if isinstance(each, ContentEvent)]
        assert said == ["half an ", "the answer"]
        assert agent.history[-1].parts[0].text == "the answer"
        server.reply(Reply(status=503))
        assert await agent.ask("again") == "more"
    assert (len(server.requests), second.asked) == (2, 2)  # each run begins with the first


async def test_errors_of_other_kinds_are_not_passed_on_and_the_last_error_is_raised():
    good = TestModel("good", "good")
    other = Own("own", RuntimeError("odd"))
    with pytest.raises(RuntimeError):
        await Agent(Fallback(other, good), **ALONE).ask("go")
    assert await Agent(Fallback(other, good, on=RuntimeError), **ALONE).ask("go") == "good"
    last = Own("last", ModelError("last words"))
    both = Fallback(Own("x", ModelError("first.", remedy="Wait.")), last)
    agent = Agent(both, **ALONE)
    for _ in range(2):
        with pytest.raises(ModelError) as told:
            await agent.ask("go")
        assert str(told.value) == "all 2 models failed. x: first; last: last words."
        assert str(told.value.__cause__) == "last words"
    with pytest.raises(ModelError, match="x: first; last: last words"):
        await both.generate(GenerateContentRequest(model="", contents=()))
    with pytest.raises(ModelError, match="x: first; last: last words"):
        await anext(both.stream(GenerateContentRequest(model="", contents=())))
    answer = await Fallback(last, good).generate(GenerateContentRequest(model="", contents=()))
    assert answer.parts[0].text == "good"


async def test_a_run_may_have_another_model_and_the_next_one_has_not():
    usual, other = TestModel("one", "three"), TestModel('{"value": 2}', "four")
    async with Agent(usual, model_settings=ModelSettings(top_k=5), **ALONE) as agent:
        assert await agent.ask("a") == "one"
        result = await agent.run("b", model=Fallback(Own("x", ModelError("down")), other))
        assert result.output == '{"value": 2}'
        assert await agent.ask("c") == "three"
    assert [len(usual.requests), len(other.requests)] == [2, 1]
    assert len(usual.requests[1]["contents"]) == 5
    assert other.requests[0]["generationConfig"]["topK"] == 5


async def test_a_name_has_the_prefix_of_its_service(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
):
    choice = {"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}
    server.reply(sse({"id": "1", "choices": [choice]}), sse(text("gem")))
    monkeypatch.setenv("OLLAMA_HOST", server.url.removeprefix("http://"))
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    async with Agent("ollama:qwen3:8b", **ALONE) as agent:
        assert await agent.ask("go") == "ok"
        assert await agent.ask("go", model="gemini:gemini-2.5-flash") == "gem"
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].json["model"] == "qwen3:8b"
    assert server.requests[1].path.startswith("/v1beta/models/gemini-2.5-flash:")
    with pytest.raises(ConfigError, match=r"'olama:'.*gemini:, vertex:, openai:.*ollama:"):
        await Agent("olama:x", **ALONE).ask("go")
    async with Agent(TestModel("x"), **ALONE) as agent:
        with pytest.raises(ConfigError, match="'foo:'"):
            await agent.ask("go", model="foo:bar")


async def test_a_limit_of_requests_and_tokens_a_minute_is_kept():
    now = [0.0]
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    limits = RequestLimits(rpm=2, tpm=100, clock=lambda: now[0], sleep=sleep)
    started: list[float] = []
    for tokens in (10, 10, 80, 500):
        async with limits.admit(tokens) as charge:
            started.append(round(now[0]))
            charge(tokens)
    assert started[:2] == [0, 0]
    assert started[2] == 60  # two requests a minute
    assert started[3] == 120  # more tokens than fit into any minute wait for an empty one
    assert max(slept) <= 5


async def test_a_limit_of_concurrency_holds_across_threads_and_loops():
    class Slow(Own):
        def __init__(self) -> None:
            super().__init__("slow")
            self.lock = threading.Lock()
            self.now = self.most = 0

        async def stream(
            self, request: GenerateContentRequest
        ) -> AsyncIterator[GenerateContentResponse]:
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
            await asyncio.sleep(0)
            async for response in TestModel("ok").stream(request):
                yield response
            with self.lock:
                self.now -= 1

    slow = Slow()
    model = Limited(slow, concurrency=2)
    request = GenerateContentRequest(model="slow", contents=())

    async def several() -> None:
        await asyncio.gather(*(model.generate(request) for _ in range(10)))

    threads = [threading.Thread(target=lambda: asyncio.run(several())) for _ in range(4)]
    for thread in threads:
        thread.start()
    await several()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert 1 <= slow.most <= 2


async def test_a_place_that_was_given_up_goes_to_the_next():
    places = Places(1)
    await places.enter()
    gone, next_one = asyncio.ensure_future(places.enter()), asyncio.ensure_future(places.enter())
    await asyncio.sleep(0)
    places.leave()
    gone.cancel()
    await asyncio.wait({next_one})
    assert next_one.done()
    places.leave()
    await places.enter()


async def test_limits_may_be_over_a_fallback_and_keep_retries(server: ScriptedServer):
    server.reply(Reply(status=503), sse(text("ok")))
    quick = RetryPolicy(initial_s=0, max_s=0, jitter=0)
    model = Limited(
        Gemini("gemini-2.5-flash", api_key=KEY, base_url=server.url, retry=quick), rpm=100
    )
    async with model:
        assert await Agent(model, **ALONE).ask("go") == "ok"
    both = Limited(Fallback(Own("x", ModelError("down")), TestModel("b")), concurrency=1)
    assert await Agent(both, **ALONE).ask("go") == "b"
    assert len(server.requests) == 2
