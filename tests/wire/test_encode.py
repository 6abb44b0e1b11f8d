"""Bodies: each content is encoded once, and the official client sends the same."""

import base64
import json
import math
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from google import genai
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from alhena.wire.content import (
    MODEL,
    USER,
    Blob,
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    FunctionResponsePart,
    Part,
    VideoMetadata,
    many_encoder,
    text_content,
)
from alhena.wire.encode import (
    EncodedContent,
    encode_count_tokens,
    encode_request,
    resource_name,
)
from alhena.wire.errors import EncodeError
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ThinkingConfig,
    ToolConfig,
    ToolDeclarations,
)
from tests.support.server import ScriptedServer, json_reply, text

SIGNATURE = base64.b64encode(b"opaque signature").decode()
PNG = base64.b64encode(b"\x89PNG\r\n").decode()

HISTORY = (
    Content(role=USER, parts=(Part(text="context"), Part(text="do <it> \u2028 é 😀"))),
    Content(
        role=MODEL,
        parts=(
            Part(
                function_call=FunctionCall(id="1", name="read_file", args={"path": "a", "n": 2}),
                thought_signature=SIGNATURE,
            ),
            Part(function_call=FunctionCall(id="2", name="list_directory")),
        ),
    ),
    Content(
        role=USER,
        parts=(
            Part(
                function_response=FunctionResponse(
                    id="1", name="read_file", response={"output": "x"}
                )
            ),
            Part(
                function_response=FunctionResponse(
                    id="2",
                    name="list_directory",
                    response={},
                    parts=(
                        FunctionResponsePart(inline_data=Blob(mime_type="image/png", data=PNG)),
                    ),
                )
            ),
            Part(inline_data=Blob(mime_type="image/png", data=PNG)),
            Part(
                file_data=FileData(file_uri="https://files/v", mime_type="video/mp4"),
                video_metadata=VideoMetadata(start_offset="1s", end_offset="2s", fps=1.5),
            ),
        ),
    ),
)

CONFIG = GenerateContentConfig(
    system_instruction=text_content(USER, "be brief"),
    tools=(
        ToolDeclarations(
            function_declarations=(
                FunctionDeclaration(
                    name="read_file",
                    description="Reads.",
                    parameters_json_schema={
                        "type": "object",
                        "properties": {"path": {"type": "string"}},
                        "required": ["path"],
                    },
                ),
                FunctionDeclaration(name="list_directory", description="Lists."),
            )
        ),
    ),
    tool_config=ToolConfig(
        function_calling_config=FunctionCallingConfig(
            mode=FunctionCallingMode.ANY, allowed_function_names=("read_file",)
        )
    ),
    safety_settings=({"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"},),
    cached_content="cachedContents/c1",
    generation_config=GenerationConfig(
        temperature=1,
        top_p=0.95,
        top_k=64,
        max_output_tokens=100,
        stop_sequences=("END",),
        seed=7,
        response_mime_type="application/json",
        response_json_schema={"type": "object"},
        thinking_config=ThinkingConfig(thinking_budget=-1, include_thoughts=True),
    ),
)


def request(
    contents: Sequence[Content] = HISTORY, config: GenerateContentConfig = CONFIG
) -> GenerateContentRequest:
    return GenerateContentRequest(
        model="gemini-2.5-flash",
        contents=tuple(EncodedContent(content) for content in contents),
        config=config,
        prompt_id="p",
        session_id="s",
    )


def official_client(server: ScriptedServer) -> genai.Client:
    return genai.Client(api_key="x", http_options=types.HttpOptions(base_url=server.url))


def camel(value: Any) -> Any:
    """The official client leaves some keys in snake_case, which the API takes as well."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    free = ("args", "response", "parametersJsonSchema", "responseJsonSchema")
    named = {re.sub("_(.)", lambda hit: hit[1].upper(), key): item for key, item in value.items()}
    return {key: item if key in free else camel(item) for key, item in named.items()}


def test_the_official_client_sends_the_same_body_for_the_same_request(
    server: ScriptedServer,
) -> None:
    server.reply(json_reply(text("ok")))
    config = CONFIG
    assert config.generation_config is not None
    assert config.tool_config is not None
    client = official_client(server)
    client.models.generate_content(
        model="gemini-2.5-flash",
        contents=[types.Content.model_validate(msgspec.to_builtins(item)) for item in HISTORY],
        config=types.GenerateContentConfig.model_validate(
            {
                **msgspec.to_builtins(config.generation_config),
                "systemInstruction": msgspec.to_builtins(config.system_instruction),
                "tools": msgspec.to_builtins(config.tools),
                "toolConfig": msgspec.to_builtins(config.tool_config),
                "safetySettings": msgspec.to_builtins(config.safety_settings),
                "cachedContent": config.cached_content,
                "automaticFunctionCalling": {"disable": True},
            }
        ),
    )
    assert json.loads(encode_request(request())) == camel(server.requests[0].json)


def test_keys_come_in_a_fixed_order_and_absent_settings_are_absent() -> None:
    config = msgspec.structs.replace(CONFIG, labels={"team": "a"})
    assert list(json.loads(encode_request(request(config=config)))) == snapshot(
        [
            "contents",
            "systemInstruction",
            "tools",
            "toolConfig",
            "safetySettings",
            "cachedContent",
            "labels",
            "generationConfig",
        ]
    )
    minimal = request([text_content(USER, "hi")], GenerateContentConfig())
    assert encode_request(minimal) == snapshot(
        b'{"contents":[{"parts":[{"text":"hi"}],"role":"user"}]}'
    )
    assert encode_request(request([], GenerateContentConfig())) == snapshot(b'{"contents":[]}')


def test_a_content_is_encoded_once_however_many_requests_it_is_part_of() -> None:
    encoded: list[Content] = []

    def encode_spaciously(content: Content) -> bytes:
        encoded.append(content)
        return json.dumps(msgspec.to_builtins(content), indent=3).encode()

    contents: tuple[EncodedContent, ...] = ()
    for content in HISTORY:
        contents += (EncodedContent(content, encode_spaciously),)
        turn = GenerateContentRequest(model="m", contents=contents, config=CONFIG)
        body = encode_request(turn)
        joined = b",".join(bytes(item.raw) for item in contents)
        assert body.startswith(b'{"contents":[' + joined + b"],")
        assert joined in encode_count_tokens(contents)
    assert encoded == list(HISTORY)


def test_an_encoded_content_knows_its_bytes() -> None:
    one = EncodedContent(text_content(USER, "é"))
    assert len(one) == len(b'{"parts":[{"text":"\xc3\xa9"}],"role":"user"}')
    assert one == EncodedContent(text_content(USER, "é"))
    assert hash(one) == hash(EncodedContent(text_content(USER, "é")))
    assert one != EncodedContent(text_content(USER, "e"))


ODD = "caf\udce9"


def test_file_names_that_are_no_utf_8_never_break_a_request() -> None:
    part = Part(
        function_response=FunctionResponse(name="glob", response={"output": ODD, ODD: [ODD]})
    )
    content = EncodedContent(Content(role=USER, parts=(Part(text=ODD), part)))
    assert content.content.parts[0].text == "caf\ufffd"
    config = GenerateContentConfig(
        system_instruction=text_content(USER, ODD),
        tools=(
            ToolDeclarations(
                function_declarations=(FunctionDeclaration(name="f", description=ODD),)
            ),
        ),
        labels={"a": ODD},
    )
    body = encode_request(GenerateContentRequest(model="m", contents=(content,), config=config))
    assert "caf\ufffd" in body.decode("utf-8")
    plain = json.loads(body)
    assert plain["contents"][0]["parts"][1]["functionResponse"]["response"] == {
        "output": "caf\ufffd",
        "caf\ufffd": ["caf\ufffd"],
    }
    assert plain["systemInstruction"]["parts"] == [{"text": "caf\ufffd"}]


def test_numbers_json_cannot_carry_are_sent_as_their_names_not_as_null() -> None:
    values = {"a": math.nan, "b": [math.inf, {"c": -math.inf}], "d": 1.5, "e": None}
    for part in (
        Part(function_response=FunctionResponse(name="f", response=values)),
        Part(function_call=FunctionCall(name="f", args=values)),
        Part(text="x", part_metadata=values),
    ):
        encoded = EncodedContent(Content(role=USER, parts=(part,)))
        assert b'{"a":"NaN","b":["Infinity",{"c":"-Infinity"}],"d":1.5,"e":null}' in bytes(
            encoded.raw
        )
        assert msgspec.json.decode(encoded.raw, type=Content) == encoded.content


def test_a_generation_setting_that_is_no_number_is_refused() -> None:
    config = GenerateContentConfig(generation_config=GenerationConfig(top_p=math.nan))
    with pytest.raises(EncodeError, match="top_p is nan"):
        encode_request(request(config=config))


def endless(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_values_without_a_json_form_are_a_typed_error() -> None:
    cyclic: dict[str, Any] = {}
    cyclic["self"] = cyclic
    for value in (cyclic, endless(100_000), {"x": object()}, {"x": {(1, 2): 3}}):
        with pytest.raises(EncodeError):
            EncodedContent(
                Content(
                    role=USER,
                    parts=(Part(function_response=FunctionResponse(name="f", response=value)),),
                )
            )


def test_model_names_are_given_their_collection_once() -> None:
    assert resource_name("gemini-2.5-pro") == "models/gemini-2.5-pro"
    assert resource_name("models/gemini-2.5-pro") == "models/gemini-2.5-pro"
    assert resource_name("tunedModels/mine") == "tunedModels/mine"


ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=10)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(ANY_TEXT, VALUES, max_size=4), ANY_TEXT)
def test_whatever_a_tool_returns_becomes_strict_json_that_means_the_content(
    response: dict[str, Any], said: str
) -> None:
    parts = (Part(text=said), Part(function_response=FunctionResponse(name="f", response=response)))
    encoded = EncodedContent(Content(role=USER, parts=parts))
    plain = json.loads(bytes(encoded.raw).decode("utf-8"), parse_constant=pytest.fail)
    assert plain == msgspec.to_builtins(encoded.content) | {"parts": plain["parts"]}
    assert plain["parts"] == list(msgspec.to_builtins(encoded.content)["parts"])


def test_a_value_that_holds_itself_is_told_among_many_too():
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(EncodeError, match="contains itself"):
        many_encoder()(endless)
