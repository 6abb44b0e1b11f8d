"""Estimates of tokens: texts, calls, media."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.chat.estimates import (
    config_tokens,
    content_tokens,
    media_tokens,
    part_tokens,
    text_tokens,
)
from alhena.wire.content import (
    Blob,
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    FunctionResponsePart,
    Part,
    text_content,
)
from alhena.wire.request import FunctionDeclaration, GenerateContentConfig, ToolDeclarations


def blob(mime: str, data: bytes) -> Part:
    return Part(inline_data=Blob(mime_type=mime, data=base64.b64encode(data).decode("ascii")))


def test_ascii_is_a_quarter_of_a_token_other_letters_a_half_and_the_rest_one_and_a_half():
    assert text_tokens("") == 0
    assert text_tokens("abcdefgh") == 2
    assert text_tokens("中文字") == 4.5
    assert text_tokens("ab中文cd") == 4
    assert text_tokens("中" * 200_000) == 300_000  # long texts too
    assert text_tokens("\ud800a") == 1.75
    assert text_tokens("😀a") == 1.75
    for word in ("булка", "ψωμίὰ", "לחםםם", "خبزةة", "रोटीक", "ขนมปง", "ăệöñß"):
        assert text_tokens(word) == len(word) / 2, word
    for word in ("パンです", "빵입니다", "──→✓", "ཨམཨམ"):
        assert text_tokens(word) == len(word) * 1.5, word
    assert text_tokens("булка 中文😀 a\udc00") == 5 / 2 + 3 / 4 + 4 * 1.5


@given(st.text(), st.text())
def test_the_estimate_of_two_texts_together_is_the_sum(one: str, other: str):
    assert text_tokens(one + other) == text_tokens(one) + text_tokens(other)


def test_calls_and_results_count_with_their_names_and_values():
    call = Part(function_call=FunctionCall(name="read", args={"path": "a" * 392}))
    assert part_tokens(call) == pytest.approx(1 + 403 / 4)
    result = FunctionResponse(name="read", response={"output": "x" * 4_000})
    assert part_tokens(Part(function_response=result)) == pytest.approx(1_000, rel=0.01)
    nested = FunctionResponse(name="read", response={"output": {"deep": ["x" * 4_000]}, "b": 1})
    assert part_tokens(Part(function_response=nested)) == pytest.approx(1_000, rel=0.02)
    assert part_tokens(Part(text="", thought_signature="QUJD" * 100)) == 100
    odd = FunctionResponse(name="read", response={"output": {1: {2}, "\ud800": object()}})
    assert part_tokens(Part(function_response=odd)) == 1


def test_the_instruction_and_the_declarations_count():
    schema = {"type": "object", "properties": {"path": {"description": "d" * 4_000}}}
    tool = ToolDeclarations(
        function_declarations=(
            FunctionDeclaration(name="read", description="r", parameters_json_schema=schema),
        )
    )
    config = GenerateContentConfig(
        system_instruction=text_content("user", "i" * 4_000), tools=(tool,)
    )
    assert 2_000 < config_tokens(config) < 2_100
    assert config_tokens(GenerateContentConfig()) == 0


def test_media_count_by_their_kind_and_length():
    assert part_tokens(blob("image/png", b"image")) == 3_000
    assert part_tokens(blob("application/pdf", b"%PDF-1.7")) == 25_800
    assert part_tokens(blob("audio/mpeg", bytes(40_000))) == pytest.approx(320, rel=0.01)
    assert part_tokens(blob("audio/wav", bytes(320_000))) == pytest.approx(320, rel=0.01)
    assert part_tokens(blob("video/webm", bytes(1_250_000))) == pytest.approx(2_630, rel=0.01)
    assert part_tokens(blob("text/plain", bytes(400))) == pytest.approx(100, rel=0.02)
    assert part_tokens(Part(file_data=FileData(file_uri="u", mime_type="image/png"))) == 3_000
    assert (
        part_tokens(Part(file_data=FileData(file_uri="u", mime_type="application/pdf"))) == 25_800
    )
    assert part_tokens(Part(file_data=FileData(file_uri="u", mime_type="audio/wav"))) == 19_200
    assert part_tokens(Part(file_data=FileData(file_uri="https://video"))) == 157_800


def test_media_within_results_are_told_from_words():
    inside = FunctionResponse(
        name="see",
        response={"output": "a picture"},
        parts=(FunctionResponsePart(inline_data=Blob(mime_type="image/png", data="AAAA")),),
    )
    content = Content(role="user", parts=(Part(text="x" * 400), Part(function_response=inside)))
    assert media_tokens(content) == 3_000
    assert 3_100 < content_tokens(content) < 3_120
