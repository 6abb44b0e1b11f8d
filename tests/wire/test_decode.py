"""Payloads to typed values; what does not fit is a typed error."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.wire.content import Blob, Content, FunctionCall, Part
from alhena.wire.encode import (
    decode_count_tokens,
    decode_embed,
    decode_enveloped,
    decode_error,
    decode_response,
)
from alhena.wire.errors import ApiStatus, DecodeError
from alhena.wire.response import FinishReason, GenerateContentResponse
from tests.support.each import for_each

QUOTA = {
    "error": {
        "code": 429,
        "message": "Resource has been exhausted.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED"},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"},
        ],
    }
}


def dump(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_a_chunk_is_read_with_every_documented_kind_of_part() -> None:
    parts = [
        {"text": "think", "thought": True, "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "1", "name": "read_file", "args": {"a": None, "b": [1.5]}}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"executableCode": {"language": "PYTHON", "code": "1"}, "new": {"field": 1}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
        {"fileData": {"fileUri": "u", "mimeType": "m"}, "videoMetadata": {"fps": 2}},
    ]
    response = decode_response(
        dump(
            {
                "candidates": [
                    {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
                ],
                "usageMetadata": {
                    "promptTokenCount": 1,
                    "candidatesTokenCount": 2,
                    "thoughtsTokenCount": 3,
                    "toolUsePromptTokenCount": 4,
                    "cachedContentTokenCount": 5,
                    "totalTokenCount": 10,
                    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1}],
                },
                "modelVersion": "gemini-2.5-flash",
                "responseId": "r1",
            }
        )
    )
    assert response.parts[0] == Part(text="think", thought=True, thought_signature="c2ln")
    call = FunctionCall(id="1", name="read_file", args={"a": None, "b": [1.5]})
    assert response.parts[1].function_call == call
    assert response.parts[2].inline_data == Blob(mime_type="image/png", data="AAAA")
    assert response.finish_reason == FinishReason.STOP
    usage = response.usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count, usage.thoughts_token_count) == (1, 3)
    assert (usage.tool_use_prompt_token_count, usage.cached_content_token_count) == (4, 5)
    assert response.response_id == "r1"


def test_metadata_only_chunks_and_unknown_finish_reasons_are_read() -> None:
    assert decode_response(b'{"usageMetadata":{"totalTokenCount":3}}').parts == ()
    assert decode_response(b'{"candidates":[{"finishReason":"NEW"}]}').finish_reason == "NEW"
    assert decode_response(b'{"candidates":[{"content":{"role":"model"}}]}').parts == ()


def test_nulls_and_numbers_as_strings_are_read_as_in_any_protocol_buffer_json() -> None:
    response = decode_response(
        dump(
            {
                "candidates": [
                    {
                        "index": "0",
                        "finishReason": None,
                        "content": {
                            "role": None,
                            "parts": [
                                {"text": None, "functionCall": {"name": "f", "args": {"x": None}}},
                            ],
                        },
                    },
                    {"content": {"parts": None}},
                ],
                "usageMetadata": {"promptTokenCount": "12", "totalTokenCount": None},
            }
        )
    )
    assert response.parts == (Part(function_call=FunctionCall(name="f", args={"x": None})),)
    assert response.usage_metadata is not None
    assert response.usage_metadata.prompt_token_count == 12


@pytest.mark.requirement("WIRE-07")
@for_each(
    ("payload", "said"),
    [
        (b"", "truncated"),
        (b'{"candidates":[{"content"', "truncated"),
        (b'{"a":1} trailing', "trailing characters"),
        (b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        (b"[DONE]", "[DONE]"),
        (b"[]", "Expected `object`, got `array`"),
        (b'"text"', "Expected `object`, got `str`"),
        (b"null", "Expected `object`, got `null`"),
        (
            b'{"candidates":[{"content":{"parts":[{"text":5}]}}]}',
            "$.candidates[0].content.parts[0]",
        ),
        (b'{"candidates":[{"content":{"parts":[{"functionCall":{"args":"{}"}}]}}]}', "args"),
        (b'{"modelVersion":"\xff\xfe"}', "no UTF-8"),
        (b'{"modelVersion":"\xed\xa0\x80"}', "no UTF-8"),
        (b'{"x":' * 100_000, "nested too deeply"),
        (b'{"usageMetadata":{"totalTokenCount":NaN}}', "invalid"),
        (b'{"usageMetadata":{"totalTokenCount":1e999}}', "out of range"),
    ],
)
def test_a_malformed_payload_is_a_typed_error_that_says_where(payload: bytes, said: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_response(payload)
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 400
    with pytest.raises(DecodeError):
        decode_enveloped(b'{"response":' + payload.replace(b"null", b"7") + b"}")


def test_an_error_object_never_passes_for_an_empty_answer() -> None:
    for decode in (decode_response, decode_enveloped, decode_count_tokens, decode_embed):
        for body in (dump(QUOTA), dump([QUOTA]), b'{"error":"gone"}'):
            with pytest.raises(DecodeError, match="answer is an error"):
                decode(body)


def test_a_call_whose_arguments_speak_of_errors_is_an_answer() -> None:
    args = {"error": {"code": 1}}
    part = {"functionCall": {"name": "report", "args": args}}
    response = decode_response(dump({"candidates": [{"content": {"parts": [part]}}]}))
    assert response.parts[0].function_call == FunctionCall(name="report", args=args)


def test_an_api_error_is_dug_out_of_every_shape_it_comes_in() -> None:
    status = ApiStatus(
        code=429,
        message="Resource has been exhausted.",
        status="RESOURCE_EXHAUSTED",
        details=tuple(QUOTA["error"]["details"]),
    )
    wrapped = {"error": {"code": 500, "message": json.dumps(QUOTA, indent=2), "status": "X"}}
    prefixed = {"error": {"message": f"got status 429: {json.dumps(QUOTA)} (request 7)"}}
    twice = {"error": {"code": 502, "message": json.dumps(wrapped)}}
    answer = {"candidates": [{"finishReason": "STOP"}]}
    for body in (QUOTA, [QUOTA], [answer, QUOTA], wrapped, prefixed, [twice]):
        assert decode_error(dump(body)) == status
    assert decode_error(dump({"error": json.dumps(QUOTA)})) == status
    assert status.reasons == ("RATE_LIMIT_EXCEEDED",)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {}}, ApiStatus()),
        ({"error": {"code": "404", "message": None}}, ApiStatus(code=404)),
        ({"error": {"code": True, "details": {"a": 1}}}, ApiStatus()),
        (
            {"error": {"code": 400, "details": [1, {"a": 1}]}},
            ApiStatus(code=400, details=({"a": 1},)),
        ),
        (
            {"error": "invalid_grant", "error_description": "Token expired."},
            ApiStatus(message="invalid_grant: Token expired."),
        ),
        ({"error": {"message": 'bad {"error": value'}}, ApiStatus(message='bad {"error": value')),
    ],
)
def test_incomplete_errors_are_read_as_far_as_they_go(body: Any, status: ApiStatus) -> None:
    assert decode_error(dump(body)) == status


@for_each(
    "body",
    [
        *(b"", b"<html>", b"{}", b"[]", b"[[]]", b'{"error":null}', b'{"error":""}'),
        *(b'{"error":5}', b"\xff", b"null", b'"error"', b"[" * 100_000, b'{"candidates":[]}'),
    ],
)
def test_a_body_without_an_api_error_gives_none(body: bytes) -> None:
    assert decode_error(body) is None


def test_errors_nested_without_end_are_read_to_a_bound() -> None:
    body: dict[str, Any] = {"error": {"code": 1, "message": "innermost"}}
    for _ in range(8):
        body = {"error": {"code": 2, "message": json.dumps(body)}}
    status = decode_error(dump(body))
    assert status is not None
    assert status.code == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["candidates", "content", "parts", "text", "error", "message", "code", "details"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON | st.binary())
def test_whatever_comes_gives_a_value_or_a_decode_error(value: Any) -> None:
    payload = value if isinstance(value, bytes) else dump(value)
    status = decode_error(payload)
    try:
        response = decode_response(payload)
    except DecodeError:
        return
    assert isinstance(response, GenerateContentResponse)
    assert status is None


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"error": {"message": "m", "code": "insufficient_quota", "type": "x"}}, 0, None),
        ({"error": {"message": "m", "code": "x", "type": "x"}}, 0, ("x",)),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, 0, None),
        ({"error": {"message": "m", "code": 429, "type": None}}, 429, ()),
        ({"error": {"message": "m", "code": "429", "type": "y"}}, 429, ("y",)),
        ({"object": "error", "message": "m", "type": "NotFoundError", "code": 404}, 404, None),
        (
            {"error": {"message": '{"error": {"message": "m", "type": "z"}}', "type": "y"}},
            0,
            ("z",),
        ),
    ],
)
def test_errors_of_other_services_keep_the_words_they_say_it_in(
    body: dict[str, Any], code: int, words: tuple[str, ...] | None
) -> None:
    status = decode_error(dump(body))
    assert status is not None
    assert (status.code, status.message) == (code, "m")
    said = body.get("error", body)
    kept = [one for one in (said.get("code"), said["type"]) if isinstance(one, str)]
    assert status.words == (tuple(kept) if words is None else words)


def test_what_only_looks_like_an_error_object_is_none() -> None:
    assert decode_error(dump({"object": "chat.completion", "message": "m", "code": 404})) is None
    assert decode_error(dump({"error": None, "object": "list"})) is None


def test_an_enveloped_answer_is_unwrapped_and_takes_the_trace_id() -> None:
    inner = {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]}}],
        "automaticFunctionCallingHistory": [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        ],
        "promptFeedback": {"blockReason": "SAFETY"},
        "usageMetadata": {"totalTokenCount": 3},
        "modelVersion": "m",
    }
    response = decode_enveloped(dump({"response": inner, "traceId": "t1", "consumedCredits": []}))
    assert response.response_id == "t1"
    assert response.parts == (Part(text="hi"),)
    assert response.automatic_function_calling_history == (
        Content(role="user", parts=(Part(text="q"),)),
        Content(role="model", parts=(Part(function_call=FunctionCall(name="f", args={})),)),
    )
    assert response.prompt_feedback is not None
    assert response.prompt_feedback.block_reason == "SAFETY"
    assert response.model_version == "m"


def test_an_envelope_without_response_is_an_empty_answer() -> None:
    assert decode_enveloped(b'{"traceId":"t"}') == GenerateContentResponse(response_id="t")
    assert decode_enveloped(b'{"response":null}') == GenerateContentResponse()
    kept = decode_enveloped(b'{"response":{"responseId":"r","candidates":null}}')
    assert kept == GenerateContentResponse(response_id="r")


def test_token_counts_are_read_and_a_missing_total_is_zero() -> None:
    assert decode_count_tokens(b'{"totalTokens":31}').total_tokens == 31
    assert decode_count_tokens(b'{"totalTokens":"31"}').total_tokens == 31
    assert decode_count_tokens(b"{}").total_tokens == 0
    with pytest.raises(DecodeError):
        decode_count_tokens(b'{"totalTokens":"many"}')


def test_embeddings_are_read_from_both_methods() -> None:
    one = decode_embed(b'{"embedding":{"values":[0.5,1,-2e-3]}}')
    assert [item.values for item in one.embeddings] == [(0.5, 1.0, -0.002)]
    two = decode_embed(b'{"embeddings":[{"values":[1]},{"values":[2]}]}')
    assert [item.values for item in two.embeddings] == [(1.0,), (2.0,)]
    with pytest.raises(DecodeError, match="no embedding"):
        decode_embed(b"{}")
