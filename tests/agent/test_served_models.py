"""A service that no longer has the model, answers under another name or lists its models."""

import json
from pathlib import Path
from typing import Any

import pytest

from alhena.models.catalogue import FLASH, PRO, ServedModel
from alhena.models.served import newest_stable
from tests.support.command import Ran, alhena, keyed
from tests.support.each import for_each
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse, text

GONE = {"error": {"code": 404, "message": f"models/{FLASH} is not found", "status": "NOT_FOUND"}}
CLOSED = {
    "error": {
        "code": 403,
        "message": "This model is no longer available to new users.",
        "status": "PERMISSION_DENIED",
    }
}
NONE_LEFT = {
    "error": {
        "code": 429,
        "message": "Quota exceeded for metric: requests, limit: 0, model: x",
        "status": "RESOURCE_EXHAUSTED",
    }
}
NAMES = (
    *("gemini-3.9-flash", "gemini-4.1-flash-preview", "gemini-flash-latest", "gemini-5-flash-tts"),
    *("gemini-5-flash-image", "gemini-3.8-flash-live", "gemini-3.7-flash", "gemini-3.2-pro"),
    *("gemini-4-neon", "gemini-3.6-flash-lite", "gemini-2.5-flash"),
)


def listing(*names: str) -> Any:
    models = [
        {
            "name": f"models/{name}",
            "inputTokenLimit": 500_000,
            "outputTokenLimit": 9_000,
            "supportedGenerationMethods": ["generateContent"],
        }
        for name in names
    ]
    return json_reply({"models": models})


def run(server: ScriptedServer, *arguments: str) -> Ran:
    return alhena(*arguments, "-p", "hi", GEMINI_API_KEY="k", GOOGLE_GEMINI_BASE_URL=server.url)


def asked(server: ScriptedServer) -> list[str]:
    """The models that were asked, "list" for the list."""
    paths = [request.path.partition("?")[0].rpartition("/")[2] for request in server.requests]
    return ["list" if path == "models" else path.partition(":")[0] for path in paths]


@pytest.mark.requirement("TODAY-01")
@for_each(
    ("status", "error"),
    [(404, GONE), (403, CLOSED), (429, NONE_LEFT)],
)
@for_each("arguments", [(), ("-m", "auto"), ("-m", "flash")])
def test_a_default_that_is_gone_is_replaced_by_the_newest_stable_of_its_tier(
    server: ScriptedServer, home: Path, status: int, error: Any, arguments: tuple[str, ...]
):
    for kept in (home / ".gemini" / "tmp" / "model-lists").glob("*"):
        kept.unlink()
    before = len(server.requests)
    server.reply(json_reply(error, status=status), listing(*NAMES), sse(text("Hello.")))
    ran = run(server, *arguments)
    assert (ran.code, ran.out) == (0, "Hello.\n")
    assert asked(server)[before:] == [FLASH, "list", "gemini-3.9-flash"]
    line = next(line for line in ran.err.splitlines() if "gemini-3.9-flash" in line)
    assert FLASH in line


@pytest.mark.requirement("TODAY-01")
@for_each(
    "arguments",
    [("--max-tokens", "100000"), ("--record-responses", "answers.jsonl")],
)
def test_limits_and_recordings_do_not_keep_a_default_from_being_replaced(
    server: ScriptedServer, project: Path, arguments: tuple[str, ...]
):
    server.reply(json_reply(GONE, status=404))
    if not server.requests:
        server.reply(listing(*NAMES))
    server.reply(sse(text("Hello.")))
    ran = run(server, *arguments)
    assert (ran.code, ran.out) == (0, "Hello.\n")
    assert asked(server)[-1] == "gemini-3.9-flash"


@pytest.mark.requirement("TODAY-01")
def test_a_task_of_a_batch_has_its_default_replaced_too(server: ScriptedServer, project: Path):
    (project / "t.jsonl").write_text('{"id": "a", "prompt": "one"}', encoding="utf-8")
    server.reply(json_reply(GONE, status=404), listing(*NAMES), sse(text("Hello.")))
    ran = alhena("batch", "t.jsonl", "--out", "r.jsonl", **keyed(server))
    assert ran.code == 0
    assert asked(server) == [FLASH, "list", "gemini-3.9-flash"]


@pytest.mark.requirement("TODAY-01")
def test_the_list_is_asked_for_once_a_day(server: ScriptedServer):
    server.reply(json_reply(GONE, status=404), listing(*NAMES), sse(text("One.")))
    server.reply(json_reply(GONE, status=404), sse(text("Two.")))
    server.reply(json_reply(GONE, status=404), sse(text("Three.")))
    assert [run(server).out for _ in range(3)] == ["One.\n", "Two.\n", "Three.\n"]
    assert asked(server).count("list") == 1


@pytest.mark.requirement("TODAY-01")
def test_a_replacement_that_is_gone_too_is_replaced_in_turn(server: ScriptedServer):
    server.reply(json_reply(GONE, status=404), listing(*NAMES), json_reply(GONE, status=404))
    server.reply(sse(text("Hello.")))
    assert run(server).out == "Hello.\n"
    assert asked(server) == [FLASH, "list", "gemini-3.9-flash", "gemini-3.7-flash"]


@pytest.mark.requirement("TODAY-01")
@for_each("model", ["gemini-3.8-flash", "gemini-3.9-flsh", "models/gemini-2.5-flash"])
def test_a_name_that_a_person_wrote_is_never_replaced(server: ScriptedServer, model: str):
    before = len(server.requests)
    server.reply(json_reply(GONE, status=404))
    if not before:
        server.reply(listing(*NAMES))
    ran = run(server, "-m", model)
    assert ran.code == 1
    assert asked(server)[before:] == [model.rpartition("/")[2], *(() if before else ("list",))]
    assert "gemini-3.9-flash" in ran.err
    assert PRO not in ran.err  # which the service does not list


def test_without_a_list_the_error_names_no_model(server: ScriptedServer):
    server.reply(json_reply(GONE, status=404), json_reply({"error": {"code": 500}}, status=500))
    ran = run(server)
    assert ran.code == 1
    assert PRO not in ran.err


@pytest.mark.requirement("TODAY-01")
def test_another_name_in_the_answer_is_said_once_and_its_price_counts(server: ScriptedServer):
    used = {"promptTokenCount": 1_000_000, "candidatesTokenCount": 0, "totalTokenCount": 1_000_000}
    other = text("Hello.") | {"modelVersion": "gemini-3.1-pro-preview", "usageMetadata": used}
    server.reply(sse(other))
    ran = run(server, "-o", "json")
    assert [each for each in ran.json["warnings"] if PRO in each]
    assert ran.json["stats"]["estimatedCostUsd"] == pytest.approx(4)


@pytest.mark.requirement("COST-04")
def test_the_limit_of_cost_counts_the_price_of_the_model_that_answered(server: ScriptedServer):
    used = {"promptTokenCount": 1_000_000, "candidatesTokenCount": 0, "totalTokenCount": 1_000_000}
    looks = chunk(call("list_directory", {"path": "."}), finish="STOP", usage=used)
    server.reply(sse(looks | {"modelVersion": PRO}), sse(text("Hello.")))
    ran = run(server, "-o", "json", "--max-cost", "3")  # 4 dollars, 0.75 by the name asked for
    assert (ran.code, ran.json["error"]["type"]) == (53, "cost_limit")
    assert len(server.requests) == 1


@pytest.mark.requirement("COST-04")
@for_each(
    ("prices", "model", "version"),
    [
        ({"openai:*": {"input": 3, "output": 0}}, "openai:gpt-5.2", "gpt-5.2-2025-12-11"),
        ({"openai:llama3": {"input": 3, "output": 0}}, "openai:llama3", "/models/llama3.gguf"),
        ({"gemini-3.8-flash": {"input": 3, "output": 0}}, FLASH, f"{FLASH}-001"),
        ({FLASH: {"input": 1, "output": 0, "longInput": 3, "longFrom": 30_000}}, FLASH, FLASH),
    ],
)
def test_an_own_price_holds_whatever_name_the_answer_has(
    server: ScriptedServer, home: Path, prices: dict[str, Any], model: str, version: str
):
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"model": {"prices": prices}}), encoding="utf-8")
    if model.startswith("openai:"):
        choice = {"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 50_000, "completion_tokens": 0, "total_tokens": 50_000}
        server.reply(sse({"id": "c", "model": version, "choices": [choice], "usage": usage}))
    else:
        used = {"promptTokenCount": 50_000, "totalTokenCount": 50_000}
        server.reply(sse(text("Hello.") | {"modelVersion": version, "usageMetadata": used}))
    environ = {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k"}
    ran = alhena("-m", model, "-p", "hi", "-o", "json", **keyed(server), **environ)
    assert ran.json["stats"]["estimatedCostUsd"] == pytest.approx(0.15)


@for_each("version", [FLASH, f"{FLASH}-001", f"models/{FLASH}"])
def test_a_version_of_the_same_model_is_not_another_name(server: ScriptedServer, version: str):
    server.reply(sse(text("Hello.") | {"modelVersion": version}))
    ran = run(server, "-o", "json")
    assert not [each for each in ran.json.get("warnings", ()) if "instead of" in each]


@pytest.mark.requirement("TODAY-01")
def test_nothing_is_asked_before_the_first_request_of_a_listed_model(server: ScriptedServer):
    server.reply(sse(text("Hello.")))
    assert run(server).code == 0
    assert asked(server) == [FLASH]


@for_each(
    ("name", "newest"),
    [
        (FLASH, "gemini-3.9-flash"),
        (PRO, "gemini-3.2-pro"),
        ("gemini-3.5-flash-lite", "gemini-3.6-flash-lite"),
    ],
)
def test_previews_speech_images_and_moving_names_replace_nothing(name: str, newest: str):
    served = [ServedModel(name=each) for each in NAMES]
    assert newest_stable(name, served, ()) == newest
    assert newest_stable(name, [ServedModel(name="gemini-flash-latest")], ()) is None


def test_a_kept_list_that_is_damaged_is_asked_for_again(server: ScriptedServer, home: Path):
    server.reply(json_reply(GONE, status=404), listing(*NAMES), sse(text("One.")))
    assert run(server).code == 0
    (kept,) = (home / ".gemini" / "tmp" / "model-lists").glob("*.json")
    assert {each["name"] for each in json.loads(kept.read_text())["models"]} == {*NAMES}
    kept.write_text("{", encoding="utf-8")
    server.reply(json_reply(GONE, status=404), listing(*NAMES), sse(text("Two.")))
    assert run(server).out == "Two.\n"
