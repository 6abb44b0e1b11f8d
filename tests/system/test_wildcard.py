import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.system.wildcard import BadPatternError, expand_braces, name_regex, path_regex


@pytest.mark.parametrize(
    ("pattern", "expanded"),
    [
        ("a", ["a"]),
        ("{a,b}.{c,d}", ["a.c", "a.d", "b.c", "b.d"]),
        ("x{a,{b,c}d}", ["xa", "xbd", "xcd"]),
        ("{a}", ["{a}"]),
        ("{a,b", ["{a,b"]),
        ("\\{a,b}", ["\\{a,b}"]),
        ("{,a}b", ["b", "ab"]),
    ],
)
def test_braces_expand_in_order(pattern: str, expanded: list[str]) -> None:
    assert expand_braces(pattern) == expanded


def test_braces_without_end_are_refused() -> None:
    with pytest.raises(BadPatternError):
        expand_braces("{a,b}" * 30)


@pytest.mark.parametrize("pattern", ["*a" * 40 + "b", "**/a*/" * 12 + "b", "[ab]*" * 30 + "c"])
def test_no_pattern_makes_matching_explode(pattern: str) -> None:
    # A backtracking matcher would not come back from this within the time limit of a test.
    assert re.compile(path_regex(pattern)).fullmatch("a" * 250 + "/" + "a/" * 100 + "x") is None


@given(st.text(alphabet="ab*?[]!-\\/", max_size=8), st.text(alphabet="ab-/", max_size=8))
def test_every_pattern_is_refused_or_compiles(pattern: str, path: str) -> None:
    try:
        sources = (name_regex(pattern), path_regex(pattern))
    except BadPatternError:
        return
    for source in sources:
        re.compile(source).fullmatch(path)
