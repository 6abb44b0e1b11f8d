"""The ladder, and what its rungs are made of."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.system.encoding import decode_text, encode_text
from alhena.tools.edit.matching import MatchStep, find
from alhena.tools.edit.proposal import CONTEXT, snippet_of
from alhena.tools.edit.splicing import (
    apply_edits,
    changed_window,
    rewritten,
    splice_file,
    split_lines,
)
from tests.support.each import for_each


def edit_text(before: str, old: str, new: str, *, fuzzy: bool = False) -> tuple[str, str] | None:
    """The rung that finds the one place, and the file's text after the edit."""
    file = decode_text(before.encode())
    match = find(file, old, new, fuzzy=fuzzy)
    if match is None or match.edits is None:
        return None
    assert encode_text(splice_file(file, match.edits), file.codec).decode().replace(
        "\r\n", "\n"
    ) == apply_edits(file.text, match.edits)
    return match.rung.value, apply_edits(file.text, match.edits)


@pytest.mark.requirement("TOOLS-11")
@for_each(
    ("before", "old", "new", "after"),
    [
        # New lines are indented as the file does it: two spaces for four, tabs for spaces.
        (
            "if a:\n  if b:\n    c\n",
            "if a:\n    if b:\n        c",
            "if a:\n    if b:\n        c\n    else:\n        d",
            "if a:\n  if b:\n    c\n  else:\n    d\n",
        ),
        (
            "\tif a:\n\t\tb\n",
            "if a:\n    b",
            "if a:\n    b\n    if c:\n        d\nelse:\n    e",
            "\tif a:\n\t\tb\n\t\tif c:\n\t\t\td\n\telse:\n\t\te\n",
        ),
        ("\tx\n", "    x", "    if y:\n        x", "\tif y:\n\t\tx\n"),
        ("  x\n    y\n", "\tx\n\t\ty", "\tx\n\t\ty\n\t\t\tz", "  x\n    y\n      z\n"),
        # Less deep than anything that was given.
        ("\t\tx\n\t\ty\n", "        x\n        y", "    x\n        y", "\tx\n\t\ty\n"),
        # The first line given without its indentation, the others with it.
        (
            "    if a:  \n        b\n",
            "if a:\n        b",
            "if a:\n        b\n    c",
            "    if a:  \n        b\n    c\n",
        ),
        # Blank lines at either end are the file's, unless the edit takes them away.
        ("a \n\n\nb\n", "\na\n", "\nc\n", "c\n\n\nb\n"),
        ("x\na \n\nb\n", "a\n\nb\n", "", "x\n"),
        ("x\n \na \ny\n", "\na\ny", "z", "x\n z\n"),
        ("x\na ", "a\n", "", "x\n"),
        # Blanks in lines that stay are the file's.
        ("a  \nb\t\nc\n", "a\nb\nc", "a\nB\nc", "a  \nB\nc\n"),
        ("a\n   \nb\nc\n", "a\n\nb", "a\n\nB", "a\n   \nB\nc\n"),
        # Between words.
        ("f( a, b )\n", "f(a, b)", "f(a, b, c)", "f( a, b, c)\n"),
        ("x = f(a,b)\n", "x = f( a, b )", "x = g( a, b )", "x = g(a,b)\n"),
        ("  f(a,b);\ng\n", "  f(a, b);\n", "", "g\n"),
        ("\tf(a,b);\n", "    f(a, b);", "    f(a, b);\n    g();", "\tf(a,b);\n\tg();\n"),
    ],
)
def test_new_text_takes_on_the_blanks_of_the_file(
    before: str, old: str, new: str, after: str
) -> None:
    found = edit_text(before, old, new)
    assert found is not None
    assert found[0] in {"whitespace", "tokens"}
    if "\n z\n" in after:  # literal: what the old text took with it goes
        assert found[1].replace(" ", "") == after.replace(" ", "")
    else:
        assert found[1] == after


@pytest.mark.requirement("TOOLS-11")
@pytest.mark.parametrize(
    ("before", "old", "new"),
    [
        ("int x\n", "intx", "y"),
        ("intx\n", "int x", "y"),
        ("maxf( a )\n", "f(a)", "g(a)"),
        ("f( a )b\n", "f(a) b2", "g"),
        ("a  b\n", "   \n ", "x"),
        ("    x \n", "x\n  ", "x\ny"),
        ("x\ny\n", "x\n\n\ny", "z"),
    ],
)
def test_what_is_not_certain_is_not_found(before: str, old: str, new: str) -> None:
    assert edit_text(before, old, new) is None


@pytest.mark.requirement("TOOLS-11")
@for_each(
    ("before", "old", "found"),
    [
        ("def compute_total(values):\n", "def compute_totl(values):", True),
        ("def compute_total(values):\n", "def cmpute_totl(vales):", False),  # more than a tenth
        ("port = 8080 # of it\n", "port = 8081 # of it", False),
        ("short\n", "shrt", False),
        ("if user.is_admin and user.active:\n", "if not user.is_admin and user.active:", False),
        (
            "disable_feature_alpha(server, timeout)\n",
            "enable_feature_alpha(server, timeout)",
            False,
        ),
        ("if first_value > second_value:\n", "if first_value < second_value:", False),
        ("abcdefghij\nabcdefghiX\n", "abcdefghiZ", False),
        ("abcdefghijk\nabcdefghilk\n", "abcdefghiik", False),  # two equally close
        ("abcdefghijklmnopqrst\n" * 2, "abcdefghijklmnopqrsu", False),
        ("x" * 9_000 + "\n", "x" * 8_999, False),  # over the bound
        ("sentence " * 20 + "\n" + "\n" * 5_000, "sentence " * 19 + "sentnce", True),
    ],
)
def test_similar_text_is_found_within_its_bound(before: str, old: str, found: bool) -> None:
    assert (edit_text(before, old, "z", fuzzy=True) is not None) is found
    assert edit_text(before, old, "z") is None


SMALL = st.text(alphabet="ab(\n \t", max_size=14)


@given(SMALL, SMALL, st.integers(0, 5))
@settings(deadline=None)
def test_the_changed_window_holds_all_that_differs(a: str, b: str, context: int) -> None:
    window = changed_window(a, b, context)
    for text, part in ((a, window.before), (b, window.after)):
        lines = split_lines(text)
        assert lines[window.base : window.base + len(part)] == part
    rest = split_lines(a)[window.base + len(window.before) :]
    assert rest == split_lines(b)[window.base + len(window.after) :]
    assert split_lines(a)[: window.base] == split_lines(b)[: window.base]


@given(SMALL, SMALL, SMALL)
@settings(deadline=None, max_examples=100)
def test_whatever_rung_finds_it_only_the_found_place_changes(text: str, old: str, new: str) -> None:
    if not old:
        return
    file = decode_text(text.encode())
    match = find(file, old, new, fuzzy=True)
    if match is None:
        assert old not in text
        return
    if match.rung is MatchStep.EXACT:
        assert match.count == text.count(old) or match.overlapping
    if match.edits is None:
        assert match.count > 1 or match.misplaced
        return
    assert match.count == 1
    ((start, end, _),) = match.edits
    words = "".join(old.split())
    assert "".join(file.text[start:end].split()) == words or match.rung is MatchStep.FUZZY
    after = apply_edits(file.text, match.edits)
    assert after.startswith(file.text[:start])
    assert after.endswith(file.text[end:])
    # The new text is there, blanks aside.
    assert "".join(new.split()) in "".join(after[start : len(after) - len(file.text[end:])].split())


@given(st.text(alphabet="ab\r\n\ud7ff\x1f", max_size=12), st.text(alphabet="ab\n", max_size=12))
@settings(deadline=None)
def test_a_rewritten_file_reads_as_it_was_asked_for(raw: str, content: str) -> None:
    file = decode_text(raw.encode())
    again = decode_text(encode_text(rewritten(file, content), file.codec))
    assert again.text.replace("\r", "\n") == content or "\r" in file.text


def updated_code(old: str, new: str) -> str:
    return snippet_of(changed_window(old, new, CONTEXT))


def test_the_snippet_shows_five_lines_around_each_change_and_stays_small() -> None:
    lines = [f"line {n}" for n in range(100)]
    new = [*lines]
    new[20], new[60] = "new 20", "new 60"
    shown = updated_code("\n".join(lines), "\n".join(new))
    assert shown.split("\n") == [
        "...",
        *lines[15:20],
        "new 20",
        *lines[21:26],
        "...",
        *lines[55:60],
        "new 60",
        *lines[61:66],
        "...",
    ]
    assert updated_code("a\nb\n", "a\nc\n") == "a\nc"
    huge = "\n".join("x" * 10_000 for _ in range(10_000))
    assert len(updated_code("", huge)) < 15_000
    many = "\n".join(f"{n}" if n % 20 else "changed" for n in range(5_000))
    assert len(updated_code("\n".join(map(str, range(5_000))), many).split("\n")) < 120


@pytest.mark.requirement("TOOLS-10")
@pytest.mark.parametrize(
    ("before", "old"),
    [
        ("return\nx = 2\n", "return x"),
        ("foo\n# c\n", "foo # c"),
        ("# See\n\nthe manual\n", "See the manual"),
        ('s = "a b"\n', 's = "a  b"'),
        ("i + + j\n", "i ++ j"),
        ("- item one\n\n\n- item two\n", "- item one\n- item  two"),
    ],
)
def test_blanks_that_mean_something_are_not_free(before: str, old: str) -> None:
    assert edit_text(before, old, "z") is None
    assert edit_text(before, old, "z", fuzzy=True) is None
