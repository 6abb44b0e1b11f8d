"""Models of servers on this machine: window, prompt size, results, structured answers, overflow."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from alhena import Agent
from alhena.agent import prompt_size
from alhena.config.settings import ModelSection, Settings
from alhena.library.options import AgentOptions
from alhena.models import OpenAICompatible
from alhena.models.providers.openai_compatible import openai_from
from alhena.wire.schema.grammar import grammar_schema
from tests.support.command import alhena
from tests.support.patience import PATIENCE_S
from tests.support.ports import reserved_port
from tests.support.server import Received, Reply, ScriptedServer, json_reply, sse

pytestmark = pytest.mark.requirement("LOCAL-01")

SIX = {
    *("read_file", "write_file", "replace", "list_directory", "search_file_content"),
    "run_shell_command",
}
MOST_TOKENS = 1_800
"""Tokens of the small prompt with its declarations, by 3 bytes a token: real tokenizers need
fewer."""
TOLD = {
    "llama.cpp": {"/v1/models": {"data": [{"id": "m", "meta": {"n_ctx": 8192}}]}},
    "llama.cpp by its properties": {
        "/v1/models": {"data": [{"id": "m", "meta": {"n_ctx_train": 131072}}]},
        "/props": {"default_generation_settings": {"n_ctx": 8192}},
    },
    "vLLM": {"/v1/models": {"data": [{"id": "other"}, {"id": "m", "max_model_len": 8192}]}},
    "Ollama": {
        "/v1/models": {"data": [{"id": "m", "owned_by": "library"}]},
        "/api/show": {
            "parameters": "temperature 1\nnum_ctx                        8192",
            "model_info": {"general.parameter_count": 3, "qwen3.context_length": 40960},
        },
    },
}


class LocalServer(ScriptedServer):
    """A model server that also tells windows. `answers` are given in turn, the last one again."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, Any] = {}
        self.answers: list[Callable[[dict[str, Any]], Reply]] = [said("Hello.")]
        self.asked: list[dict[str, Any]] = []
        self.questions: list[str] = []
        self.held: threading.Event | None = None

    def take(self, received: Received) -> Reply:
        if not received.path.endswith("/chat/completions"):
            self.questions.append(received.path)
            if self.held is not None:
                assert self.held.wait(PATIENCE_S)
        if received.path in self.told:
            return json_reply(self.told[received.path])
        if not received.path.endswith("/chat/completions"):
            return json_reply({"error": "no such path"}, 404)
        self.asked.append(received.json)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(received.json)

    @property
    def environ(self) -> dict[str, str]:
        return {"OPENAI_BASE_URL": f"{self.url}/v1", "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _stream(delta: dict[str, Any], finish: str) -> Reply:
    reply = sse({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    reply.pieces.append(b"data: [DONE]\n\n")
    return reply


def said(text: str) -> Callable[[dict[str, Any]], Reply]:
    message = {"role": "assistant", "content": text}
    whole = {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    def answer(body: dict[str, Any]) -> Reply:
        return _stream({"content": text}, "stop") if body.get("stream") else json_reply(whole)

    return answer


def calls(name: str, **args: Any) -> Callable[[dict[str, Any]], Reply]:
    function = {"name": name, "arguments": json.dumps(args)}
    call = {"index": 0, "id": f"call_{name}", "type": "function", "function": function}
    return lambda _body: _stream({"tool_calls": [call]}, "tool_calls")


def refused(message: str, kind: str) -> Callable[[dict[str, Any]], Reply]:
    body = {"error": {"code": 400, "message": message, "type": kind}}
    return lambda _body: json_reply(body, 400)


def tools_of(body: dict[str, Any]) -> set[str]:
    return {each["function"]["name"] for each in body.get("tools", ())}


def prompt_bytes(body: dict[str, Any]) -> int:
    """Bytes of the system prompt and the declarations of tools."""
    system = [each["content"] for each in body["messages"] if each["role"] == "system"]
    return len("".join(system).encode()) + len(json.dumps(body["tools"]).encode())


@pytest.fixture
def local() -> Iterator[LocalServer]:
    with LocalServer() as server:
        yield server


@pytest.mark.parametrize("kind", TOLD)
def test_a_small_window_that_the_server_tells_makes_the_prompt_small(
    local: LocalServer, kind: str
) -> None:
    local.told = TOLD[kind]
    assert alhena("-m", "openai:m", "-p", "Say hello", **local.environ).code == 0
    (body,) = local.asked
    assert body["model"] == "m"
    assert tools_of(body) <= SIX
    assert prompt_bytes(body) / 3 < MOST_TOKENS
    assert len(json.dumps(body)) / 3 < MOST_TOKENS + 400  # with the environment and the prompt


@pytest.mark.parametrize(
    ("host", "tells"),
    [
        ("api.openai.com", False),
        ("eu.api.openai.com", False),
        ("me.openai.azure.com", False),
        ("openrouter.ai", False),
        ("api.groq.com", False),
        ("notopenai.com", True),
        ("models.example.com", True),
        ("10.0.0.7", True),
    ],
)
def test_public_services_are_not_asked_for_windows(host: str, tells: bool) -> None:
    server = openai_from({"OPENAI_API_KEY": "k"}, f"https://{host}/v1")
    assert server.tells_windows is tells


@pytest.mark.parametrize("window", [8192, None])
async def test_agents_that_share_a_model_ask_for_its_window_once(
    local: LocalServer, window: int | None
) -> None:
    local.told = {"/v1/models": {"data": [{"id": "m", "max_model_len": window}]}}
    model = OpenAICompatible("m", base_url=f"{local.url}/v1")
    for _ in range(2):
        assert await Agent(model, isolated=True).ask("hi") == "Hello."
    assert local.questions == ["/v1/models"] + ["/props", "/api/show"] * (window is None)


async def test_a_server_that_leaves_the_question_open_holds_up_no_session(
    monkeypatch: pytest.MonkeyPatch, local: LocalServer
) -> None:
    """An answer that never comes is given up, and the prompt goes out."""
    monkeypatch.setattr(prompt_size, "PATIENCE_S", 0.05)
    local.held = threading.Event()
    model = OpenAICompatible("m", base_url=f"{local.url}/v1")
    assert await Agent(model, isolated=True).ask("hi") == "Hello."
    local.held.set()


def test_ollama_is_asked_at_its_own_address(local: LocalServer) -> None:
    local.told = {"/api/show": {"model_info": {"gemma3.context_length": 8192}}}
    host = local.url.removeprefix("http://")
    given = {"OLLAMA_HOST": host, "OPENAI_API_KEY": "sk-other-service", "OLLAMA_API_KEY": "own"}
    assert alhena("-m", "ollama:gemma3:270m", "-p", "hi", **given).code == 0
    (body,) = local.asked
    assert body["model"] == "gemma3:270m"
    assert tools_of(body) <= SIX


def test_the_prompt_is_as_large_as_a_person_says(local: LocalServer, tmp_path: Path) -> None:
    local.told = {"/v1/models": {"data": [{"id": "m", "max_model_len": 32768}]}}
    small = ("-m", "openai:m", "-y", "--small", "-p", "hi")
    assert alhena(*small, **local.environ).code == 0
    assert alhena("-m", "openai:m", "-p", "hi", **local.environ).code == 0
    home = Path.home() / ".gemini" / "settings.json"
    home.parent.mkdir(parents=True, exist_ok=True)
    home.write_text(json.dumps({"model": {"promptSize": "full"}}))
    local.told = TOLD["vLLM"]
    assert alhena("-m", "openai:m", "-p", "hi", **local.environ).code == 0
    home.write_text(json.dumps({"model": {"contextWindow": 4096}}))
    local.told = {}
    assert alhena("-m", "openai:m", "-p", "hi", **local.environ).code == 0
    asked, full, wanted, told = local.asked
    assert tools_of(asked) == SIX
    assert prompt_bytes(asked) / 3 < MOST_TOKENS
    assert {"google_web_search", "glob"} < tools_of(full)
    assert tools_of(wanted) == tools_of(full)
    assert tools_of(told) <= SIX


def test_long_results_are_short_for_a_small_window(local: LocalServer) -> None:
    local.told = {"/v1/models": {"data": [{"id": "m", "max_model_len": 4096}]}}
    Path("long.txt").write_text("".join(f"line {number} of a long file\n" for number in range(900)))
    local.answers = [
        calls("read_file", absolute_path="long.txt"),
        calls("search_file_content", pattern="line"),
        said("Done."),
    ]
    assert alhena("-m", "openai:m", "-p", "read", **local.environ).code == 0
    results = [each for each in local.asked[-1]["messages"] if each["role"] == "tool"]
    assert len(results) == 2
    assert all(100 < len(each["content"]) < 4096 for each in results)


class Town(msgspec.Struct):
    """A town."""

    name: str
    people: int


def _agent(server: LocalServer) -> Agent:
    environ = {"OPENAI_BASE_URL": f"{server.url}/v1", "HOME": str(Path.home())}
    return Agent("openai:m", options=AgentOptions(environ=environ, settings=Settings()))


async def test_a_structured_answer_is_asked_for_by_its_schema(local: LocalServer) -> None:
    local.answers = [
        calls("list_directory", path="."),
        said("It is a small town."),
        said('{"name": "Ulm", "people": 126000}'),
    ]
    async with _agent(local) as agent:
        result = await agent.run("Which town?", output=Town)
    assert result.output == Town("Ulm", 126000)
    assert tools_of(local.asked[0])
    assert "response_format" not in local.asked[0]
    assert "tools" not in local.asked[2]
    schema = local.asked[2]["response_format"]["json_schema"]["schema"]
    assert set(schema["properties"]) == {"name", "people"}


async def test_a_server_without_schemas_is_told_the_form_in_words(local: LocalServer) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if "response_format" in body:
            return refused("response_format is not supported", "invalid_request_error")(body)
        told = "JSON Schema" in body["messages"][0]["content"]
        return said('{"name": "Ulm", "people": 126000}' if told else "A town.")(body)

    local.answers = [answer]
    async with _agent(local) as agent:
        result = await agent.run("Which town?", output=Town)
    assert result.output == Town("Ulm", 126000)
    assert len(local.asked) == 3


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    places = (("openai", "OPENAI_BASE_URL", "127.0.0.1"), ("ollama", "OLLAMA_HOST", "localhost"))
    for name, variable, host in places:
        with reserved_port() as port:
            given = {variable: f"http://{host}:{port}/v1"}
            ran = alhena("-m", f"{name}:m", "-p", "hi", **given)
        assert ran.code == 1
        assert f"http://{host}:{port}: connection refused" in ran.err
        assert variable in ran.err
        assert "attempt" not in ran.err


OVERFLOWS = (
    ("request (9024 tokens) exceeds the available context size (8192 tokens), try increasing it",)
    * 2,
    ("too much", "exceed_context_size_error"),
    ("The input (9000 tokens) is longer than the model's context length (8192 tokens).", "bad"),
    ("the input length exceeds the context length", "api_error"),
)


@pytest.mark.parametrize(("message", "kind"), OVERFLOWS)
def test_an_overflow_makes_the_conversation_shorter_and_is_retried_once(
    local: LocalServer, message: str, kind: str
) -> None:
    local.told = TOLD["vLLM"]
    for number in range(3):
        Path(f"{number}.txt").write_text(f"{number} words " * 500)
    reads = [calls("read_file", absolute_path=f"{number}.txt") for number in range(3)]
    local.answers = [*reads, refused(message, kind), said("It fits.")]
    ran = alhena("-m", "openai:m", "-p", "read all three", **local.environ)
    assert ran.code == 0, ran.err
    assert "It fits." in ran.out
    assert len(json.dumps(local.asked[-1])) < len(json.dumps(local.asked[3]))


def test_an_overflow_that_stays_ends_the_run(local: LocalServer) -> None:
    local.told = TOLD["vLLM"]
    local.answers = [refused(*OVERFLOWS[0])]
    ran = alhena("-m", "openai:m", "-p", "hi", **local.environ)
    assert ran.code == 1
    assert len(local.asked) <= 2


def test_the_list_of_models_is_the_servers(local: LocalServer) -> None:
    local.told = {
        "/v1/models": {"data": [{"id": "one", "max_model_len": 4096}, {"id": "two"}]},
        "/api/show": {"model_info": {"llama.context_length": 8192}},
    }
    told = alhena("models", "list", "--json", **local.environ).json
    windows = {each["name"]: each["inputTokenLimit"] for each in told["models"]}
    assert windows["openai:one"] == 4096
    assert windows["openai:two"] == 8192
    assert "openai:two" in alhena("models", "list", "-m", "openai:one", **local.environ).out
    with reserved_port() as port:
        nobody = alhena("models", "list", "-m", "ollama:x", OLLAMA_HOST=f"127.0.0.1:{port}")
    assert "connection refused" in nobody.err


WIDE: dict[str, Any] = {
    "type": "object",
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    "properties": {
        "mail": {"type": "string", "format": "email", "pattern": "@", "maxLength": 5000},
        "kind": {"const": "a"},
        "size": {"oneOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
        "share": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.1},
        "any": {"description": "anything"},
        "both": {"allOf": [{"type": "object", "properties": {"x": {"type": "string"}}}]},
        "list": {"type": "array", "items": {"not": {"type": "null"}}, "maxItems": 9000},
        "node": {"$ref": "#/$defs/node"},
    },
    "required": ["mail", "gone"],
    "patternProperties": {"^x-": {"type": "string"}},
    "if": {"required": ["kind"]},
}


def test_schemas_are_reduced_to_what_grammar_engines_take() -> None:
    made = grammar_schema(WIDE)
    text = json.dumps(made)
    for keyword in ("$ref", "$defs", "oneOf", "allOf", "const", "patternProperties", "multipleOf"):
        assert f'"{keyword}":' not in text
    for keyword in ("pattern", "format", "maxLength", "if", "not", "exclusiveMinimum"):
        assert f'"{keyword}":' not in text
    assert made["required"] == ["mail"]
    assert made["properties"]["kind"]["enum"] == ["a"]
    assert made["properties"]["size"]["anyOf"][0]["minimum"] == 1
    assert "maxItems" not in made["properties"]["list"]
    assert "email" in made["properties"]["mail"]["description"]
    value = {"mail": "a@b", "gone": 1, "kind": "a", "size": None, "any": [1], "list": ["x"]}
    jsonschema.validate(value, made)


def test_what_a_server_gets_is_reduced(local: LocalServer) -> None:
    alhena("-m", "openai:m", "-p", "hi", **local.environ)
    assert '"minimum"' in json.dumps(local.asked[0]["tools"])  # of whole numbers it is kept
    assert ModelSection().prompt_size is None
