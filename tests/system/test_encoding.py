import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.system.encoding import (
    LineEnding,
    decode_text,
    detect,
    encode_text,
    is_binary,
    unencodable,
)


@given(st.binary(max_size=200) | st.text(max_size=60).map(lambda text: text.encode("utf-16")))
def test_every_file_comes_back_byte_for_byte(data: bytes) -> None:
    file = decode_text(data)
    assert encode_text(file.raw, file.codec) == data


@given(st.text(max_size=60), st.sampled_from(["utf-8-sig", "utf-16", "utf-32"]))
def test_a_byte_order_mark_decides(text: str, encoding: str) -> None:
    file = decode_text(text.encode(encoding))
    assert file.raw == text
    assert file.codec.bom


@given(st.text(max_size=60).filter(lambda text: "\0" not in text))
def test_plain_utf_8_is_read_as_it_is(text: str) -> None:
    if not text.startswith("\ufeff"):
        assert decode_text(text.encode()).raw == text


@given(st.text(alphabet="ab\r\n", max_size=20), st.data())
def test_ranges_of_the_text_lie_where_they_should_in_the_file(
    text: str, data: st.DataObject
) -> None:
    file = decode_text(text.encode())
    start = data.draw(st.integers(0, len(file.text)))
    end = data.draw(st.integers(start, len(file.text)))
    [(first, last)] = file.spans([(start, end)])
    plain = file.raw[first:last].replace("\r\n", "\n")
    assert (plain.replace("\r", "\n") if file.line_ending == "cr" else plain) == file.text[
        start:end
    ]


@pytest.mark.parametrize(
    ("text", "ending", "newline"),
    [
        ("a", LineEnding.LF, "\n"),
        ("a\n", LineEnding.LF, "\n"),
        ("a\r\nb\r\n", LineEnding.CRLF, "\r\n"),
        ("a\rb\r", LineEnding.CR, "\r"),
        ("a\r\nb\r\nc\n", LineEnding.MIXED, "\r\n"),
        ("a\r\nb\nc\n", LineEnding.MIXED, "\n"),
        ("50%\r100%\n", LineEnding.LF, "\n"),
    ],
)
def test_line_ends_are_told(text: str, ending: LineEnding, newline: str) -> None:
    file = decode_text(text.encode())
    assert (file.line_ending, file.newline) == (ending, newline)


@pytest.mark.parametrize(
    ("data", "encoding", "errors"),
    [
        (b"caf\xe9", "latin-1", "strict"),
        (b"\x93quoted\x94", "cp1252", "strict"),
        (b"\xc3\xa9 \xff", "utf-8", "surrogateescape"),
        ("Größe".encode("utf-16-le"), "utf-16-le", "strict"),
        ("Größe".encode("utf-16-be"), "utf-16-be", "strict"),
    ],
)
def test_other_encodings_are_told(data: bytes, encoding: str, errors: str) -> None:
    codec = detect(data)
    assert (codec.encoding, codec.errors) == (encoding, errors)


@pytest.mark.parametrize(
    ("data", "binary"),
    [
        (b"", False),
        (b"text\n", False),
        ("漢字".encode()[:-1], False),
        (b"\x1b[31mred\x1b[0m", False),
        ("wide text".encode("utf-16"), False),
        ("wide text".encode("utf-16-le"), False),
        (b"\x7fELF\x02\x01\x01\0\0\0", True),
        (b"\x1f\x8b\x08\x08\x9f\xc1\x01\x02\x03abc", True),
        (bytes(range(1, 9)) * 10, True),
        (b"caf\xe9", False),
    ],
)
def test_binary_files_are_told_from_text(data: bytes, binary: bool) -> None:
    assert is_binary(data) is binary


def test_a_character_the_encoding_lacks_is_found() -> None:
    assert unencodable("ab\u20acc", detect(b"caf\xe9")) == "\u20ac"
    assert unencodable("abc", detect(b"caf\xe9")) is None
