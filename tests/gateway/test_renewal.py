"""Clients of the gateway whose model the service no longer has."""

import json
from typing import Any

import pytest

from tests.agent.test_served_models import CLOSED, GONE, NAMES, NONE_LEFT, asked, listing
from tests.frontends.test_serve_command import BODY, post, serving
from tests.gateway.test_requests import PATHS
from tests.support.command import keyed
from tests.support.each import for_each
from tests.support.server import ScriptedServer, json_reply, sse, text

NEWER = "gemini-3.9-flash"
REFUSALS = [(404, GONE), (403, CLOSED), (429, NONE_LEFT)]


def body_of(dialect: str, model: str, **more: Any) -> dict[str, Any]:
    if dialect == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    return BODY | {"model": model} | more


def path_of(dialect: str, model: str) -> str:
    return PATHS[dialect].replace("gemini-3.8-flash", model)


@pytest.mark.requirement("TODAY-01")
@for_each(
    ("dialect", "model", "arguments", "refusal"),
    [  # each refusal, and each dialect, at least once
        ("anthropic", "claude-sonnet-5", (), REFUSALS[0]),
        ("openai", "gpt-5-codex", ("-m", "flash"), REFUSALS[1]),
        ("openai", "auto", ("-m", "gemini-3.1-pro-preview"), REFUSALS[2]),
        ("gemini", "flash", ("-m", "gemini-3.1-pro-preview"), REFUSALS[1]),
        ("gemini", "flash", ("-m", "gemini-3.1-pro-preview"), REFUSALS[2]),
        ("anthropic", "mine", ("-m", "gemini-3.1-pro-preview", "--map", "mine=flash"), REFUSALS[2]),
    ],
)
def test_a_default_or_an_alias_that_is_gone_is_answered_by_the_replacement(
    server: ScriptedServer,
    dialect: str,
    model: str,
    arguments: tuple[str, ...],
    refusal: tuple[int, Any],
):
    status, error = refusal
    server.reply(json_reply(error, status=status))
    if "list" not in asked(server):
        server.reply(listing(*NAMES))
    server.reply(json_reply(text("One.")), json_reply(text("Two.")))
    before = len(server.requests)
    with serving(*arguments, **keyed(server)) as (url, process):
        for said in ("One.", "Two."):
            answer = post(url + path_of(dialect, model), body_of(dialect, model))
            assert said in json.dumps(answer)
        process.terminate()
        log = [json.loads(line) for line in process.communicate()[1].splitlines()]
    names = [name for name in asked(server)[before:] if name != "list"]
    assert names == ["gemini-3.8-flash", NEWER, NEWER]
    assert [line["servedBy"] for line in log] == [NEWER, NEWER]


@pytest.mark.requirement("TODAY-01")
def test_a_streamed_answer_comes_from_the_replacement_too(server: ScriptedServer):
    server.reply(json_reply(GONE, status=404), listing(*NAMES), sse(text("Hello.")))
    with serving(**keyed(server)) as (url, _):
        import urllib.request

        data = json.dumps(BODY | {"stream": True}).encode()
        request = urllib.request.Request(
            f"{url}/v1/messages", data, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            assert b"Hello." in answer.read()
    assert asked(server) == ["gemini-3.8-flash", "list", NEWER]


@pytest.mark.requirement("TODAY-01")
@for_each(
    ("dialect", "model", "arguments"),
    [
        ("openai", "gemini-3.8-flash", ()),
        ("anthropic", "models/gemini-3.8-flash", ("-m", "flash")),
        ("gemini", "gemini-3.8-flash", ()),
        ("openai", "gpt-5", ("-m", "gemini-3.8-flash")),
        ("openai", "mine", ("--map", "mine=gemini-3.8-flash")),
    ],
)
def test_a_name_that_someone_wrote_is_not_replaced_and_the_error_names_served_ones(
    server: ScriptedServer, dialect: str, model: str, arguments: tuple[str, ...]
):
    import urllib.error

    server.reply(json_reply(GONE, status=404))
    if "list" not in asked(server):
        server.reply(listing(*NAMES))
    with serving(*arguments, **keyed(server)) as (url, _):
        with pytest.raises(urllib.error.HTTPError) as caught:
            post(url + path_of(dialect, model), body_of(dialect, model))
        said = caught.value.read().decode()
    assert caught.value.code == 404
    assert NEWER in said
    assert NEWER not in asked(server)
