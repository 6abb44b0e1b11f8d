"""Model objects that programs make and agents share."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import alhena.models
from alhena import Agent, ConfigError
from alhena.errors import NetworkError
from alhena.models import Anthropic, CodeAssist, Gemini, OpenAICompatible, Recorded, Vertex
from alhena.models.errors import CredentialsError, RecordingError, RequestRejectedError
from alhena.models.retry import REPLAY
from alhena.testing import TestModel
from tests.support.each import for_each
from tests.support.server import Reply, ScriptedServer, json_reply, sse, text

pytestmark = pytest.mark.requirement("LIB-08")

KEY = "a-key-of-tests"
FINAL = "final_answer"


def test_the_public_models_are_these():
    names = """
        Anthropic Candidate CodeAssist EmbedContentResponse Fallback Gemini GenerateContentRequest
        GenerateContentResponse Limited ModelSettings OpenAICompatible Recorded RetryPolicy
        TestModel Vertex
    """
    assert dir(alhena.models) == names.split()
    assert alhena.models.TestModel is TestModel
    with pytest.raises(AttributeError, match="no attribute 'Gemni'"):
        _ = alhena.models.Gemni  # pyright: ignore[reportAttributeAccessIssue]


async def test_agents_share_a_model_and_its_connection_and_leave_it_open(
    project: Path, server: ScriptedServer
):
    server.reply(*(sse(text(str(number))) for number in range(20)))
    async with Gemini("gemini-2.5-flash", api_key=KEY, base_url=server.url) as model:
        agents = [Agent(model, cwd=project, isolated=True) for _ in range(20)]
        answers = [await agent.ask("go") for agent in agents]
    assert answers == [str(number) for number in range(20)]
    assert server.connections == 1
    assert {request.headers["x-goog-api-key"] for request in server.requests} == {KEY}
    assert agents[0].model == model.name == "gemini-2.5-flash"
    assert repr(model) == "Gemini('gemini-2.5-flash')"


async def test_agents_may_use_a_model_at_the_same_time(project: Path, server: ScriptedServer):
    server.reply(*[sse(text("ok"))] * 10)
    async with Gemini("gemini-2.5-flash", api_key=KEY, base_url=server.url) as model:
        agents = [Agent(model, cwd=project, isolated=True) for _ in range(10)]
        assert await asyncio.gather(*(agent.ask("go") for agent in agents)) == ["ok"] * 10


async def test_a_failed_request_is_sent_again_as_for_a_named_model(
    project: Path, server: ScriptedServer
):
    server.reply(Reply(status=503), sse(text("ok")))
    async with Gemini("gemini-2.5-flash", api_key=KEY, base_url=server.url) as model:
        model.policy = REPLAY
        assert await Agent(model, cwd=project, isolated=True).ask("go") == "ok"
    assert len(server.requests) == 2


def openai_answer() -> Reply:
    choice = {"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}
    return sse({"id": "1", "choices": [choice]})


@pytest.mark.parametrize("name", ["qwen3:8b", "openai:qwen3:8b"])
async def test_a_model_of_another_service_has_its_prefix_and_is_asked_by_its_name(
    project: Path, server: ScriptedServer, name: str
):
    server.reply(openai_answer())
    async with OpenAICompatible(name, base_url=f"{server.url}/v1") as model:
        agent = Agent(model, cwd=project, isolated=True)
        assert await agent.ask("go") == "ok"
    assert agent.model == model.name == "openai:qwen3:8b"
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].json["model"] == "qwen3:8b"


async def test_the_final_tool_of_an_output_is_used_where_the_service_takes_no_schema(
    project: Path, server: ScriptedServer
):
    function = {"name": FINAL, "arguments": '{"value": 7}'}
    call = {"index": 0, "id": "1", "type": "function", "function": function}
    choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    server.reply(sse({"id": "1", "choices": [choice]}))
    async with OpenAICompatible("qwen3", base_url=server.url) as model:
        agent = Agent(model, cwd=project, isolated=True, builtin_tools=())
        assert await agent.ask("go", output=int) == 7
    names = [tool["function"]["name"] for tool in server.requests[0].json["tools"]]
    assert names == [FINAL]


def test_keys_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setenv("GOOGLE_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    for made in (Gemini("m"), Vertex("m"), OpenAICompatible("m"), Anthropic("m")):
        assert KEY not in repr(made)
        assert KEY not in repr(made.chosen)


async def test_a_given_key_replaces_each_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, project: Path, server: ScriptedServer
):
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another")
    server.reply(*[json_reply({}, 400)] * 2)  # once more without marks for the cache
    async with Anthropic("claude", api_key=KEY, base_url=server.url) as model:
        with pytest.raises(RequestRejectedError):
            await Agent(model, cwd=project, isolated=True).ask("go")
    assert server.requests[0].headers["x-api-key"] == KEY
    assert "authorization" not in server.requests[0].headers


async def test_a_service_that_is_not_there_is_named_by_the_argument(project: Path):
    async with Gemini("m", api_key=KEY, base_url="http://127.0.0.1:1") as model:
        model.policy = REPLAY
        with pytest.raises(NetworkError, match="base_url"):
            await Agent(model, cwd=project, isolated=True).ask("go")


async def test_a_recording_gives_its_answers(project: Path, tmp_path: Path):
    file = tmp_path / "recorded.jsonl"
    answer = '{"candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}]}'
    file.write_text(f'{{"method": "generateContentStream", "response": [{answer}]}}\n')
    async with Recorded(file) as model:
        assert await Agent(model, cwd=project).ask("go") == "ok"


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Gemini(5), TypeError, "name has to be text, not int"),  # pyright: ignore[reportArgumentType]
    (lambda: Gemini(None), TypeError, "name has to be text"),  # pyright: ignore[reportArgumentType]
    (lambda: Gemini(""), ConfigError, "name is empty"),
    (lambda: Gemini("demo"), ConfigError, "'demo' names no Gemini model"),
    (lambda: Gemini("openai:x"), ConfigError, "OpenAICompatible and Anthropic"),
    (lambda: Gemini("m"), CredentialsError, "Pass api_key, or set GEMINI_API_KEY"),
    (lambda: Gemini("m", api_key=b"k"), TypeError, "api_key has to be text"),  # pyright: ignore[reportArgumentType]
    (lambda: Gemini("m", api_key="a b"), ConfigError, "api_key contains blanks"),
    (lambda: Gemini("m", api_key=KEY, base_url="ftp://x"), ConfigError, "base_url is no usable"),
    (lambda: Gemini("m", api_key=KEY, base_url=""), ConfigError, "base_url is empty"),
    (lambda: Vertex("m"), CredentialsError, "Pass project and location, or api_key"),
    (lambda: Vertex("m", project="p"), CredentialsError, "Pass project and location"),
    (lambda: Vertex("m", project="p", api_key=KEY), ConfigError, "excludes project and location"),
    (lambda: Vertex("m", project="p", location="x y"), ConfigError, "location is no location"),
    (lambda: CodeAssist("m"), CredentialsError, "alhena auth login"),
    (lambda: OpenAICompatible("m"), CredentialsError, "Pass api_key, or set OPENAI_API_KEY"),
    (lambda: OpenAICompatible("m", base_url="x"), ConfigError, "base_url is no usable URL"),
    (lambda: OpenAICompatible(""), ConfigError, "name is empty"),
    (lambda: Anthropic("m"), CredentialsError, "Pass api_key, or set ANTHROPIC_API_KEY"),
    (lambda: Recorded("none.jsonl"), RecordingError, "cannot read the recorded responses"),
]


@for_each(("make", "kind", "said"), WRONG)
def test_wrong_arguments_are_named(make: Callable[[], Any], kind: type[Exception], said: str):
    with pytest.raises(kind, match=re.escape(said)) as caught:
        make()
    assert isinstance(caught.value, kind)
    assert KEY not in str(caught.value)
    assert " --" not in str(caught.value)
