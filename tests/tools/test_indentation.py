"""Indentation may differ from the file's in all but one thing: how lines stand to each other."""

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from alhena.system.encoding import decode_text
from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import Replace, SmartEdit
from alhena.tools.edit.indentation import same_structure
from alhena.tools.edit.matching import MatchStep, find
from alhena.tools.edit.splicing import apply_edits
from tests.tools.files import call, failure_type, text_of


def edit_text(before: str, old: str, new: str) -> str | None:
    """The text after the edit, by whatever rung; None when none finds one place."""
    match = find(decode_text(before.encode()), old, new, fuzzy=True)
    return None if match is None or match.edits is None else apply_edits(before, match.edits)


OUTSIDE = "if x:\n    pass\nfoo()"
FLOW = "else:\n    first_step()\n    last_step()"


@pytest.mark.requirement("TOOLS-10", "TOOLS-11")
@pytest.mark.parametrize(
    ("before", "old", "number", "line"),
    [
        ("if x:\n    pass\n    foo()\n", OUTSIDE, 3, "    foo()"),
        ("def f():\n    if x:\n        pass\n        foo()\n", OUTSIDE, 4, "        foo()"),
        ("\tif x:\n\t\tpass\n\t\tfoo()\n", OUTSIDE, 3, "\t\tfoo()"),
        ("if x:\n    pass  \n\n    foo()\n", "if x:\n    pass\n\nfoo()", 4, "    foo()"),
        ("  else:\n    first_step()\n  last_step()\n", FLOW, 3, "  last_step()"),
        ("- one\n- two\n", "- one\n  - two", 2, "- two"),
        ("if x:\n    foo( )\n", "if x:\nfoo()", 2, "    foo( )"),
        # The first line's indentation was not left out: nothing else is indented as in the file.
        ("if x:\n    foo()  \nbar()\n", "foo()\nbar()", 3, "bar()"),
        ("    foo()\n    bar()\n", "foo()\n  bar()", 2, "    bar()"),
    ],
)
async def test_another_structure_is_a_miss_that_shows_the_line(
    project: Path, before: str, old: str, number: int, line: str
) -> None:
    path = project / "a.py"
    path.write_text(before, encoding="utf-8")
    params = {"file_path": "a.py", "old_string": old, "new_string": "bar()"}
    for result in (
        await call(Replace(Workspace(project)), **params),
        await call(SmartEdit(Workspace(project)), instruction="Do it.", **params),
    ):
        assert failure_type(result) == "edit_no_occurrence_found"
        assert f"line {number}: the file has {line!r}, old_string has" in text_of(result)
        assert "relative to the lines before it, the indentation differs" in text_of(result)
    assert path.read_text(encoding="utf-8") == before


@pytest.mark.requirement("TOOLS-11")
def test_similar_lines_of_another_structure_are_a_miss() -> None:
    before = "if ready:\n    compute_total(values)\n    report_total(values)\n"
    slip = "if ready:\n    compute_totl(values)\n"
    assert edit_text(before, f"{slip}    report_total(values)", "z") == "z\n"
    assert edit_text(before, f"{slip}report_total(values)", "z") is None


@pytest.mark.requirement("TOOLS-10", "TOOLS-11")
@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        # Shifted as a whole, in other units, with tabs for spaces, with tabs and spaces mixed.
        ("    if x:\n        y\n    z\n", "if x:\n    y\nz", "if x:\n    w\nz", "    if x:\n        w\n    z\n"),
        ("if x:\n  y\nz \n", "if x:\n    y\nz", "if x:\n    w\nz", "if x:\n  w\nz \n"),
        ("\tif x:\n\t\ty\n", "if x:\n    y", "if x:\n    w", "\tif x:\n\t\tw\n"),
        ("    x;\n\ty;\n    z;\n", "  x;\n    y;\n  z;", "  x;\n    w;\n  z;", "    x;\n\tw;\n    z;\n"),
        # Blank lines do not count.
        ("    x\n \n    y\n", "x\n      \ny", "w\n\ny", "    w\n \n    y\n"),
        # The first line alone without its indentation.
        ("  if x:\n    y \n  z\n", "if x:\n    y\n  z", "if w:\n    y\n  z", "  if w:\n    y \n  z\n"),
        # A line that takes a blank one's place gets no indentation from it.
        ("a \n   \nb\n", "a\n\nb", "a\nc\nb", "a \nc\nb\n"),
    ],
)  # fmt: skip
def test_the_same_structure_is_found_however_deep_it_stands(
    before: str, old: str, new: str, after: str
) -> None:
    assert edit_text(before, old, new) == after


def test_of_two_places_the_one_of_the_same_structure_is_meant() -> None:
    before = "if a:\n    x()\n    y()\n\n  if a:\n    x()\n  y()\n"
    assert edit_text(before, "if a:\n    x()\ny()", "z()") == "if a:\n    x()\n    y()\n\n  z()\n"
    assert edit_text(before, "if a:\n  x( )\ny( )", "z()") == "if a:\n    x()\n    y()\n\n  z()\n"


def test_a_bracket_in_a_comment_does_not_free_the_lines_after_it() -> None:
    before = "x = 1  # see (a\nif x:\n    y( )\n    z()\n"
    assert edit_text(before, "x = 1 # see (a\nif x:\n    y()\nz()", "w") is None
    assert edit_text(before, "x = 1 # see (a\nif x:\n    y()\n    z()", "w") == "w\n"


def test_new_lines_stand_to_the_others_as_they_were_given_or_nothing_is_found() -> None:
    before = "    call( one )\n"
    assert edit_text(before, "call(one)", "call(one)\nother()") is None
    assert edit_text(before, "  call(one)", "  call(one)\n  other()") is not None
    # A line end that the file has not, since it stood in brackets, is not lost outside them.
    assert edit_text("f(a, b)\n", "f(a,\n  b)", "g\n  b)") is None


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("}\n" * 200_000, " }\n}\n" * 200 + "}"),
        (" }\n}\n}\n" * 50_000, "}\n" * 900 + "}"),
        ("f( a )\n" * 60_000, "f(a)\n  f(a)\n" * 200 + "f(a)"),
    ],
)
def test_places_without_end_that_do_not_fit_are_searched_within_the_time_limit(
    text: str, old: str
) -> None:
    assert find(decode_text(text.encode()), old, "new", fuzzy=True) is None


def sign(one: str, other: str) -> int:
    """Sign of the difference of two indentations: 1 if the first is deeper, -1 or 0."""
    return (len(one) > len(other)) - (len(one) < len(other))


DEPTHS = st.lists(st.integers(0, 3), min_size=2, max_size=7)
UNITS = st.sampled_from([" ", "  ", "    ", "\t"])


@pytest.mark.requirement("TOOLS-10", "TOOLS-11")
@given(st.data(), DEPTHS, DEPTHS, UNITS, UNITS, st.sampled_from(["", "()", "( )", "(x, 1)"]))
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_a_match_implies_the_same_structure(
    data: st.DataObject, here: list[int], ours: list[int], unit: str, given_unit: str, call_: str
) -> None:
    size = min(len(here), len(ours))
    if data.draw(st.booleans()):
        ours = [depth + data.draw(st.integers(0, 1)) for depth in here]  # often nearly the same
        size = len(here)
    theirs = [unit * depth for depth in here[:size]]
    mine = [given_unit * depth for depth in ours[:size]]
    blank = data.draw(st.sampled_from(["", "\n", "\n   \n"]))
    rows = [f"{indent}statement_{n}{call_}" for n, indent in enumerate(theirs)]
    loose = data.draw(st.sampled_from(["", " ", "\t "]))
    before = "begin\n" + f"{loose}\n{blank}".join(rows) + "\nend\n"
    old = f"\n{blank}".join(
        f"{indent}statement_{n}{call_.replace(' ', '')}" for n, indent in enumerate(mine)
    )
    new = f"{mine[0]}changed"
    match = find(decode_text(before.encode()), old, new, fuzzy=data.draw(st.booleans()))
    alike = all(
        sign(mine[a], mine[b]) == sign(theirs[a], theirs[b])
        for a, b in combinations(range(size), 2)
    )
    left_out = mine[0] == "" and mine[1:] == theirs[1:] and all(mine[1:])
    assert same_structure(list(zip(mine, theirs, strict=True))) is alike
    if match is None:
        assert not alike
    elif match.rung not in {MatchStep.EXACT, MatchStep.LINE_ENDINGS}:
        assert alike or left_out


@given(DEPTHS, DEPTHS, UNITS, st.integers(0, 2), st.integers(1, 3))
@settings(deadline=None, max_examples=60)
def test_new_text_keeps_its_own_structure(
    kept: list[int], added: list[int], unit: str, shift: int, at: int
) -> None:
    """The lines of the file are shifted and in another unit than the model's four blanks."""
    kept = [depth - min(kept) for depth in kept]
    assume(kept[0] == 0)
    # Else the first line's indentation may as well have been left out.
    assume(not shift or any(unit * (shift + depth) != "    " * depth for depth in kept[1:]))
    rows = [f"statement_{n}" for n in range(len(kept))]
    before = "".join(
        f"{unit * (shift + depth)}{row} \n" for depth, row in zip(kept, rows, strict=True)
    )
    old = [f"{'    ' * depth}{row}" for depth, row in zip(kept, rows, strict=True)]
    more = [f"{'    ' * depth}added_{n}" for n, depth in enumerate(added)]
    new = [*old[:at], *more, *old[at:]]
    after = edit_text(before, "\n".join(old), "\n".join(new))
    if after is None:
        return
    found = [line for line in after.split("\n") if line.strip()]
    assert [line.strip() for line in found] == [line.strip() for line in new]
    indents = [line[: len(line) - len(line.lstrip())] for line in found]
    given_ = [line[: len(line) - len(line.lstrip())] for line in new]
    for a, b in combinations(range(len(new)), 2):
        assert sign(indents[a], indents[b]) == sign(given_[a], given_[b])
