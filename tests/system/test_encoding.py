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
from tests.support.each import for_each


@given(st.binary(max_size=200) | st.text(max_size=60).map(lambda text: text.encode("utf-16")))
def test_every_file_comes_back_byte_for_byte(data: bytes) -> None:
    file = decode_text(data)
    if file.damaged:  # then UTF-16 or UTF-32 it is
        assert file.codec.encoding != "utf-8"
    else:
        assert encode_text(file.raw, file.codec) == data


@given(st.text(max_size=60), st.sampled_from(["utf-8-sig", "utf-16", "utf-32"]))
def test_a_byte_order_mark_decides(text: str, encoding: str) -> None:
    if text.startswith("\0"):
        return  # after the mark of UTF-16 that is the mark of UTF-32
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
    assert file.raw[first:last].replace("\r\n", "\n") == file.text[start:end]


@pytest.mark.parametrize(
    ("text", "ending", "newline"),
    [
        ("a", LineEnding.LF, "\n"),
        ("a\n", LineEnding.LF, "\n"),
        ("a\r\nb\r\n", LineEnding.CRLF, "\r\n"),
        ("a\rb\r", LineEnding.LF, "\n"),
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
    ],
)
def test_other_encodings_are_told(data: bytes, encoding: str, errors: str) -> None:
    codec = detect(data)
    assert (codec.encoding, codec.errors) == (encoding, errors)


@for_each(
    ("data", "binary"),
    [
        (b"", False),
        (b"text\n", False),
        ("漢字".encode()[:-1], False),
        (b"\x1b[31mred\x1b[0m", False),
        ("wide text".encode("utf-16"), False),
        ("wide text".encode("utf-16-le"), True),
        (bytes(range(256)) * 8, True),
        (b"PK\x03\x04\x14\x00\x00\x00\x08\x00" + bytes(range(128, 250)), True),
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


LONE = b"\x00\xd8"


@pytest.mark.parametrize(
    ("data", "encoding", "shown"),
    [
        ("ab\n".encode("utf-16") + LONE + "c".encode("utf-16-le"), "utf-16-le", "ab\n\ufffdc"),
        ("ab".encode("utf-16") + b"c", "utf-16-le", "ab\ufffd"),
        (b"\xfe\xff\0a\xdc\0\0b", "utf-16-be", "a\ufffdb"),
        ("ab".encode("utf-32")[:-1], "utf-32-le", "a\ufffd"),
        ("ab".encode("utf-32") + b"\0\0\x11\0", "utf-32-le", "ab\ufffd"),
    ],
)
def test_wide_text_with_bytes_that_are_none_is_known_to_be_damaged(
    data: bytes, encoding: str, shown: str
) -> None:
    file = decode_text(data)
    assert file.damaged
    assert file.codec.encoding == encoding
    assert file.shown.endswith(shown)
    assert not is_binary(data)


def test_a_mark_of_utf_8_decides_whatever_follows() -> None:
    data = b"\xef\xbb\xbfcaf\xe9 \xe9\xe9\n"
    file = decode_text(data)
    assert (file.codec.encoding, file.codec.bom, file.damaged) == ("utf-8", data[:3], False)
    assert file.shown == "caf\ufffd \ufffd\ufffd\n"
    assert encode_text(file.raw, file.codec) == data


WESTERN = [
    "/* Größe des Puffers für Änderungen prüfen */\n",
    "# Le café est prêt à être servi, déjà vu ; « garçon »\n",
    "# Filen åpnes på nytt når den er ødelagt, være ærlig\n",
    "int x; // 20 °C ± 1 µs\n",
    "naïve",
    "[àèìòù]",
]


@for_each("encoding", ["cp1252", "latin-1"])
@for_each("text", WESTERN)
def test_western_text_is_read_in_its_encoding(encoding: str, text: str) -> None:
    assert decode_text(text.encode(encoding)).raw == text


def test_mostly_utf_8_with_damage_is_still_utf_8() -> None:
    data = "Größe Änderung für Straße prüfen, Übergabe\n".encode() + b"\xff\n"
    assert (detect(data).encoding, detect(data).errors) == ("utf-8", "surrogateescape")


def test_a_part_of_a_file_may_end_within_a_character() -> None:
    data = "Größe\n漢字\n".encode()
    for length in range(len(data)):
        assert detect(data[:length], whole=False).encoding == "utf-8"
