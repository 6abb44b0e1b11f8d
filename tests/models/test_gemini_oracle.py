"""GeminiApi sends the same request as google-genai."""

from typing import Any

import pytest
from google import genai
from google.genai import types

from alhena.models.catalogue import thinking_config
from alhena.wire.content import Blob, Content, FunctionCall, FunctionResponse, Part
from alhena.wire.encode import EncodedContent
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ToolConfig,
    ToolDeclarations,
)
from tests.models.asking import KEY, MODEL, api, chunks
from tests.support.server import ScriptedServer, json_reply, sse, text

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}

CONTENTS = (
    Content(role="user", parts=(Part(text="look \u2028 \u00e9"), Part(text="now"))),
    Content(
        role="model",
        parts=(
            Part(
                function_call=FunctionCall(id="c1", name="read_file", args={"path": "a"}),
                thought_signature="c2ln",
            ),
        ),
    ),
    Content(
        role="user",
        parts=(
            Part(
                function_response=FunctionResponse(
                    id="c1", name="read_file", response={"output": "text"}
                )
            ),
            Part(inline_data=Blob(mime_type="image/png", data="iVBORw0KGgo=")),
        ),
    ),
)

OURS = GenerateContentRequest(
    model=MODEL,
    contents=tuple(EncodedContent(content) for content in CONTENTS),
    config=GenerateContentConfig(
        system_instruction=Content(role="user", parts=(Part(text="Be brief."),)),
        tools=(
            ToolDeclarations(
                function_declarations=(
                    FunctionDeclaration(
                        name="read_file",
                        description="Reads a file.",
                        parameters_json_schema=SCHEMA,
                    ),
                )
            ),
        ),
        tool_config=ToolConfig(
            function_calling_config=FunctionCallingConfig(
                mode=FunctionCallingMode.ANY, allowed_function_names=("read_file",)
            )
        ),
        safety_settings=({"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"},),
        generation_config=GenerationConfig(
            temperature=0.5,
            top_p=0.95,
            top_k=64,
            max_output_tokens=100,
            stop_sequences=("END",),
            seed=7,
            response_mime_type="application/json",
            response_json_schema={"type": "object"},
            thinking_config=thinking_config(MODEL),
        ),
    ),
)

THEIRS: dict[str, Any] = {
    "model": MODEL,
    "contents": [
        types.Content(
            role="user", parts=[types.Part(text="look \u2028 \u00e9"), types.Part(text="now")]
        ),
        types.Content(
            role="model",
            parts=[
                types.Part(
                    function_call=types.FunctionCall(id="c1", name="read_file", args={"path": "a"}),
                    thought_signature=b"sig",
                )
            ],
        ),
        types.Content(
            role="user",
            parts=[
                types.Part(
                    function_response=types.FunctionResponse(
                        id="c1", name="read_file", response={"output": "text"}
                    )
                ),
                types.Part(
                    inline_data=types.Blob(mime_type="image/png", data=b"\x89PNG\r\n\x1a\n")
                ),
            ],
        ),
    ],
    "config": types.GenerateContentConfig(
        system_instruction=types.Content(role="user", parts=[types.Part(text="Be brief.")]),
        tools=[
            types.Tool(
                function_declarations=[
                    types.FunctionDeclaration(
                        name="read_file",
                        description="Reads a file.",
                        parameters_json_schema=SCHEMA,
                    )
                ]
            )
        ],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(
                mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["read_file"]
            )
        ),
        safety_settings=[
            types.SafetySetting(
                category=types.HarmCategory.HARM_CATEGORY_HARASSMENT,
                threshold=types.HarmBlockThreshold.BLOCK_ONLY_HIGH,
            )
        ],
        temperature=0.5,
        top_p=0.95,
        top_k=64,
        max_output_tokens=100,
        stop_sequences=["END"],
        seed=7,
        response_mime_type="application/json",
        response_json_schema={"type": "object"},
        thinking_config=types.ThinkingConfig(thinking_budget=-1, include_thoughts=True),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    ),
}


def camel(value: Any) -> Any:
    """`value` with camelCase keys: the official client writes some as snake_case, which the API
    takes as well. No value here has keys of its own that this would change."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if isinstance(value, dict):
        return {to_camel(key): camel(item) for key, item in value.items()}
    return value


def to_camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest)


def client(server: ScriptedServer) -> genai.Client:
    """The official client, held to the API version that the reference uses."""
    options = types.HttpOptions(base_url=server.url, api_version="v1beta")
    return genai.Client(api_key=KEY, http_options=options)


@pytest.mark.requirement("WIRE-01", "WIRE-02", "WIRE-03")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_requests_are_those_of_the_official_client(server: ScriptedServer):
    server.reply(sse(text("x")), json_reply(text("x")), json_reply(text("x")), sse(text("x")))
    official = client(server)
    list(official.models.generate_content_stream(**THEIRS))
    official.models.generate_content(**THEIRS)
    generator = api(server.url)
    await generator.generate(OURS)
    await chunks(generator, OURS)
    await generator.aclose()
    official.close()
    their_stream, their_whole, our_whole, our_stream = server.requests
    assert our_stream.path == their_stream.path
    assert our_whole.path == their_whole.path
    assert our_stream.json == camel(their_stream.json)
    assert our_whole.json == camel(their_whole.json)
    for header in ("x-goog-api-key", "content-type"):
        assert our_stream.headers[header] == their_stream.headers[header]


@pytest.mark.requirement("WIRE-08")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_counting_asks_as_the_official_client_does(server: ScriptedServer):
    server.reply(json_reply({"totalTokens": 3}), json_reply({"totalTokens": 3}))
    official = client(server)
    counted = official.models.count_tokens(model=MODEL, contents=THEIRS["contents"])
    official.close()
    generator = api(server.url)
    assert await generator.count_tokens(OURS.contents, model=MODEL) == counted.total_tokens
    await generator.aclose()
    theirs, ours = server.requests
    assert (ours.path, ours.json) == (theirs.path, camel(theirs.json))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_embedding_asks_as_the_official_client_does(server: ScriptedServer):
    reply = json_reply({"embeddings": [{"values": [1]}, {"values": [2]}]})
    server.reply(reply, reply)
    official = client(server)
    content = [types.Content(role="user", parts=[types.Part(text=word)]) for word in "ab"]
    official.models.embed_content(model="gemini-embedding-001", contents=content)
    official.close()
    generator = api(server.url)
    ours = [EncodedContent(Content(role="user", parts=(Part(text=word),))) for word in "ab"]
    await generator.embed(ours, model="gemini-embedding-001")
    await generator.aclose()
    theirs, mine = server.requests
    assert (mine.path, mine.json) == (theirs.path, camel(theirs.json))
