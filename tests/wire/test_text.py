"""Text for the wire and text for error messages."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.wire.json_values import carried_text, excerpt, is_token, scrub

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


def test_a_file_name_that_is_no_utf_8_is_scrubbed() -> None:
    assert scrub(os.fsdecode(b"caf\xe9-\xf0\x9f.txt")) == "caf\ufffd-\ufffd\ufffd.txt"


def test_surrogates_that_form_a_pair_become_their_character() -> None:
    assert scrub("\ud83d\ude00 \ude00\ud83d") == "\U0001f600 \ufffd\ufffd"


@given(ANY_TEXT)
def test_scrubbed_text_always_encodes_and_valid_text_is_untouched(text: str) -> None:
    scrubbed = scrub(text)
    scrubbed.encode("utf-8")
    assert scrub(scrubbed) == scrubbed
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert scrubbed == text
    elif not any("\ud800" <= character <= "\udbff" for character in text):
        assert len(scrubbed) == len(text)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain", "plain"),
        (b"  two\r\n\t lines \n", "two lines"),
        (b"\xffA\x00\x1b[2J", "\ufffdA\\x00\\x1b[2J"),
        ("right\u202eleft\ud800", "right\\u202eleft\ufffd"),
        (b"", ""),
        (b"x" * 20, "x" * 20),
        (b"x" * 21, "x" * 19 + "…"),
        (b"\xc3\xa9" * 1_000_000, "é" * 19 + "…"),
        (b"\n" * 1000 + b"x", "…"),
    ],
)
def test_an_excerpt_is_one_printable_line_of_bounded_length(data: bytes | str, shown: str) -> None:
    assert excerpt(data, 20) == shown


@given(ANY_TEXT | st.binary(), st.integers(1, 50))
def test_an_excerpt_never_exceeds_its_limit(data: str | bytes, limit: int) -> None:
    line = excerpt(data, limit)
    assert len(line) <= limit
    assert line.isprintable()
    line.encode("utf-8")


def test_what_no_header_can_carry_is_no_token_and_counts_as_absent():
    assert is_token("ya29.a-b_c")
    assert carried_text(" openid email ") == "openid email"
    for text in ("", "a b", "a\nb", "ä", "a\x7f"):
        assert not is_token(text), text
    for value in (None, 1, ["a"], "a\r\nb", "ä", "a\x7f"):
        assert carried_text(value) == "", value
