"""Requests to the model: names of models, adapted settings, conforming conversations."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.gateway.upstream import ModelNames, Upstream, fitted_thinking
from alhena.models.catalogue import MODELS, Thinking, model_info
from alhena.wire.conformance.check import check_request
from alhena.wire.dialects import anthropic, gemini
from alhena.wire.request import ThinkingConfig
from tests.gateway.kit import client, gateway
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text
from tests.wire.dialects import conversations

USER = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("claude-sonnet", "gemini-2.5-flash"),
        ("gpt-4o", "gemini-2.5-pro"),
        ("gemini-2.5-pro", "gemini-2.5-pro"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("gemini-3-pro-preview", "gemini-3-pro-preview"),
        ("flash-lite", "gemini-3.5-flash-lite"),
        ("gemma-3-27b-it", "gemma-3-27b-it"),
        ("big", "gemini-3.1-pro-preview"),
        ("", "gemini-2.5-flash"),
    ],
)
def test_a_name_means_the_model_that_was_given_for_it_itself_or_the_configured_one(
    name: str, model: str
):
    names = ModelNames("gemini-2.5-flash", {"gpt-4o": "gemini-2.5-pro", "big": "pro"})
    assert names.model(name) == model


def test_behind_another_service_every_name_means_the_configured_model():
    names = ModelNames("openai:qwen", {"big": "openai:large"}, gemini=False)
    asked = ("gemini-2.5-pro", "gpt-4o", "big", "models/big")
    assert [names.model(name) for name in asked] == ["openai:qwen"] * 2 + ["openai:large"] * 2
    assert [info.name for info in names.list_models()] == ["openai:qwen", "big"]


@given(st.integers(-(10**6), 10**6), st.sampled_from(MODELS))
def test_thinking_is_within_what_the_model_takes(budget: int, info: Any):
    fitted = fitted_thinking(ThinkingConfig(thinking_budget=budget, include_thoughts=True), info)
    if info.thinking is Thinking.NONE:
        assert fitted is None
    elif info.thinking is Thinking.LEVEL:
        assert fitted.thinking_budget is None
        assert fitted.thinking_level in info.levels
    else:
        least, most = info.budgets
        assert fitted.thinking_budget == -1 or least <= fitted.thinking_budget <= most


@pytest.mark.parametrize(
    ("effort", "level"), [("none", "LOW"), ("low", "LOW"), ("medium", "MEDIUM"), ("high", "HIGH")]
)
async def test_a_reasoning_effort_becomes_a_level_of_the_3_series(effort: str, level: str):
    generator = ScriptedGenerator([text("x")])
    body = {"model": "m", "messages": [USER], "reasoning_effort": effort, "presence_penalty": 0}
    model = "gemini-3.1-pro-preview"
    async with gateway(generator, model=model) as running, client(running) as http:
        await http.post("/v1/chat/completions", json=body)
    generation = generator.requests[0].config.generation_config
    assert generation.thinking_config.thinking_level == level
    assert generation.thinking_config.thinking_budget is None
    assert generation.presence_penalty is None


async def test_more_output_than_the_model_has_is_cut_to_its_limit():
    generator = ScriptedGenerator([text("x")])
    body = {"model": "gemini-3.8-flash", "max_tokens": 99_000, "messages": [USER]}
    async with gateway(generator) as running, client(running) as http:
        await http.post("/v1/messages", json=body)
    assert generator.requests[0].config.generation_config.max_output_tokens == 65_536


async def test_geminis_own_settings_go_on_as_they_are():
    generator = ScriptedGenerator([text("x")])
    settings = {"maxOutputTokens": 99_999, "thinkingConfig": {"thinkingBudget": 7}}
    contents = [{"role": "user", "parts": [{"text": "hi"}]}]
    body = {"contents": contents, "generationConfig": settings, "toolConfig": {}}
    async with gateway(generator) as running, client(running) as http:
        await http.post("/v1beta/models/gemini-2.5-pro:generateContent", json=body)
    generation = generator.requests[0].config.generation_config
    assert generation.max_output_tokens == 99_999
    assert generation.thinking_config.thinking_budget == 7


async def test_a_history_of_geminis_own_dialect_is_repaired_where_that_helps():
    generator = ScriptedGenerator([text("x")])
    called = [{"functionCall": {"name": "f", "args": {}}}, {"functionCall": {"name": "g"}}]
    answers = [{"functionResponse": {"name": "g", "response": {"output": 2}}}]
    contents = [
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "user", "parts": [{"text": "b"}]},
        {"role": "model", "parts": called},
        {"role": "user", "parts": answers},
    ]
    async with gateway(generator) as running, client(running) as http:
        path = "/v1beta/models/gemini-3.1-pro-preview:generateContent"
        answer = await http.post(path, json={"contents": contents})
    assert answer.status_code == 200
    seen = generator.seen(0)
    assert [one["role"] for one in seen] == ["user", "model", "user"]
    assert seen[1]["parts"][0]["thoughtSignature"] == "skip_thought_signature_validator"
    assert [part["functionResponse"]["name"] for part in seen[2]["parts"]] == ["f", "g"]


@pytest.mark.parametrize("gemini", [True, False], ids=["gemini", "another service"])
async def test_a_history_that_begins_and_ends_with_the_model_is_put_between_words_of_the_user(
    gemini: bool,
):
    generator = ScriptedGenerator([text("x")])
    contents = [{"role": "model", "parts": [{"text": "a"}]}]
    async with gateway(generator, gemini=gemini) as running, client(running) as http:
        path = "/v1beta/models/gemini-2.5-flash:generateContent"
        assert (await http.post(path, json={"contents": contents})).status_code == 200
    seen = generator.seen(0)
    assert [one["role"] for one in seen] == ["user", "model", "user"]
    assert seen[1] == contents[0]


@pytest.mark.requirement("NATIVE-06")
@given(
    conversations.anthropic_conversations(),
    st.sampled_from(["gemini-2.5-pro", "gemini-3.1-pro-preview"]),
)
def test_whatever_a_client_says_conforms_when_it_is_sent_on(body: dict[str, Any], model: str):
    upstream = Upstream(ScriptedGenerator(), ModelNames(model))
    sent = upstream.prepare(anthropic.read_request(body), own=False).request
    info = model_info(model)
    found = check_request(sent, needs_signatures=info.needs_signatures)
    assert [item for item in found if item.level == "error"] == []
    again = gemini.read_request(gemini.write_request(anthropic.read_request(body)), model)
    upstream.prepare(again, own=True)


PATHS = {
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-3.8-flash:generateContent",
}


@pytest.mark.parametrize(
    ("dialect", "given", "sent"),
    [
        ("openai", {"service_tier": "flex"}, "flex"),
        ("openai", {"service_tier": "priority"}, "priority"),
        ("openai", {"service_tier": "default"}, "standard"),
        ("openai", {"service_tier": "auto"}, None),
        ("openai", {}, None),
        ("openai", {"service_tier": "scale"}, 400),
        ("responses", {"service_tier": "flex"}, "flex"),
        ("responses", {"service_tier": "scale"}, 400),
        ("anthropic", {"service_tier": "standard_only"}, "standard"),
        ("anthropic", {"service_tier": "auto"}, None),
        ("anthropic", {"service_tier": "flex"}, 400),
        ("gemini", {"serviceTier": "flex"}, "flex"),
        ("gemini", {"service_tier": "SERVICE_TIER_PRIORITY"}, "priority"),
        ("gemini", {"serviceTier": "cheap"}, 400),
    ],
)
async def test_a_client_s_service_tier_goes_on_in_gemini_s_words_or_is_refused(
    dialect: str, given: dict[str, Any], sent: str | int | None
):
    generator = ScriptedGenerator([text("x")])
    body: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [USER]}
    if dialect == "gemini":
        body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    elif dialect == "responses":
        body = {"model": "m", "input": "hi"}
    async with gateway(generator) as running, client(running) as http:
        answer = await http.post(PATHS[dialect], json=body | given)
    if sent == 400:
        assert answer.status_code == 400
        assert next(iter(given.values())) in answer.text
        assert not generator.requests
    else:
        assert answer.status_code == 200
        assert generator.requests[0].config.service_tier == sent
