import msgspec
import pytest

from alhena.hooks.inputs import (
    apply_request_changes,
    apply_response_changes,
    request_for_hooks,
    response_for_hooks,
    synthetic_response,
    with_tool_choice,
)
from alhena.wire.content import (
    Content,
    EncodedContent,
    FunctionCall,
    FunctionResponse,
    Part,
    text_content,
)
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ToolDeclarations,
)
from alhena.wire.response import Candidate, GenerateContentResponse, UsageMetadata

CALL = Part(function_call=FunctionCall(id="1", name="ls", args={}), thought_signature="c2ln")
ANSWER = Part(function_response=FunctionResponse(id="1", name="ls", response={"output": "x"}))

CONTENTS = (
    text_content("user", "one"),
    Content(role="model", parts=(Part(text="thinking", thought=True), Part(text="two"), CALL)),
    Content(role="user", parts=(ANSWER,)),
    text_content("model", "three ", "four"),
    text_content("user", "five"),
)

REQUEST = GenerateContentRequest(
    model="m",
    contents=tuple(map(EncodedContent, CONTENTS)),
    config=GenerateContentConfig(
        system_instruction=text_content("user", "be good"),
        tools=(
            ToolDeclarations(
                function_declarations=(FunctionDeclaration(name="a"), FunctionDeclaration(name="b"))
            ),
        ),
        generation_config=GenerationConfig(temperature=1.0, top_k=64),
    ),
)

MESSAGES = [
    {"role": "user", "content": "one"},
    {"role": "model", "content": "two"},
    {"role": "model", "content": "three four"},
    {"role": "user", "content": "five"},
]


def as_json(value: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(value))


def contents(request: GenerateContentRequest) -> tuple[Content, ...]:
    return tuple(entry.content for entry in request.contents)


def test_a_hook_sees_texts_and_settings_and_nothing_else():
    assert as_json(request_for_hooks(REQUEST)) == {
        "model": "m",
        "messages": MESSAGES,
        "config": {"temperature": 1.0, "topK": 64},
    }


def test_what_comes_back_as_it_went_changes_nothing_not_even_a_byte():
    changed = apply_request_changes(REQUEST, request_for_hooks(REQUEST))
    assert changed == REQUEST
    assert all(a is b for a, b in zip(changed.contents, REQUEST.contents, strict=True))


def test_the_model_and_settings_can_be_changed():
    changed = apply_request_changes(
        REQUEST, {"model": "n", "config": {"temperature": 0.5, "maxOutputTokens": 9}}
    )
    assert changed.model == "n"
    assert changed.config.generation_config == GenerationConfig(
        temperature=0.5, top_k=64, max_output_tokens=9
    )
    assert changed.contents == REQUEST.contents


def test_an_edited_message_keeps_the_other_parts_of_its_content():
    edited = [MESSAGES[0], {"role": "model", "content": "TWO"}, *MESSAGES[2:]]
    found = contents(apply_request_changes(REQUEST, {"messages": edited}))
    assert found[1].parts == (Part(text="thinking", thought=True), Part(text="TWO"), CALL)
    assert (found[0], *found[2:]) == (CONTENTS[0], *CONTENTS[2:])


def test_texts_of_one_content_become_one_text():
    edited = [*MESSAGES[:2], {"role": "model", "content": "new"}, MESSAGES[3]]
    assert contents(apply_request_changes(REQUEST, {"messages": edited}))[3] == text_content(
        "model", "new"
    )


def test_a_message_more_takes_its_place_and_one_less_is_gone():
    more = [*MESSAGES, {"role": "user", "content": "six"}]
    found = contents(apply_request_changes(REQUEST, {"messages": more}))
    assert found == (*CONTENTS, text_content("user", "six"))
    first = [{"role": "user", "content": "zero"}, *MESSAGES]
    found = contents(apply_request_changes(REQUEST, {"messages": first}))
    assert found == (text_content("user", "zero"), *CONTENTS)
    found = contents(apply_request_changes(REQUEST, {"messages": MESSAGES[:2] + MESSAGES[3:]}))
    assert found == (*CONTENTS[:3], CONTENTS[4])


def test_messages_of_other_roles_or_number_replace_the_stretch_they_stand_for():
    new = [MESSAGES[0], {"role": "user", "content": "x"}, {"role": "model", "content": "y"}]
    found = contents(apply_request_changes(REQUEST, {"messages": [*new, MESSAGES[3]]}))
    assert found == (
        CONTENTS[0], text_content("user", "x"), text_content("model", "y"), CONTENTS[4]
    )  # fmt: skip


def test_a_system_message_joins_the_instruction():
    system = {"role": "system", "content": "and brief"}
    changed = apply_request_changes(REQUEST, {"messages": [system, *MESSAGES]})
    assert changed.contents == REQUEST.contents
    instruction = changed.config.system_instruction
    assert instruction is not None
    assert [part.text for part in instruction.parts] == ["be good", "and brief"]


@pytest.mark.parametrize(
    ("choice", "mode", "allowed", "unused"),
    [
        ({"mode": "NONE"}, "NONE", None, ()),
        ({"mode": "AUTO"}, "AUTO", None, ()),
        ({}, "AUTO", None, ()),
        ({"mode": "ANY"}, "ANY", None, ()),
        ({"mode": "ANY", "allowedFunctionNames": ["b", "x"]}, "ANY", ("b",), ("x",)),
        ({"mode": "ANY", "allowedFunctionNames": ["x"]}, "NONE", None, ("x",)),
        ({"allowedFunctionNames": ["a"]}, "AUTO", None, ("a",)),
        ({"mode": "NONE", "allowedFunctionNames": ["a"]}, "NONE", None, ("a",)),
    ],
)
def test_a_choice_of_tools_is_one_that_the_api_takes(
    choice: dict[str, object], mode: str, allowed: tuple[str, ...] | None, unused: tuple[str, ...]
):
    from alhena.wire.conformance.check import check_request

    changed, left = with_tool_choice(REQUEST, choice)
    tools = changed.config.tool_config
    assert tools is not None
    calling = tools.function_calling_config
    assert calling is not None
    assert (calling.mode, calling.allowed_function_names, left) == (mode, allowed, unused)
    assert not [item for item in check_request(changed) if item.rule == "T13"]


def test_without_tools_there_is_nothing_to_choose():
    bare = GenerateContentRequest(model="m", contents=())
    assert with_tool_choice(bare, {"mode": "ANY"}) == (bare, ())


def response(*parts: Part, finish: str | None = None) -> GenerateContentResponse:
    return GenerateContentResponse(
        candidates=(Candidate(content=Content(role="model", parts=parts), finish_reason=finish),)
    )


CHUNKS = [
    response(Part(text="hm", thought=True), Part(text="se")),
    response(Part(text="cret", thought_signature="c2ln"), CALL),
    msgspec.structs.replace(
        response(finish="STOP"),
        usage_metadata=UsageMetadata(
            prompt_token_count=1, candidates_token_count=2, total_token_count=3
        ),
    ),
]


def test_an_answer_is_shown_without_thoughts_and_calls():
    assert as_json(response_for_hooks(CHUNKS)) == {
        "text": "secret",
        "candidates": [
            {
                "content": {"role": "model", "parts": ["se", "cret"]},
                "finishReason": "STOP",
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 1,
            "candidatesTokenCount": 2,
            "totalTokenCount": 3,
        },
    }
    assert response_for_hooks([])["text"] == ""


def test_a_changed_answer_keeps_thoughts_calls_and_signatures():
    found = apply_response_changes(CHUNKS, {"text": "******"})
    assert [chunk.parts for chunk in found] == [
        (Part(text="hm", thought=True), Part(text="******")),
        (Part(text="", thought_signature="c2ln"), CALL),
        (),
    ]
    assert found[2].usage_metadata == CHUNKS[2].usage_metadata
    spelled = {"candidates": [{"content": {"role": "model", "parts": ["a", {"text": "b"}]}}]}
    assert apply_response_changes(CHUNKS, spelled)[0].parts[1] == Part(text="ab")


def test_a_text_can_be_given_to_an_answer_without_one_and_a_reason_changed():
    found = apply_response_changes([response(CALL)], {"text": "so", "candidates": []})
    assert [part.text for chunk in found for part in chunk.parts] == ["so", None]
    found = apply_response_changes(CHUNKS, {"candidates": [{"finishReason": "SAFETY"}]})
    assert found[-1].finish_reason == "SAFETY"
    assert found[0] == CHUNKS[0]


def test_an_answer_in_the_models_place():
    found = synthetic_response({"text": "hello"})
    assert found.parts == (Part(text="hello"),)
    assert found.finish_reason == "STOP"
    full = {
        "candidates": [
            {"content": {"role": "model", "parts": ["a", "b"]}, "finishReason": "MAX_TOKENS"}
        ],
        "usageMetadata": {"totalTokenCount": 4},
    }
    found = synthetic_response(full)
    assert (found.parts, found.finish_reason) == ((Part(text="ab"),), "MAX_TOKENS")
    assert found.usage_metadata == UsageMetadata(total_token_count=4)
