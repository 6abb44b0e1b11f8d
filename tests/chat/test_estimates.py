"""Estimates of tokens: texts, calls, media."""

import base64
import io
import struct
import wave
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.chat.estimates import (
    config_tokens,
    content_tokens,
    image_size,
    image_tokens,
    media_tokens,
    part_tokens,
    pdf_pages,
    sound_seconds,
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
    VideoMetadata,
    text_content,
)
from alhena.wire.request import FunctionDeclaration, GenerateContentConfig, Tool


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
    tool = Tool(
        function_declarations=(
            FunctionDeclaration(name="read", description="r", parameters_json_schema=schema),
        )
    )
    config = GenerateContentConfig(
        system_instruction=text_content("user", "i" * 4_000), tools=(tool,)
    )
    assert 2_000 < config_tokens(config) < 2_100
    assert config_tokens(GenerateContentConfig()) == 0


@pytest.mark.parametrize(
    ("size", "tokens"),
    [((384, 384), 258), ((385, 200), 2 * 258), ((960, 540), 6 * 258), ((4_000, 3_000), 24 * 258)],
)
def test_an_image_counts_by_its_tiles(size: tuple[int, int], tokens: int):
    assert image_tokens(*size) == tokens


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 960, 540)
JPEG = (
    b"\xff\xd8\xff\xe0\0\x10" + b"J" * 14 + b"\xff\xff\xc2\0\x11\x08" + struct.pack(">HH", 540, 960)
)


@pytest.mark.parametrize(
    "data",
    [
        PNG,
        JPEG,
        b"GIF89a" + struct.pack("<HH", 960, 540),
        b"BM" + bytes(16) + struct.pack("<ii", 960, -540),
        b"RIFF....WEBPVP8X" + bytes(8) + (959).to_bytes(3, "little") + (539).to_bytes(3, "little"),
        b"RIFF....WEBPVP8L" + b"....\x2f" + struct.pack("<I", 959 | 539 << 14),
        b"RIFF....WEBPVP8 " + bytes(10) + struct.pack("<HH", 960, 540),
    ],
)
def test_the_size_of_an_image_is_read_from_its_head(data: bytes):
    assert image_size(data) == (960, 540)
    assert part_tokens(blob("image/x", data)) == 6 * 258
    for cut in range(len(data)):
        image_size(data[:cut])


def test_what_cannot_be_read_counts_by_the_fallbacks():
    assert part_tokens(blob("image/png", b"no image")) == 3_000
    assert part_tokens(Part(inline_data=Blob(mime_type="image/png", data="=!?"))) == 3_000
    assert part_tokens(blob("application/pdf", b"%PDF-1.7 compressed")) == 25_800
    assert part_tokens(blob("audio/mpeg", bytes(40_000))) == 320
    assert part_tokens(blob("video/webm", bytes(1_250_000))) == 2_630
    assert part_tokens(blob("text/plain", bytes(400))) == pytest.approx(100, rel=0.02)
    assert part_tokens(Part(file_data=FileData(file_uri="u", mime_type="image/png"))) == 3_000
    assert (
        part_tokens(Part(file_data=FileData(file_uri="u", mime_type="application/pdf"))) == 25_800
    )
    assert part_tokens(Part(file_data=FileData(file_uri="u", mime_type="audio/wav"))) == 19_200
    assert part_tokens(Part(file_data=FileData(file_uri="https://video"))) == 157_800


def test_pages_seconds_and_clips_are_counted():
    pages = b"%PDF <</Type /Pages /Count 9>> " + b"<< /Type /Page >> " * 3 + b"<</Type/PageLabel>>"
    assert pdf_pages(pages) == 3
    assert pdf_pages(b"<</Type /Pages /Count 9>>") == 9
    assert pdf_pages(b"/Count 999999") == 1_000
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8_000)
        sound.writeframes(bytes(160_000))
    assert sound_seconds(file.getvalue()) == pytest.approx(10, rel=0.01)
    assert part_tokens(blob("audio/wav", file.getvalue())) == pytest.approx(320, rel=0.01)
    film = b"....ftypisom....moov....mvhd\0\0\0\0" + bytes(8) + struct.pack(">II", 1_000, 20_000)
    assert sound_seconds(film) == 20
    part = blob("video/mp4", film)
    assert part_tokens(part) == 20 * 263
    clip = VideoMetadata(start_offset="5s", end_offset="7.5s", fps=0.5)
    assert part_tokens(Part(inline_data=part.inline_data, video_metadata=clip)) == 2.5 * 263
    for cut in range(len(film)):
        sound_seconds(film[:cut])


def test_media_within_results_are_told_from_words():
    inside = FunctionResponse(
        name="see",
        response={"output": "a picture"},
        parts=(FunctionResponsePart(inline_data=Blob(mime_type="image/png", data="AAAA")),),
    )
    content = Content(role="user", parts=(Part(text="x" * 400), Part(function_response=inside)))
    assert media_tokens(content) == 3_000
    assert 3_100 < content_tokens(content) < 3_120


@given(
    st.binary(max_size=300), st.sampled_from(["image/a", "application/pdf", "audio/b", "video/c"])
)
def test_any_bytes_have_an_estimate(data: bytes, mime: str):
    heads: list[Any] = [
        b"",
        b"RIFF....WAVEfmt ",
        b"\xff\xd8\xff",
        b"....ftyp mvhd",
        b"RIFF....WEBP",
    ]
    for head in heads:
        assert part_tokens(blob(mime, head + data)) >= 0
