"""The SSE decoder: any chunking, any line end, nothing lost without a word."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.wire.errors import SseError
from alhena.wire.sse import BODY_LIMIT, SseDecoder


def decode(*pieces: bytes, limit: int = 1 << 20) -> tuple[list[bytes], str | None]:
    """All payloads and the message of the error that ended the bytes, if one did."""
    decoder = SseDecoder(max_event_bytes=limit)
    events: list[bytes] = []
    try:
        for piece in pieces:
            events += decoder.feed(piece)
        events += decoder.finish()
    except SseError as error:
        return events, error.message
    return events, None


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.requirement("WIRE-07")
def test_data_lines_are_held_until_a_blank_line() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b'data: {"a":') == []
    assert decoder.feed(b"1}\n") == []
    assert decoder.feed(b"\n") == [b'{"a":1}']
    assert decoder.finish() == []


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_of_the_standard_ends_lines(end: bytes) -> None:
    data = end.join([b"data: 1", b"", b"data: 2", b"data: 3", b"", b""])
    assert decode(data) == ([b"1", b"2\n3"], None)
    assert decode(*(bytes([byte]) for byte in data)) == ([b"1", b"2\n3"], None)


def test_an_event_ended_by_cr_comes_before_the_next_byte() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: 1\r\r") == [b"1"]
    assert decoder.feed(b"\ndata: 2\r\n") == []
    assert decoder.feed(b"") == []
    assert decoder.feed(b"\r\n") == [b"2"]


def test_unicode_line_separators_and_control_characters_inside_json_end_no_line() -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"
    payload = json.dumps({"text": text}, ensure_ascii=False).replace("\\u000b", "\x0b").encode()
    assert decode(b"data: " + payload + b"\n\n") == ([payload], None)


def test_comments_and_other_fields_are_ignored() -> None:
    data = b": hello\n:\nevent: x\nid: 7\nretry: 10\nid\nextra: 1\ndata: {}\n\n: ping\n\n"
    assert decode(data) == ([b"{}"], None)


@pytest.mark.requirement("WIRE-07")
def test_one_space_after_the_colon_belongs_to_the_field_and_no_more() -> None:
    assert decode(b"data:1\n\ndata: 2\n\ndata:  3\n\ndata:\t4\n\n") == (
        [b"1", b"2", b" 3", b"\t4"],
        None,
    )


def test_events_without_data_are_skipped() -> None:
    assert decode(b"\n\nevent: ping\n\ndata:\n\ndata\n\ndata: 1\n\n") == ([b"1"], None)


def test_empty_data_lines_between_others_are_kept() -> None:
    assert decode(b"data: 1\ndata\ndata:\ndata: 2\n\n") == ([b"1\n\n\n2"], None)


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 100])
def test_a_byte_order_mark_is_accepted_at_the_very_start_only(chunk: int) -> None:
    data = b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n"
    pieces = [data[i : i + chunk] for i in range(0, len(data), chunk)]
    assert decode(*pieces) == ([b"1"], None)


@pytest.mark.requirement("WIRE-07")
def test_a_last_event_without_its_blank_line_is_not_lost() -> None:
    assert decode(b"data: 1\n\ndata: 2") == ([b"1", b"2"], None)
    assert decode(b"data: 1\n\ndata: 2\n") == ([b"1", b"2"], None)


def test_an_empty_body_has_no_events() -> None:
    assert decode() == ([], None)
    assert decode(b"\r\n\r\n") == ([], None)


EVENT_LINES = st.lists(
    st.one_of(
        st.sampled_from([b"", b": note", b"event: x", b"data", b"retry: 1", b"unknown: 1"]),
        st.binary(max_size=30).map(
            lambda raw: b"data: " + raw.replace(b"\n", b"").replace(b"\r", b"")
        ),
    ),
    max_size=20,
)


@pytest.mark.requirement("WIRE-07")
@given(EVENT_LINES, st.data())
def test_any_chunking_of_a_stream_gives_the_same_events(
    lines: list[bytes], data: st.DataObject
) -> None:
    ends = data.draw(st.lists(st.sampled_from([b"\n", b"\r\n", b"\r"]), min_size=20, max_size=20))
    body = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    places = data.draw(st.lists(st.integers(0, 1000), max_size=12))
    assert decode(*cut(body, places)) == decode(body)


@pytest.mark.requirement("WIRE-07")
@given(
    st.lists(
        st.sampled_from(
            [
                *(b"data: 1", b"data:", b"\n", b"\r", b"\r\n", b"{", b" ", b"<p>", b"\xef\xbb\xbf"),
                *(
                    b":",
                    b"id",
                    b"data: 1234567890123",
                    b": 12345678901234567890",
                    b"x",
                    b"\xe2\x80",
                ),
            ]
        ),
        max_size=25,
    ),
    st.lists(st.integers(0, 1000), max_size=12),
)
def test_any_chunking_of_any_bytes_gives_the_same_events_and_the_same_error(
    tokens: list[bytes], places: list[int]
) -> None:
    body = b"".join(tokens)
    expected = decode(body, limit=12)
    assert decode(*cut(body, places), limit=12) == expected
    assert decode(*(bytes([byte]) for byte in body), limit=12) == expected


def reference_events(body: bytes) -> list[bytes]:
    """The standard's algorithm in its plainest form, with the last event delivered."""
    events: list[bytes] = []
    data: list[bytes] = []
    unified = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for line in [*unified.split(b"\n"), b""]:
        name, _, value = line.partition(b":")
        if not line:
            events += [b"\n".join(data)] if any(data) or len(data) > 1 else []
            data = []
        elif name == b"data":
            data.append(value.removeprefix(b" "))
    return events


@given(EVENT_LINES)
def test_events_are_those_of_the_standard(lines: list[bytes]) -> None:
    body = b"\n".join([b": start", *lines])
    assert decode(body) == (reference_events(body), None)


@pytest.mark.requirement("WIRE-07")
@pytest.mark.parametrize(
    ("body", "quoted"),
    [
        (b'{\n  "error": {"code": 503, "message": "busy"}\n}', '{ "error": {"code": 503,'),
        (b'[{"error": {"code": 400}}]', '[{"error": {"code": 400}}]'),
        (b"\r\n  <!DOCTYPE html>\n<p>Bad\x1b[31m gateway</p>", r"<p>Bad\x1b[31m gateway</p>"),
        (b'data: {}\n\n{"error": {"code": 500}}\n', '{"error": {"code": 500}}'),
        (b"upstream connect error", "upstream connect error"),
        (b"error: no such host\n\n", "error: no such host"),
        (b"\xff\xfe\x00d\x00a", r"\x00d\x00a"),
    ],
)
def test_a_body_that_is_no_event_stream_is_a_typed_error_with_an_excerpt(
    body: bytes, quoted: str
) -> None:
    events, message = decode(body)
    assert message is not None
    assert quoted in message
    assert "\n" not in message
    assert events == ([b"{}"] if body.startswith(b"data") else [])
    assert decode(*(bytes([byte]) for byte in body)) == (events, message)


def test_the_error_carries_the_body_that_came_instead_up_to_a_limit() -> None:
    body = b'{"error": {"message": "' + b"x" * (2 * BODY_LIMIT)
    decoder = SseDecoder()
    with pytest.raises(SseError) as caught:
        decoder.feed(body)
    assert caught.value.body == body[:BODY_LIMIT]
    with pytest.raises(SseError):
        decoder.feed(b"data: 1\n\n")
    with pytest.raises(SseError):
        decoder.finish()


def test_an_unfinished_event_before_foreign_bytes_is_still_delivered() -> None:
    events, message = decode(b"data: 1\n<html>")
    assert events == [b"1"]
    assert message is not None
    assert "<html>" in message


@pytest.mark.parametrize("shape", [b"data: %s\n\n", b"data: %s", b"data:%s\r\n\r\n"])
def test_an_event_up_to_the_size_cap_passes_and_one_byte_more_does_not(shape: bytes) -> None:
    assert decode(shape % (b"x" * 50), limit=50) == ([b"x" * 50], None)
    events, message = decode(shape % (b"x" * 51), limit=50)
    assert events == []
    assert message == "an event of the answer is larger than 50 bytes."


def test_the_cap_counts_all_lines_of_an_event_and_starts_anew_with_the_next() -> None:
    line = b"data: " + b"x" * 20 + b"\n"
    events, message = decode((line * 2 + b"\n") * 50 + line * 3 + b"\n", limit=50)
    assert len(events) == 50
    assert message is not None


@pytest.mark.requirement("WIRE-07")
def test_lines_that_never_end_are_refused_whatever_they_are() -> None:
    for start in (b"data: ", b": ", b"id: ", b"unknown "):
        decoder = SseDecoder(max_event_bytes=1000)
        while sum(map(len, decoder._line)) + len(start) + 20 <= 1009:
            assert decoder.feed(start + b"x" * 20) == []
        with pytest.raises(SseError):
            decoder.feed(start + b"x" * 20)
