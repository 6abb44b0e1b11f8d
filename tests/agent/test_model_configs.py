"""`modelConfigs` at work: what the model is sent, and what a person is told of it."""

import json
from typing import Any

import pytest

from alhena.agent.runner import SessionRunner
from alhena.config.settings import settings_of
from alhena.errors import ServerFaultError
from alhena.events import Event, RunStartedEvent
from alhena.models.configs import unknown_keys
from alhena.models.retry import RetryingGenerator, RetryPolicy
from alhena.policy.model import ApprovalMode
from alhena.wire.encode import encode_request, enveloped_body
from alhena.wire.errors import EncodeError
from tests.agent.kit import events_of
from tests.support.agents import scripted_agent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

DOWN = [ServerFaultError("down", status=503)]
DONE = [text("done", finish="STOP")]
REPORT = {"summary_of_findings": "s", "exploration_trace": [], "relevant_locations": []}
SAFETY = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]


def running(
    script: ScriptedGenerator, configs: dict[str, Any], model: str = "pro"
) -> SessionRunner:
    async def pause(_seconds: float) -> None:
        return

    settings = {"modelConfigs": configs, "model": {"fallback": "always"}}
    generator = RetryingGenerator(script, RetryPolicy(), sleep=pause, chance=lambda: 0)
    given = {
        "generator": generator,
        "approval_mode": ApprovalMode.YOLO,
        "settings": settings_of(settings, "settings.json"),
    }
    return scripted_agent(model=model, **given)


def override(match: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {"match": match, "modelConfig": {"generateContentConfig": settings}}


async def bodies(
    script: ScriptedGenerator, configs: dict[str, Any], model: str = "pro"
) -> list[dict[str, Any]]:
    """Bodies of the requests of one prompt."""
    async with running(script, configs, model) as agent:
        found, error = await events_of(agent, "hi")
    assert error is None, found
    return [json.loads(encode_request(request)) for request in script.requests]


def temperatures(sent: list[dict[str, Any]]) -> list[Any]:
    return [body["generationConfig"].get("temperature") for body in sent]


async def test_only_attempts_after_one_that_failed_have_the_settings_of_retries() -> None:
    script = ScriptedGenerator(
        DOWN,
        [chunk(finish="STOP")],
        [chunk(call("list_directory", {"path": "."}, id="c"), finish="STOP")],
        DONE,
    )
    configs = {
        "customOverrides": [override({"model": "chat-base", "isRetry": True}, temperature=2)]
    }
    sent = await bodies(script, configs)
    assert temperatures(sent) == [1, 2, 2, 1]
    assert all(body["tools"] == sent[0]["tools"] for body in sent)
    assert all(body["systemInstruction"] == sent[0]["systemInstruction"] for body in sent)


async def test_what_is_for_first_attempts_alone_is_gone_from_the_next() -> None:
    script = ScriptedGenerator(DOWN, DONE)
    configs = {"overrides": [override({"isRetry": False}, temperature=0.5)]}
    assert temperatures(await bodies(script, configs)) == [0.5, 1]


async def test_a_subagents_retries_have_the_settings_for_its_retries() -> None:
    asked = {"agent_name": "codebase_investigator", "objective": "Find it."}
    done = {"result": REPORT}
    script = ScriptedGenerator(
        [chunk(call("delegate_to_agent", asked, id="d"), finish="STOP")],
        DOWN,
        [chunk(call("complete_task", done, id="c"), finish="STOP")],
        DONE,
    )
    scope = {"overrideScope": "codebase_investigator", "isRetry": True}
    sent = await bodies(script, {"overrides": [override(scope, temperature=2)]})
    first, second = (body["generationConfig"]["temperature"] for body in sent[1:3])
    assert (first != 2, second) == (True, 2)
    assert sent[1]["tools"] == sent[2]["tools"]


async def test_settings_of_requests_beside_the_generation_go_out_on_every_transport() -> None:
    script = ScriptedGenerator(DONE)
    own = {
        "safetySettings": SAFETY,
        "labels": {"team": "a"},
        "modelArmorConfig": {"promptTemplateName": "p"},
        "topP": 0.5,
        "speechConfig": {"languageCode": "de-DE"},
    }
    (body,) = await bodies(script, {"overrides": [override({"model": "base"}, **own)]})
    wrapped = json.loads(bytes(enveloped_body(script.requests[0], "p")))["request"]
    for sent in (body, wrapped):
        assert {key: sent[key] for key in own if key in sent} == {
            key: own[key] for key in own if key not in ("topP", "speechConfig")
        }
        assert sent["generationConfig"]["topP"] == 0.5
        assert sent["generationConfig"]["speechConfig"] == {"languageCode": "de-DE"}


@pytest.mark.parametrize("tier", ["standard", "flex"])
async def test_a_service_tier_is_sent_and_code_assist_has_only_the_standard_one(tier: str) -> None:
    script = ScriptedGenerator(DONE)
    own = {"serviceTier": tier}
    (body,) = await bodies(script, {"overrides": [override({"model": "base"}, **own)]})
    assert body["serviceTier"] == tier
    if tier == "flex":
        with pytest.raises(EncodeError, match="Code Assist has no service tier"):
            enveloped_body(script.requests[0], "p")
    else:
        wrapped = json.loads(bytes(enveloped_body(script.requests[0], "p")))["request"]
        assert "serviceTier" not in wrapped


async def test_a_person_is_told_which_keys_have_no_effect_and_the_prompt_is_answered() -> None:
    configs = {
        "customAliases": {
            "mine": {
                "extend": "base",
                "modelConfig": {
                    "model": "flash",
                    "generateContentConfig": {
                        "top_k": 3,
                        "tools": [{"googleSearch": {}}],
                        "thinkingConfig": {"thinkingBudgets": 1},
                    },
                },
            }
        },
        "overrides": [
            override({"modell": "flash"}, seed=1),
        ],
    }
    script = ScriptedGenerator(DONE)
    async with running(script, configs, "mine") as agent:
        found, error = await events_of(agent, "hi")
    assert error is None
    place = "modelConfigs.customAliases.mine.modelConfig.generateContentConfig"
    assert _notices(found) == [
        f"{line}: not known, and not sent."
        for line in (
            "modelConfigs.customAliases.mine.extend",
            f"{place}.top_k",
            f"{place}.tools",
            f"{place}.thinkingConfig.thinkingBudgets",
            "modelConfigs.overrides[0].match.modell",
        )
    ]


def _notices(events: list[Event]) -> list[str]:
    """Notices shown before the first request."""
    (started,) = (event for event in events if isinstance(event, RunStartedEvent))
    return list(started.notices)


@pytest.mark.parametrize("entry", [7, None, [], {"modelConfig": 7}, {"modelConfig": {}}])
def test_what_has_the_wrong_shape_is_left_to_whoever_uses_it(entry: Any) -> None:
    configs = {"aliases": {"a": entry}, "overrides": [entry]}
    assert unknown_keys(settings_of({"modelConfigs": configs}, "s").model_configs) == ()
