"""The model that is asked, by whatever name it was called, and with which settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import alhena
from tests.support.server import ScriptedServer, sse, text

LIST = "/v1beta/models"
"""Asked for in the background once an unlisted model has answered."""
OWN: dict[str, Any] = {"thinkingConfig": {"includeThoughts": True}}
LEVEL = {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"}}
BUDGET = {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1}}
SAMPLING = {"temperature": 1, "topP": 0.95, "topK": 64}


def request_of_run(
    server: ScriptedServer, *arguments: str, **environ: str
) -> tuple[str, dict[str, Any]]:
    """The model in the request that a run sends, and the generation settings."""
    server.reply(sse(text("ok")))
    environ |= {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": server.url}
    ran = alhena(*arguments, "-p", "hi", **environ)
    assert ran.code == 0, ran.err
    request = [each for each in server.requests if each.path.partition("?")[0] != LIST][-1]
    model = request.path.rpartition("/")[2].partition(":")[0]
    return model, request.json["generationConfig"]


@pytest.mark.requirement("WIRE-09", "TODAY-01", "TODAY-02")
@pytest.mark.parametrize(
    ("given", "model", "settings"),
    [
        ("auto", "gemini-3.8-flash", OWN),
        ("flash-lite", "gemini-3.5-flash-lite", OWN),
        ("gemini-2.5-flash-lite", "gemini-2.5-flash-lite", BUDGET | SAMPLING),
        ("pro", "gemini-3.1-pro-preview", LEVEL | SAMPLING),
        ("gemini-3-pro-preview", "gemini-3-pro-preview", LEVEL | SAMPLING),
        ("gemini-6-krypton", "gemini-6-krypton", OWN),
        ("my-model", "my-model", SAMPLING),
    ],
)
def test_a_run_asks_the_model_that_a_name_means(
    server: ScriptedServer, given: str, model: str, settings: dict[str, Any]
):
    sent, generation = request_of_run(server, "-m", given)
    assert sent == model
    assert generation == settings


def test_model_configs_of_the_settings_name_models_and_change_what_they_are_sent(
    home: Path, server: ScriptedServer
):
    configs = {
        "customAliases": {
            "precise": {
                "extends": "chat-base-2.5",
                "modelConfig": {
                    "model": "gemini-2.5-flash-lite",
                    "generateContentConfig": {"temperature": 0.2, "topK": None},
                },
            }
        },
        "customOverrides": [
            {
                "match": {"model": "gemini-2.5-flash-lite", "overrideScope": "core"},
                "modelConfig": {"generateContentConfig": {"thinkingConfig": None, "seed": 7}},
            }
        ],
    }
    (home / ".gemini").mkdir()
    file = home / ".gemini" / "settings.json"
    file.write_text(json.dumps({"modelConfigs": configs}), encoding="utf-8")
    expected = ("gemini-2.5-flash-lite", {"temperature": 0.2, "topP": 0.95, "seed": 7})
    assert request_of_run(server, "-m", "precise") == expected
    assert request_of_run(server, GEMINI_MODEL="precise") == expected


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


@pytest.mark.requirement("TODAY-02")
def test_a_setting_that_the_model_cannot_take_ends_the_run_before_anything_is_sent(
    home: Path, server: ScriptedServer
):
    (home / ".gemini").mkdir()
    own = {"thinkingConfig": {"thinkingLevel": "MINIMAL"}}
    override = {"match": {"overrideScope": "core"}, "modelConfig": {"generateContentConfig": own}}
    (home / ".gemini" / "settings.json").write_text(
        json.dumps({"modelConfigs": {"overrides": [override]}}), encoding="utf-8"
    )
    ran = alhena("-p", "hi", GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=server.url)
    assert ran.code == 52
    assert "gemini-3.8-flash does not take what modelConfigs sets: thinkingLevel" in ran.err
    assert server.requests == []
