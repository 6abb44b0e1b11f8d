"""The service tier of requests: its ways in, its forms on the wire, its price and its patience."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from alhena import Agent, AgentOptions, ConfigError
from alhena.http import Timeouts
from alhena.wire.request import ServiceTier
from tests.batch.answering import AnsweringServer, echo, results
from tests.models.asking import api, asked, chunks, event, listening, read_request, response
from tests.support.command import Ran, alhena, keyed
from tests.support.each import for_each
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse, text

TIERS = ("flex", "standard", "priority")
DELEGATED = call("delegate_to_agent", {"agent_name": "generalist", "objective": "Look."})
USED = {"promptTokenCount": 1_000_000, "candidatesTokenCount": 0, "totalTokenCount": 1_000_000}


def with_settings(home: Path, **settings: Any) -> None:
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


def run(server: ScriptedServer, *arguments: str, **environ: str) -> Ran:
    return alhena(*arguments, "-p", "hi", **(keyed(server) | environ))


def tiers(server: ScriptedServer) -> list[str | None]:
    return [request.json.get("serviceTier") for request in server.requests if request.body]


@for_each("tier", TIERS)
def test_a_flag_or_a_setting_sends_the_tier(server: ScriptedServer, home: Path, tier: str):
    with_settings(home)
    server.reply(sse(text("Hello.")))
    assert run(server, "--service-tier", tier).out == "Hello.\n"
    with_settings(home, model={"serviceTier": tier})
    server.reply(sse(text("Hello.")))
    assert run(server).out == "Hello.\n"
    assert tiers(server)[-2:] == [tier, tier]


def test_a_flag_wins_over_the_setting_and_a_model_config_over_both(
    server: ScriptedServer, home: Path
):
    override = {
        "match": {"model": "gemini-3.7-flash"},
        "modelConfig": {"generateContentConfig": {"serviceTier": "priority"}},
    }
    with_settings(home, model={"serviceTier": "flex"}, modelConfigs={"customOverrides": [override]})
    server.reply(sse(text("Hello.")), sse(text("Hello.")))
    assert run(server, "--service-tier", "standard").code == 0
    assert run(server, "-m", "gemini-3.7-flash").code == 0
    assert tiers(server) == ["standard", "priority"]


def test_without_a_tier_the_field_is_not_sent(server: ScriptedServer):
    server.reply(sse(text("Hello.")))
    assert run(server).code == 0
    assert "serviceTier" not in server.requests[0].json


def test_an_unknown_tier_ends_before_anything_is_sent(server: ScriptedServer, home: Path):
    ran = run(server, "--service-tier", "cheap")
    assert ran.code == 2
    assert "flex" in ran.err
    override = {
        "match": {"model": "gemini-3.8-flash"},
        "modelConfig": {"generateContentConfig": {"serviceTier": "cheap"}},
    }
    for settings in (
        {"model": {"serviceTier": "cheap"}},
        {"modelConfigs": {"customOverrides": [override]}},
    ):
        with_settings(home, **settings)
        ran = run(server)
        assert ran.code == 52
        assert "cheap" in ran.err
    assert not server.requests


def test_subagents_and_the_requests_of_tools_have_it_too(server: ScriptedServer):
    server.reply(
        sse(chunk(DELEGATED, finish="STOP")),
        sse(chunk(call("complete_task", {"result": "Found."}), finish="STOP")),
        sse(text("Done.")),
    )
    run(server, "--service-tier", "flex")
    assert len(tiers(server)) > 1
    assert set(tiers(server)) == {"flex"}


def test_vertex_takes_it_in_the_body(server: ScriptedServer):
    server.reply(sse(text("Hello.")))
    vertex = {
        "GOOGLE_GENAI_USE_VERTEXAI": "true",
        "GOOGLE_API_KEY": "k",
        "GOOGLE_VERTEX_BASE_URL": server.url,
    }
    assert alhena("--service-tier", "flex", "-p", "hi", **vertex).code == 0
    assert tiers(server) == ["flex"]


@for_each(("tier", "sent"), [("flex", "flex"), ("standard", "default"), ("priority", "priority")])
def test_openai_takes_it_in_its_own_words(server: ScriptedServer, tier: str, sent: str):
    said = {"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]}
    server.reply(sse(said))
    here = {"OPENAI_BASE_URL": f"{server.url}/v1"}
    ran = alhena("-m", "openai:gpt-x", "--service-tier", tier, "-p", "hi", **here)
    assert ran.out == "Hello.\n"
    assert server.requests[-1].json["service_tier"] == sent


@for_each("tier", ["flex", "priority"])
@for_each(
    ("service", "arguments", "environ"),
    [
        ("Anthropic", ("-m", "anthropic:claude-x"), {"ANTHROPIC_API_KEY": "k"}),
        (
            "Code Assist",
            (),
            {
                "GOOGLE_GENAI_USE_GCA": "true",
                "GOOGLE_CLOUD_ACCESS_TOKEN": "t",
                "GEMINI_API_KEY": "",
                "GOOGLE_GEMINI_BASE_URL": "",
            },
        ),
    ],
)
def test_a_service_without_tiers_is_named_and_not_asked(
    server: ScriptedServer,
    tier: str,
    service: str,
    arguments: tuple[str, ...],
    environ: dict[str, str],
):
    there = {"ANTHROPIC_BASE_URL": server.url, "CODE_ASSIST_ENDPOINT": server.url}
    ran = run(server, *arguments, "--service-tier", tier, **environ, **there)
    assert ran.code == 52
    assert f"{service} has no service tier '{tier}'" in ran.err
    assert not server.requests


def test_anthropic_takes_the_standard_tier_in_its_own_words(server: ScriptedServer):
    refusal = json_reply({"type": "error", "error": {"type": "x", "message": "no"}}, 400)
    server.reply(refusal, refusal)  # once more without marks for the cache
    there = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "k"}
    run(server, "-m", "anthropic:claude-x", "--service-tier", "standard", **there)
    assert server.requests[0].json["service_tier"] == "standard_only"


@for_each(("tier", "factor"), [("flex", 0.5), ("standard", 1), ("priority", 2)])
def test_flex_counts_half_and_priority_twice(server: ScriptedServer, tier: str, factor: float):
    server.reply(sse(text("Hello.") | {"usageMetadata": USED}))
    ran = run(server, "-o", "json", "--service-tier", tier)
    assert ran.json["stats"]["estimatedCostUsd"] == pytest.approx(0.75 * factor)
    server.reply(sse(chunk(call("x", {}), finish="STOP") | {"usageMetadata": USED}))
    limited = run(server, "--service-tier", tier, "--max-cost", str(0.75 * factor - 0.01))
    assert limited.code == 53


@for_each("field", ["service_tier", "serviceTier"])
def test_a_task_of_a_batch_has_its_own(project: Path, field: str):
    lines = [{"id": "a", "prompt": "one", field: "flex"}, {"id": "b", "prompt": "two"}]
    (project / "t.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    out = f"{field}.jsonl"
    given = ("--service-tier", "priority")
    with AnsweringServer(echo) as server:
        ran = alhena("batch", "t.jsonl", "--out", out, *given, **keyed(server))
        assert ran.code == 0
        sent = {request.json.get("serviceTier") for request in server.requests}
    assert sent == {"flex", "priority"}
    cost = {each["id"]: each["cost_usd"] for each in results(project / out)}
    assert cost["a"] * 4 == pytest.approx(cost["b"])


def test_an_unknown_tier_of_a_task_starts_nothing(project: Path, server: ScriptedServer):
    task = {"id": "a", "prompt": "one", "service_tier": "cheap"}
    (project / "t.jsonl").write_text(json.dumps(task), encoding="utf-8")
    ran = alhena("batch", "t.jsonl", "--out", "r.jsonl", **keyed(server))
    assert ran.code != 0
    assert "service_tier" in ran.err
    assert not server.requests


async def test_an_agent_of_a_program_has_an_option_for_it(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
):
    for name, value in keyed(server).items():
        monkeypatch.setenv(name, value)
    server.reply(sse(text("Hello.")))
    async with Agent(options=AgentOptions(service_tier="flex")) as agent:
        assert (await agent.run("hi")).text == "Hello."
    assert tiers(server) == ["flex"]
    unknown: Any = "cheap"
    with pytest.raises((ConfigError, TypeError), match=r"service_tier.*cheap"):
        AgentOptions(service_tier=unknown)


@pytest.mark.parametrize("tier", [ServiceTier.FLEX, None])
@pytest.mark.parametrize("whole", [True, False])
async def test_a_flex_request_that_waits_long_is_no_silence(tier: ServiceTier | None, whole: bool):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await asyncio.sleep(0.4)
        writer.write(response(json.dumps(text("late")).encode() if whole else event("late")))
        await writer.drain()

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}", timeouts=Timeouts(idle=0.1))
        request = asked(service_tier=tier)

        async def ask() -> str | None:
            found = [await generator.generate(request)] if whole else None
            return (found or await chunks(generator, request))[0].parts[0].text

        if tier is None:
            with pytest.raises(Exception, match="Nothing arrived"):
                await ask()
        else:
            assert await ask() == "late"
        await generator.aclose()
