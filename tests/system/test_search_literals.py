import re

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from alhena.system.search.literals import (
    ESCAPED,
    RAW,
    ByteSyntax,
    literal_source,
    required_literals,
)
from tests.support.each import for_each

ENCODINGS = ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "latin-1", "cp1254",
             "gb18030", "big5", "cp949", "cp932", "euc_jp", "koi8-r", "cp1251", "cp866",
             "iso8859-5", "cp1253", "cp1255", "cp1250", "cp1252"]  # fmt: skip
"""All that `encoding.detect` knows."""


@for_each(
    ("pattern", "literals"),
    [
        ("TODO", ("todo",)),
        ("TODO|FIXME", ("fixme", "todo")),
        (r"def \w+\(self", ("(self",)),
        (r"\bimport\s+os\b", ("import",)),
        (r"colou?r", ("colo",)),
        (r"ab+c", ("ab",)),
        (r"ab{2,}cd", ("ab",)),
        (r"(foo|ba)r+", ("ba", "foo")),
        (r"(?:foo|bar)quux", ("quux",)),
        (r"a\.b\[c\]", ("a.b[c]",)),
        (r"[abc]def", ("def",)),
        (r"[]x]yz", ("yz",)),
        (r"(abc)?de", ("de",)),
        (r"(abc){0}", ()),
        (r"abc|", ()),
        (r"a.b.c", ()),
        (r"\d+", ()),
        (r"caf\u00e9s? bar", (" bar",)),
        (r"(?i)abc", ()),
        (r"(?<!x)abc", ("abc",)),
        (r"(?<=xyz)abc(?=defg)(?!hijkl)", ("abc",)),
        (r"(?P<name>abc)\d", ("abc",)),
        (r"(?<name>abc)", ("abc",)),
        (r"(?>abc)", ()),
        (r"(?P=name)abc", ()),
        (r"abc{e<=1}", ()),
        (r"[[:alpha:]]]]", ()),
        (r"(abc)\1", ()),
        (r"\x41bc", ()),
        (r"abc)", ()),
        ("", ()),
        ("(" * 200 + "abc" + ")" * 200, ()),
    ],
)
def test_required_text_is_found_in_patterns(pattern: str, literals: tuple[str, ...]) -> None:
    pattern = pattern.encode().decode("raw_unicode_escape") if "\\u" in pattern else pattern
    assert required_literals(pattern) == literals


ATOMS = st.sampled_from(
    [
        "ab",
        "Sk",
        "i",
        "é",
        "ß",
        ".",
        r"\d",
        r"\w",
        r"\.",
        "[a-c]",
        "[^x]",
        r"\b",
        "^",
        "$",
        " ",
        "-",
    ]
)


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quantifiers = st.sampled_from(["*", "+", "?", "{2}", "{0,1}", "{1,2}", "*?", "+?", ""])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, quantifiers).map(lambda pair: f"({pair[0]}){pair[1]}"),
        st.tuples(inner, quantifiers).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    )


PATTERNS = st.recursive(ATOMS, combined, max_leaves=8)
LINES = st.text(alphabet="abAB sSkKiIcx.-1é\u212a\u017f\u0130\u0131ß", max_size=30)


@given(PATTERNS, LINES, st.sampled_from(ENCODINGS))
def test_every_line_that_matches_holds_what_is_required(
    pattern: str, line: str, encoding: str
) -> None:
    literals = required_literals(pattern)
    text = line.encode(encoding, "replace").decode(encoding)
    if literals and regex.search(pattern, text, regex.IGNORECASE, timeout=1):
        for syntax in (ESCAPED, RAW):
            source = literal_source(literals, syntax).encode("latin-1")
            assert re.search(source, text.encode(encoding), re.IGNORECASE)


@for_each("syntax", [ESCAPED, RAW])
@for_each("encoding", ENCODINGS)
def test_every_character_that_matches_an_ascii_one_without_case_is_accounted_for(
    encoding: str, syntax: ByteSyntax
) -> None:
    everything = "\n".join(map(chr, (*range(0xD800), *range(0xE000, 0x12000))))
    for char in "abcdefghijklmnopqrstuvwxyz0[-":
        literal = f"{char.lower()}{char.lower()}"
        source = re.compile(literal_source((literal,), syntax).encode("latin-1"), re.IGNORECASE)
        for found in regex.findall(regex.escape(char), everything, regex.IGNORECASE):
            if (found * 2).encode(encoding, "ignore"):
                assert source.search((found * 2).encode(encoding)), (char, found)


@pytest.mark.parametrize("literal", ["needle", "kiss", "resolve_endpoint", "a.b"])
def test_other_text_is_not_taken_for_a_literal(literal: str) -> None:
    for syntax in (ESCAPED, RAW):
        source = literal_source((literal,), syntax).encode("latin-1")
        for encoding in ENCODINGS:
            text = "some other text with café and 文件, nothing else a b\n"
            data = text.encode(encoding, "replace")
            assert not re.search(source, data, re.IGNORECASE), encoding


@for_each("char", [chr(code) for code in range(32, 127)])
def test_literal_sources_mean_the_character_itself(char: str) -> None:
    source = literal_source((f"a{char}a".lower(),)).encode()
    assert re.search(source, f"a{char}a".encode(), re.IGNORECASE)
    assert not re.search(source, b"a\x01a", re.IGNORECASE)
