import asyncio
import platform
import sys
import threading

import pytest

from alhena.errors import ConfigError
from alhena.http.addresses import parse_endpoint
from alhena.models.catalogue import thinking_config
from alhena.models.providers.gemini_api import GeminiApi, GeminiService, service_from
from alhena.version import __version__
from alhena.wire.content import text_content
from alhena.wire.request import FunctionDeclaration, GenerationConfig, ToolDeclarations
from tests.models.asking import (
    KEY,
    MODEL,
    api,
    asked,
    chunks,
    contents,
    event,
    listening,
    read_request,
    response,
    texts,
)
from tests.support.server import ScriptedServer, chunk, json_reply, sse, text

DECLARATIONS = ToolDeclarations(
    function_declarations=(
        FunctionDeclaration(
            name="read_file",
            description="Reads a file.",
            parameters_json_schema={"type": "object", "properties": {"path": {"type": "string"}}},
        ),
    )
)


@pytest.mark.requirement("WIRE-03")
async def test_a_stream_is_posted_to_the_model_with_key_agent_and_type(server: ScriptedServer):
    server.reply(sse(text("hello")))
    generator = api(server.url)
    assert texts(await chunks(generator)) == ["hello"]
    await generator.aclose()
    [request] = server.requests
    assert request.method == "POST"
    assert request.path == f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
    assert request.headers["x-goog-api-key"] == KEY
    assert request.headers["content-type"] == "application/json"
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    agent = f"alhena/{__version__}/{MODEL} ({sys.platform}; {machine}; terminal)"
    assert request.headers["user-agent"] == agent
    assert request.headers["host"] == server.url.removeprefix("http://")
    assert int(request.headers["content-length"]) == len(request.body)
    assert "authorization" not in request.headers


@pytest.mark.requirement("WIRE-03")
async def test_a_whole_answer_is_posted_to_generate_content(server: ScriptedServer):
    server.reply(json_reply(text("hello")))
    generator = api(server.url)
    whole = await generator.generate(asked())
    await generator.aclose()
    assert whole.parts[0].text == "hello"
    assert server.requests[0].path == f"/v1beta/models/{MODEL}:generateContent"


@pytest.mark.requirement("WIRE-01", "WIRE-02")
async def test_streaming_and_whole_answers_send_the_same_body(server: ScriptedServer):
    server.reply(sse(text("a")), json_reply(text("b")))
    request = asked(
        "read it",
        system_instruction=text_content("user", "Be brief."),
        tools=(DECLARATIONS,),
        generation_config=GenerationConfig(temperature=0.5, thinking_config=thinking_config(MODEL)),
    )
    generator = api(server.url)
    await chunks(generator, request)
    await generator.generate(request)
    await generator.aclose()
    streamed, whole = server.requests
    assert streamed.body == whole.body
    assert streamed.json == {
        "contents": [{"parts": [{"text": "read it"}], "role": "user"}],
        "systemInstruction": {"parts": [{"text": "Be brief."}], "role": "user"},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "read_file",
                        "description": "Reads a file.",
                        "parametersJsonSchema": {
                            "type": "object",
                            "properties": {"path": {"type": "string"}},
                        },
                    }
                ]
            }
        ],
        "generationConfig": {
            "temperature": 0.5,
            "thinkingConfig": {"thinkingBudget": -1, "includeThoughts": True},
        },
    }


@pytest.mark.requirement("WIRE-09")
@pytest.mark.parametrize(
    ("model", "config"),
    [
        ("gemini-2.5-flash", {"thinkingBudget": -1, "includeThoughts": True}),
        ("gemini-3.1-pro-preview", {"thinkingLevel": "HIGH", "includeThoughts": True}),
        ("gemini-2.0-flash", None),
    ],
)
async def test_thinking_is_asked_for_where_the_model_supports_it(
    server: ScriptedServer, model: str, config: object
):
    server.reply(sse(text("x")))
    generator = api(server.url)
    settings = GenerationConfig(thinking_config=thinking_config(model))
    await chunks(generator, asked(model=model, generation_config=settings))
    await generator.aclose()
    assert server.requests[0].json.get("generationConfig", {}).get("thinkingConfig") == config


@pytest.mark.requirement("WIRE-08")
async def test_counts_and_all_token_usage_reach_the_caller(server: ScriptedServer):
    usage = {
        "promptTokenCount": 11,
        "candidatesTokenCount": 12,
        "thoughtsTokenCount": 13,
        "toolUsePromptTokenCount": 14,
        "cachedContentTokenCount": 15,
        "totalTokenCount": 50,
    }
    server.reply(
        sse(chunk({"text": "x"}, finish="STOP", usage=usage)), json_reply({"totalTokens": 31})
    )
    generator = api(server.url)
    [last] = await chunks(generator)
    total = await generator.count_tokens(contents("a", "b"), model=MODEL)
    await generator.aclose()
    assert total == 31
    assert server.requests[1].path == f"/v1beta/models/{MODEL}:countTokens"
    assert [c["parts"][0]["text"] for c in server.requests[1].json["contents"]] == ["a", "b"]
    counts = last.usage_metadata
    assert counts is not None
    assert (counts.prompt_token_count, counts.candidates_token_count) == (11, 12)
    assert (counts.thoughts_token_count, counts.tool_use_prompt_token_count) == (13, 14)
    assert (counts.cached_content_token_count, counts.total_token_count) == (15, 50)


async def test_each_content_gets_its_vector(server: ScriptedServer):
    server.reply(json_reply({"embeddings": [{"values": [0.5, 1]}, {"values": [2]}]}))
    generator = api(server.url)
    embedded = await generator.embed(contents("a", "b"), model="gemini-embedding-001")
    await generator.aclose()
    assert [one.values for one in embedded.embeddings] == [(0.5, 1.0), (2.0,)]
    assert server.requests[0].path == "/v1beta/models/gemini-embedding-001:batchEmbedContents"
    first = server.requests[0].json["requests"][0]
    assert first == {
        "model": "models/gemini-embedding-001",
        "content": {"parts": [{"text": "a"}], "role": "user"},
    }


async def test_the_turns_of_a_session_use_one_connection(server: ScriptedServer):
    server.reply(*(sse(text(str(turn))) for turn in range(5)), json_reply({"totalTokens": 1}))
    generator = api(server.url)
    said = [texts(await chunks(generator)) for _ in range(5)]
    await generator.count_tokens(contents("a"), model=MODEL)
    await generator.aclose()
    assert said == [["0"], ["1"], ["2"], ["3"], ["4"]]
    assert server.connections == 1


async def test_requests_at_the_same_time_do_not_mix(server: ScriptedServer):
    hold = threading.Event()
    server.reply(sse(text("slow", None), text("er"), hold=hold), sse(text("fast")))
    generator = api(server.url)
    slow = generator.stream(asked("first"))
    assert texts([await anext(slow)]) == ["slow"]
    assert texts(await chunks(generator, asked("second"))) == ["fast"]
    hold.set()
    assert texts([rest async for rest in slow]) == ["er"]
    await generator.aclose()
    assert server.connections == 2


async def test_closing_the_iterator_closes_the_stream(server: ScriptedServer):
    server.reply(sse(text("one", None), text("two"), hold=threading.Event()))
    generator = api(server.url)
    stream = generator.stream(asked())
    assert texts([await anext(stream)]) == ["one"]
    await stream.aclose()
    assert await asyncio.to_thread(server.disconnected.wait, 5)
    await generator.aclose()


@pytest.mark.parametrize("pieces", [1, 2])
async def test_cancelling_closes_the_stream(server: ScriptedServer, pieces: int):
    reply = sse(*(text(str(n), None) for n in range(pieces)), hold=threading.Event())
    server.reply(reply)
    generator = api(server.url)
    came = asyncio.Event()

    async def watch() -> None:
        async for _ in generator.stream(asked()):
            came.set()

    task = asyncio.create_task(watch())
    if pieces > 1:
        await came.wait()
    else:
        while not server.requests:
            await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(server.disconnected.wait, 5)
    await generator.aclose()


async def test_prefix_version_bearer_and_custom_headers_are_honoured(server: ScriptedServer):
    server.reply(sse(text("ok")))
    generator = api(
        f"{server.url}/gate%20way/x/",
        GOOGLE_GENAI_API_VERSION="v1alpha",
        GEMINI_API_KEY_AUTH_MECHANISM="bearer",
        GEMINI_CLI_CUSTOM_HEADERS="X-Team: a, b,User-Agent:mine/1",
    )
    await chunks(generator)
    await generator.aclose()
    [request] = server.requests
    path = f"/gate%20way/x/v1alpha/models/{MODEL}:streamGenerateContent?alt=sse"
    assert request.path == path
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-goog-api-key"] == KEY
    assert request.headers["x-team"] == "a, b"
    assert request.headers["user-agent"] == "mine/1"


async def test_an_empty_key_is_sent_as_an_empty_header(server: ScriptedServer):
    server.reply(sse(text("ok")))
    generator = api(server.url, key="", GEMINI_API_KEY_AUTH_MECHANISM="bearer")
    await chunks(generator)
    await generator.aclose()
    assert "authorization" not in server.requests[0].headers
    assert server.requests[0].headers["x-goog-api-key"] == ""


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("models/gemini-2.5-pro", "models/gemini-2.5-pro"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("../../files?x=1#y", "models/..%2F..%2Ffiles%3Fx%3D1%23y"),
        ("models/../corpora", "models/..%2Fcorpora"),
        ("..", "models/.."),
        ("a b\r\nHost: evil", "models/a%20b%0D%0AHost%3A%20evil"),
        ("gemini-2.5-pro:countTokens", "models/gemini-2.5-pro%3AcountTokens"),
        ("mod\udcffel", "models/mod%3Fel"),
    ],
)
async def test_no_model_name_changes_the_endpoint(server: ScriptedServer, model: str, path: str):
    server.reply(sse(text("ok")))
    generator = api(server.url)
    await chunks(generator, asked(model=model))
    await generator.aclose()
    assert server.requests[0].path == f"/v1beta/{path}:streamGenerateContent?alt=sse"


async def test_a_custom_host_replaces_the_computed_one(server: ScriptedServer):
    server.reply(sse(text("ok")))
    generator = api(server.url, GEMINI_CLI_CUSTOM_HEADERS="Host: tenant.example")
    await chunks(generator)
    await generator.aclose()
    assert server.requests[0].headers["host"] == "tenant.example"


async def test_closing_the_generator_lets_a_running_stream_end():
    closed, gone = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        first, second = event("one", None), event("two")
        writer.write(response(first, content_length=str(len(first + second))))
        await closed.wait()
        writer.write(second)
        assert await reader.read() == b""
        gone.set()

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}")
        stream = generator.stream(asked())
        first = await anext(stream)
        await generator.aclose()
        closed.set()
        assert texts([first, *[rest async for rest in stream]]) == ["one", "two"]
        await gone.wait()


def test_neither_the_key_nor_a_header_value_shows_in_a_repr():
    environ = {"GEMINI_CLI_CUSTOM_HEADERS": "X-Secret: hush-hush"}
    service = service_from(environ, KEY)
    shown = repr(service) + str(service) + repr(GeminiApi(service))
    assert KEY not in shown
    assert "hush-hush" not in shown


@pytest.mark.parametrize(
    "headers",
    ["X-A hush", "X-A: hush\x01", "Content-Length: hush", "X A: hush", "X-A: h\u00fcsh"],
)
def test_custom_headers_that_cannot_be_sent_are_named_without_their_value(headers: str):
    with pytest.raises(ConfigError) as caught:
        service_from({"GEMINI_CLI_CUSTOM_HEADERS": headers}, KEY)
    assert "GEMINI_CLI_CUSTOM_HEADERS" in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_service_of_ones_own_is_built_without_an_environment():
    service = GeminiService(api_key=KEY, endpoint=parse_endpoint("https://gemini.example", "url"))
    assert repr(service) == "GeminiService(https://gemini.example/v1beta)"
