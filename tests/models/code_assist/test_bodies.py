"""The envelope of Code Assist: the bodies of the documents, key order aside."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.wire.content import text_content
from alhena.wire.encode import EncodedContent, enveloped_body, enveloped_count_tokens
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

# The documented body of a session with tools. What is absent there or null is absent here, and the
# system instruction is a content, as the service takes it.
SESSION_BODY: dict[str, Any] = {
    "model": "gemini-2.0-flash",
    "project": "my-gcp-project",
    "user_prompt_id": "sess-123#turn-4",
    "request": {
        "contents": [
            {
                "role": "user",
                "parts": [{"text": "This is the Gemini CLI. We are setting up the context..."}],
            },
            {"role": "model", "parts": [{"text": "Got it. Thanks for the context!"}]},
            {"role": "user", "parts": [{"text": "List directory and read README.md"}]},
        ],
        "systemInstruction": {"role": "user", "parts": [{"text": "<system prompt text here>"}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "run_shell_command",
                        "description": "Executes a shell command (platform-specific details)",
                        "parametersJsonSchema": {
                            "type": "object",
                            "properties": {
                                "command": {"type": "string", "description": "Exact command"},
                                "description": {"type": "string"},
                                "directory": {"type": "string"},
                            },
                            "required": ["command"],
                        },
                    },
                    {
                        "name": "read_file",
                        "description": "Reads a file; handles text and binary (image/pdf/audio/video)",
                        "parametersJsonSchema": {
                            "type": "object",
                            "properties": {
                                "absolute_path": {"type": "string"},
                                "offset": {"type": "number"},
                                "limit": {"type": "number"},
                            },
                            "required": ["absolute_path"],
                        },
                    },
                    {"name": "write_file"},
                ]
            }
        ],
        "generationConfig": {
            "temperature": 0,
            "topP": 1,
            "thinkingConfig": {"thinkingBudget": -1, "includeThoughts": True},
        },
        "session_id": "sess-123",
    },
}

# The documented body of a client that forces calls, and knows neither prompts nor sessions.
FORCED_BODY: dict[str, Any] = {
    "model": "gemini-2.5-pro",
    "project": "my-gcp-project",
    "request": {
        "contents": [{"role": "user", "parts": [{"text": "read config.json"}]}],
        "systemInstruction": {"role": "user", "parts": [{"text": "Use tools."}]},
        "tools": [{"functionDeclarations": [{"name": "read_file", "description": "Reads."}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {"temperature": 0.7, "maxOutputTokens": 8192},
    },
}


def session_request() -> GenerateContentRequest:
    inner = SESSION_BODY["request"]
    declared = inner["tools"][0]["functionDeclarations"]
    return GenerateContentRequest(
        model=SESSION_BODY["model"],
        contents=tuple(
            EncodedContent(text_content(one["role"], one["parts"][0]["text"]))
            for one in inner["contents"]
        ),
        config=GenerateContentConfig(
            system_instruction=text_content("user", "<system prompt text here>"),
            tools=(
                ToolDeclarations(
                    function_declarations=tuple(
                        FunctionDeclaration(
                            name=one["name"],
                            description=one.get("description", ""),
                            parameters_json_schema=one.get("parametersJsonSchema"),
                        )
                        for one in declared
                    )
                ),
            ),
            generation_config=GenerationConfig(
                temperature=0,
                top_p=1,
                thinking_config=ThinkingConfig(thinking_budget=-1, include_thoughts=True),
            ),
        ),
        prompt_id="sess-123#turn-4",
        session_id="sess-123",
    )


def forced_request() -> GenerateContentRequest:
    read = FunctionDeclaration(name="read_file", description="Reads.")
    return GenerateContentRequest(
        model="gemini-2.5-pro",
        contents=(EncodedContent(text_content("user", "read config.json")),),
        config=GenerateContentConfig(
            system_instruction=text_content("user", "Use tools."),
            tools=(ToolDeclarations(function_declarations=(read,)),),
            tool_config=ToolConfig(
                function_calling_config=FunctionCallingConfig(mode=FunctionCallingMode.ANY)
            ),
            generation_config=GenerationConfig(temperature=0.7, max_output_tokens=8192),
        ),
    )


def canonical(value: Any) -> bytes:
    """JSON bytes with the keys in order: equal when only the order of keys differs."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def canonical_bytes(body: bytes) -> bytes:
    return canonical(json.loads(body, parse_float=_integral))


def _integral(text: str) -> float | int:
    """As JavaScript writes numbers: 0.0 is 0."""
    return int(float(text)) if float(text).is_integer() else float(text)


@pytest.mark.requirement("WIRE-05")
@pytest.mark.parametrize(
    ("request_of", "body"), [(session_request, SESSION_BODY), (forced_request, FORCED_BODY)]
)
def test_the_bodies_are_those_of_the_documents_byte_for_byte(request_of: Any, body: Any) -> None:
    sent = bytes(enveloped_body(request_of(), "my-gcp-project"))
    assert canonical_bytes(sent) == canonical(body)
    assert list(json.loads(sent)) == [key for key in SESSION_BODY if key in body]


@pytest.mark.requirement("WIRE-05")
def test_what_is_empty_is_absent() -> None:
    request = GenerateContentRequest(
        model="m", contents=(EncodedContent(text_content("user", "hi")),)
    )
    assert json.loads(bytes(enveloped_body(request, ""))) == {
        "model": "m",
        "request": {"contents": [{"parts": [{"text": "hi"}], "role": "user"}]},
    }


@pytest.mark.requirement("TODAY-03", "WIRE-05")
def test_the_token_for_the_rest_of_an_answer_is_in_the_request() -> None:
    request = GenerateContentRequest(
        model="m",
        contents=(EncodedContent(text_content("user", "hi")),),
        session_id="s",
        continuation_token="t",
    )
    sent = json.loads(bytes(enveloped_body(request, "")))
    assert sent.keys() == {"model", "request"}
    assert sent["request"].keys() == {"contents", "session_id", "continuationToken"}
    assert sent["request"]["continuationToken"] == "t"


@pytest.mark.requirement("WIRE-08")
def test_tokens_are_counted_for_the_model_by_its_resource_name() -> None:
    contents = (EncodedContent(text_content("user", "hi")),)
    body = {"model": "models/m", "contents": [{"parts": [{"text": "hi"}], "role": "user"}]}
    assert json.loads(enveloped_count_tokens(contents, "m")) == {"request": body}


def test_a_history_is_sent_as_the_bytes_it_was_encoded_to() -> None:
    content = EncodedContent(text_content("user", "\u2028 é"))
    body = bytes(enveloped_body(GenerateContentRequest(model="m", contents=(content,)), "p"))
    assert bytes(content.raw) in body


@given(st.text(), st.text(), st.text(), st.text())
def test_any_name_gives_one_json_document(model: str, project: str, prompt: str, sid: str) -> None:
    request = GenerateContentRequest(
        model=model,
        contents=(EncodedContent(text_content("user", model)),),
        prompt_id=prompt,
        session_id=sid,
    )
    sent = json.loads(bytes(enveloped_body(request, project)))
    assert sent["request"].get("session_id", "") == sid
    assert sent.get("project", "") == project
    assert sent.get("user_prompt_id", "") == prompt


def test_lone_surrogates_in_names_do_not_break_the_body() -> None:
    request = GenerateContentRequest(
        model="\udcff", contents=(), prompt_id="\udc80", session_id="\ud800"
    )
    sent = json.loads(bytes(enveloped_body(request, "\udcff")))
    assert sent["model"] == sent["project"] == "\ufffd"
    assert sent["request"] == {"contents": [], "session_id": "\ufffd"}
