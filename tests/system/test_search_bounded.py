import pytest
import regex
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from alhena.system.search.lines import Deadline, LineMatcher, compile_pattern, line_bounded
from tests.support.each import for_each

ATOMS = st.sampled_from(
    ["a", "b", " ", ".", r"\s", r"\S", r"\w", r"\W", r"\d", r"\D", "[ab]", "[^a]", r"[^\w]", r"[\s,]",
     r"[\W]", "[^-a]", "[^]a]", "[]a]", "[^^a]", r"[\t-z]", r"[^\s]", r"\b", "^", "$", "(?=a)",
     "(?!a)", r"(?!\s)", r"(?<=a)", r"(?<!a)", r"(?<!\s)", r"(?<=\W)", "(a)", "(?:b|)", "(?!.)",
     r"\.", r"\-", r"(?P<n>a)", "é", r"\1", "(?!$)", "(?<!^)", "(?=$)"]
)  # fmt: skip
QUANTIFIERS = st.sampled_from(
    ["", "", "", "*", "+", "?", "*?", "+?", "*+", "++", "{2}", "{0,2}", "{,2}"]
)
PATTERNS = st.lists(
    st.builds(lambda atom, quantifier: atom + quantifier, ATOMS, QUANTIFIERS) | st.just("|"),
    max_size=6,
).map("".join)
LINES = st.lists(st.text(alphabet="ab -é\t,]^", max_size=5), max_size=6)


def compiles(pattern: str) -> bool:
    try:
        regex.compile(pattern, regex.IGNORECASE)
    except regex.error:
        return False
    return True


@given(pattern=PATTERNS, lines=LINES, final=st.booleans())
@settings(max_examples=400, deadline=None)
def test_a_text_has_the_matching_lines_that_its_lines_have(
    pattern: str, lines: list[str], final: bool
) -> None:
    assume(compiles(pattern))
    text = "\n".join(lines) + ("\n" if final and lines and lines[-1] else "")
    alone = text.split("\n")
    if not alone[-1]:
        alone.pop()
    each = regex.compile(pattern, regex.IGNORECASE)
    expected = [(n, line) for n, line in enumerate(alone, start=1) if each.search(line)]
    matcher = LineMatcher(compile_pattern(pattern), None, (), Deadline(9, lambda: False))
    assert list(matcher.in_text(text, 1)) == expected


@pytest.mark.parametrize(
    ("pattern", "bounded"),
    [
        (r"^\s*foo\b", r"^[^\S\n]*foo\b"),
        ("[^a]+", r"[^\na]+"),
        (r"[\s,]x", r"(?:(?!\n)[\s,])x"),
        ("[^]-]", r"[^\n\]-]"),
        (r"a\.b{2,}", r"a\.b{2,}"),
        (r"(?P<q>['\"]).*(?P=q)", r"(?P<q>['\"]).*(?P=q)"),
    ],
)
def test_what_could_match_a_line_feed_no_longer_does(pattern: str, bounded: str) -> None:
    assert line_bounded(pattern) == bounded


@for_each("pattern", ["(?s)a.b", "(?i)a", "a{e<=1}", r"\Aa", r"a\Z", r"a\n", "a\nb", r"\x0a", r"\R", r"\X", r"\p{L}",
     "[[:space:]]", "[a--b]", "[a&&b]", "(?>a)", "(?(1)a|b)", "(?R)", "(*FAIL)", r"\Bx", "a\\"])  # fmt: skip
def test_what_is_not_followed_goes_line_by_line(pattern: str) -> None:
    assert line_bounded(pattern) is None
