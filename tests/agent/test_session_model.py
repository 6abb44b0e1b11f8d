"""The model that is asked, by whatever name it was called, and with which settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import alhena
from tests.support.server import ScriptedServer, sse, text

LEVEL = {"includeThoughts": True, "thinkingLevel": "HIGH"}
BUDGET = {"includeThoughts": True, "thinkingBudget": -1}


def asked(server: ScriptedServer, *arguments: str, **environ: str) -> tuple[str, dict[str, Any]]:
    """The model in the request that a run sends, and the generation settings."""
    server.reply(sse(text("ok")))
    environ |= {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": server.url}
    ran = alhena(*arguments, "-p", "hi", **environ)
    assert ran.code == 0, ran.err
    request = server.requests[-1]
    model = request.path.rpartition("/")[2].partition(":")[0]
    return model, request.json["generationConfig"]


@pytest.mark.requirement("WIRE-09")
@pytest.mark.parametrize(
    ("given", "model", "thinking"),
    [
        ("auto", "gemini-2.5-pro", BUDGET),
        ("flash-lite", "gemini-2.5-flash-lite", BUDGET),
        ("gemini-3-pro-preview", "gemini-3.1-pro-preview", LEVEL),
        ("my-model", "my-model", None),
    ],
)
def test_a_run_asks_the_model_that_a_name_means(
    server: ScriptedServer, given: str, model: str, thinking: dict[str, Any] | None
):
    sent, generation = asked(server, "-m", given)
    assert sent == model
    assert generation.pop("thinkingConfig", None) == thinking
    assert generation == {"temperature": 1, "topP": 0.95, "topK": 64}


def test_model_configs_of_the_settings_name_models_and_change_what_they_are_sent(
    home: Path, server: ScriptedServer
):
    configs = {
        "customAliases": {
            "precise": {
                "extends": "chat-base-2.5",
                "modelConfig": {
                    "model": "flash",
                    "generateContentConfig": {"temperature": 0.2, "topK": None},
                },
            }
        },
        "customOverrides": [
            {
                "match": {"model": "gemini-2.5-flash", "overrideScope": "core"},
                "modelConfig": {"generateContentConfig": {"thinkingConfig": None, "seed": 7}},
            }
        ],
    }
    (home / ".gemini").mkdir()
    file = home / ".gemini" / "settings.json"
    file.write_text(json.dumps({"modelConfigs": configs}), encoding="utf-8")
    expected = ("gemini-2.5-flash", {"temperature": 0.2, "topP": 0.95, "seed": 7})
    assert asked(server, "-m", "precise") == expected
    assert asked(server, GEMINI_MODEL="precise") == expected


def test_model_configs_that_cannot_be_used_end_the_run_before_anything_is_sent(
    home: Path, server: ScriptedServer
):
    (home / ".gemini").mkdir()
    aliases = {"a": {"extends": "b"}}
    (home / ".gemini" / "settings.json").write_text(
        json.dumps({"modelConfigs": {"customAliases": aliases}}), encoding="utf-8"
    )
    ran = alhena("-m", "a", "-p", "hi", GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=server.url)
    assert ran.code == 52
    assert "extends 'b'" in ran.err
    assert server.requests == []
