"""Content of server responses as parts for the model and text for a person."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.mcp.tool import MAX_MEDIA, UNREADABLE, content_of, text_of
from alhena.tools.response import content_text, response_parts
from alhena.wire.content import Part

IMAGE = {"type": "image", "mimeType": "image/png", "data": "iVBORw=="}


def texts(result: dict[str, Any]) -> list[str | None]:
    content = content_of("t", result)
    items = (content,) if isinstance(content, str | Part) else content
    return [item if isinstance(item, str) else item.text for item in items]


@pytest.mark.requirement("MCP-04")
def test_one_text_is_the_whole_answer() -> None:
    content = content_of("t", {"content": [{"type": "text", "text": "hello"}]})
    (part,) = response_parts("t", "1", content)
    assert part.function_response is not None
    assert part.function_response.response == {"output": "hello"}


@pytest.mark.requirement("MCP-04")
@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (IMAGE, ["[Tool 't' provided the following image data with mime-type: image/png]", None]),
        (
            {"type": "resource", "resource": {"uri": "a:b", "blob": "aGk="}},
            [
                (
                    "[Tool 't' provided the following embedded resource with mime-type: "
                    "application/octet-stream]"
                ),
                None,
            ],
        ),
        (
            {"type": "resource_link", "name": "n", "title": "T", "uri": "a:b"},
            ["Resource Link: T at a:b"],
        ),
        (
            {**IMAGE, "data": "not base64!"},
            [
                (
                    "[Tool 't' provided the following image data with mime-type: image/png, but it is "
                    "not valid base64 and is left out]"
                )
            ],
        ),
    ],
)
def test_blocks_are_parts(block: dict[str, Any], expected: list[str | None]) -> None:
    assert texts({"content": [block]}) == expected


def test_what_is_no_block_is_dropped_and_what_is_no_list_is_said() -> None:
    assert texts({"content": [5, None, {"type": "hologram"}, {"type": "text", "text": "x"}]}) == [
        "x"
    ]
    assert content_of("t", {"content": "just text"}) == UNREADABLE
    assert content_of("t", {}) == ""


def test_structured_content_stands_in_for_blocks_and_repeats_none() -> None:
    structured = {"structuredContent": {"sum": 3}}
    assert content_of("t", {"content": [], **structured}) == '{"sum":3}'
    assert texts({"content": [{"type": "text", "text": "3"}], **structured}) == ["3"]
    assert text_of({"content": [], **structured}) == '{"sum":3}'


@pytest.mark.requirement("MCP-04")
def test_media_of_one_result_are_bounded() -> None:
    data = base64.b64encode(b"x" * (MAX_MEDIA // 2)).decode()
    big = {"type": "image", "mimeType": "image/png", "data": data}
    content = content_of("t", {"content": [big, big, IMAGE]})
    assert isinstance(content, tuple)
    media = [item for item in content if isinstance(item, Part) and item.inline_data]
    assert len(media) == 2
    assert f"but it is too large ({len(data):,} characters)" in content_text(content)


@pytest.mark.requirement("MCP-05")
def test_a_person_sees_the_same_blocks_in_words() -> None:
    blocks = [
        {"type": "text", "text": "one\ntwo"},
        IMAGE,
        {"type": "audio", "mimeType": "audio/wav", "data": ""},
        {"type": "resource_link", "name": "n", "uri": "a:b"},
        {"type": "resource", "resource": {"text": "inside"}},
        {"type": "resource", "resource": {"blob": "aGk="}},
        {"type": "hologram"},
    ]
    assert text_of({"content": blocks}) == (
        "one\ntwo\n[Image: image/png]\n[Audio: audio/wav]\n[Link to n: a:b]\ninside\n"
        "[Embedded Resource: unknown type]\n[Unknown content type: hologram]"
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)
_BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "x"])},
    optional=dict.fromkeys(("text", "data", "mimeType", "resource", "uri", "name"), _JSON),
)


@given(
    st.fixed_dictionaries(
        {}, optional={"content": st.lists(_BLOCK) | _JSON, "structuredContent": _JSON}
    )
)
def test_whatever_comes_becomes_exactly_one_response(result: dict[str, Any]) -> None:
    parts = response_parts("t", "1", content_of("t", result))
    assert sum(part.function_response is not None for part in parts) == 1
    assert isinstance(text_of(result), str)
