"""Keys that google-genai refuses to send to a service."""

import json
from pathlib import Path
from typing import Any

import pytest
from google import genai
from google.genai import types

from tests.models.asking import KEY, MODEL
from tests.models.test_configs import EVERYTHING
from tests.models.test_vertex_oracle import official
from tests.support.command import alhena
from tests.support.server import ScriptedServer, json_reply, sse, text

GEMINI_API = {"modelArmorConfig", "routingConfig", "modelSelectionConfig", "audioTimestamp"}
VERTEX = {"enableEnhancedCivicAnswers"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("vertex", "unknown"), [(False, GEMINI_API), (True, VERTEX)])
def test_the_official_client_refuses_what_is_left_out_and_nothing_else(
    server: ScriptedServer, vertex: bool, unknown: set[str]
):
    options = types.HttpOptions(base_url=server.url)
    client = official(server) if vertex else genai.Client(api_key=KEY, http_options=options)
    values: dict[str, Any] = {
        **EVERYTHING,
        "safetySettings": [
            {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"},
        ],
        "modelSelectionConfig": {"featureSelectionPreference": "BALANCED"},
    }
    del values["enableAffectiveDialog"]  # it has no such setting for anybody
    refused: set[str] = set()
    for key, value in values.items():
        server.reply(json_reply(text("x")))
        config = types.GenerateContentConfig.model_validate({key: value})
        try:
            client.models.generate_content(model=MODEL, contents="hi", config=config)
        except ValueError:
            refused.add(key)
    client.close()
    assert refused == unknown
    assert len(server.requests) == len(values) - len(unknown)


def test_a_run_goes_on_without_what_its_service_does_not_know_and_says_so(
    home: Path, server: ScriptedServer
):
    own = {"modelArmorConfig": {"promptTemplateName": "p"}, "labels": {"a": "b"}}
    override = {"match": {"model": "flash"}, "modelConfig": {"generateContentConfig": own}}
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(
        json.dumps({"modelConfigs": {"customOverrides": [override]}}), encoding="utf-8"
    )
    server.reply(sse(text("ok")))
    ran = alhena(
        *("-m", "flash", "-p", "hi"), GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=server.url
    )
    assert (ran.code, ran.out) == (0, "ok\n")
    assert "generateContentConfig.modelArmorConfig: not sent: the Gemini API does not" in ran.err
    sent = server.requests[0].json
    assert "modelArmorConfig" not in sent
    assert sent["labels"] == {"a": "b"}
