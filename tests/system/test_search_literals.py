import re
import sys

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from alhena.system.search_literals import literal_source, required_literals


@pytest.mark.parametrize(
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


@given(PATTERNS, LINES)
def test_every_line_that_matches_holds_what_is_required(pattern: str, line: str) -> None:
    literals = required_literals(pattern)
    if literals and regex.search(pattern, line, regex.IGNORECASE, timeout=1):
        source = literal_source(literals).encode()
        assert re.search(source, line.encode(), re.IGNORECASE)


def test_every_character_that_matches_an_ascii_one_without_case_is_accounted_for() -> None:
    everything = "\n".join(chr(n) for n in range(sys.maxunicode) if not 0xD800 <= n < 0xE000)
    for char in "abcdefghijklmnopqrstuvwxyz0[-":
        literal = f"{char.lower()}{char.lower()}"
        source = re.compile(literal_source((literal,)).encode(), re.IGNORECASE)
        for found in regex.findall(regex.escape(char), everything, regex.IGNORECASE):
            assert source.search((found * 2).encode()), (char, found)


@pytest.mark.parametrize("char", [chr(code) for code in range(32, 127)])
def test_literal_sources_mean_the_character_itself(char: str) -> None:
    source = literal_source((f"a{char}a".lower(),)).encode()
    assert re.search(source, f"a{char}a".encode(), re.IGNORECASE)
    assert not re.search(source, b"a\x01a", re.IGNORECASE)
