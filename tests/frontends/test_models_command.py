"""`alhena models list`: known models, and those of the service's list."""

from typing import Any

import pytest

from alhena.models.catalogue import ALIASES, served_models, today
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, json_reply

LISTED = {
    "models": [
        {
            "name": "models/gemini-5-flash",
            "displayName": "Gemini 5 Flash",
            "inputTokenLimit": 2_000_000,
            "outputTokenLimit": 9_000,
            "supportedGenerationMethods": ["generateContent"],
        },
        {"name": "models/gemini-3.8-flash", "supportedGenerationMethods": ["generateContent"]},
        {"name": "models/gemini-6-pro", "supportedGenerationMethods": ["generateContent"]},
        {"name": "models/embedder", "supportedGenerationMethods": ["embedContent"]},
    ]
}


def test_the_models_are_listed() -> None:
    told = alhena("models", "list", "--json").json
    assert [item["name"] for item in told["models"]] == [
        model.name for model in served_models(today())
    ]
    assert ALIASES.items() <= told["aliases"].items()
    assert told["default"] == "gemini-3.8-flash"
    first = told["models"][0]
    assert (first["tier"], first["end"], first["price"]["output"]) == ("flash", None, 3.75)
    text = alhena("models", "list").out
    assert "$0.75 / 0.075 / 3.75" in text
    assert "ends 2027-05-07" in text
    assert "1,048,576 in 65,536 out" in text
    assert "auto-gemini-3" in text
    assert alhena("models", "list", "--jsn").code == 2


@pytest.mark.requirement("TODAY-01")
def test_models_that_only_the_service_has_are_listed_with_limits_and_marked(
    server: ScriptedServer,
):
    server.reply(json_reply(LISTED))
    lines = alhena("models", "list", **keyed(server)).out.splitlines()
    (flash,) = [line for line in lines if line.startswith("gemini-5-flash ")]
    assert "2,000,000 in  9,000 out" in flash
    assert flash.endswith("from the service's list; Gemini 5 Flash")
    (pro,) = [line for line in lines if line.startswith("gemini-6-pro ")]
    assert "? in      ? out" in pro
    (known,) = [line for line in lines if line.startswith("gemini-3.8-flash ")]
    assert "service" not in known
    assert not [line for line in lines if "embedder" in line]
    for arguments in (("--json",), ("-o", "json")):
        told = alhena("models", "list", *arguments, **keyed(server)).json
        found: dict[str, Any] = {each["name"]: each for each in told["models"]}
        assert found["gemini-3.8-flash"]["source"] == "catalogue"
        new = found["gemini-5-flash"]
        assert (new["source"], new["displayName"]) == ("service", "Gemini 5 Flash")
        assert (new["inputTokenLimit"], new["outputTokenLimit"]) == (2_000_000, 9_000)
        assert told["problem"] is None
    assert len(server.requests) == 1  # the list is kept for the day


def test_without_a_key_or_an_answer_the_known_models_are_listed_and_the_reason_is_said(
    server: ScriptedServer,
):
    ran = alhena("models", "list")
    assert ran.code == 0
    assert "gemini-3.8-flash" in ran.out
    assert "no API key found" in ran.err
    assert "no API key found" in alhena("models", "list", "--json").json["problem"]
    server.reply(json_reply({"error": {"code": 500}}, status=500))
    ran = alhena("models", "list", **keyed(server))
    assert ran.code == 0
    assert "gemini-3.8-flash" in ran.out
    assert "has not listed its models" in ran.err


def test_a_local_server_s_models_are_listed_by_the_names_that_ask_them(server: ScriptedServer):
    server.hides_windows = False
    server.reply(json_reply({"data": [{"id": "qwen3:8b"}]}))
    here = {"GEMINI_MODEL": "openai:x", "OPENAI_BASE_URL": f"{server.url}/v1"}
    ran = alhena("models", "list", **here)
    assert "openai:qwen3:8b" in ran.out
