"""Old and new text that are indented otherwise than the file, each in its own way."""

import ast
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import Replace, SmartEdit
from tests.tools.files import call, failure_type, text_of

HEAD = "class A:\n    def f(self):\n        if self.x:\n"
TAIL = "        return 1\n\n    def g(self):\n        pass\n"
BLOCKS = {
    "one line": ("            a = 1", "            a = 2"),
    "last line": ("            a = 1\n            b = 2", "            a = 1\n            b = 3"),
    "first line": ("            a = 1\n            b = 2", "            a = 3\n            b = 2"),
    "all": ("            a = 1\n            b = 2", "            c = 3\n            d = 4"),
    "nested": (
        "            if a:\n                b()\n            c()",
        "            if a:\n                b(2)\n                e()\n            c()",
    ),
    "wrapped": (
        "            a = 1\n            b = 2",
        "            if c:\n                a = 1\n                b = 2",
    ),
    "unwrapped": (
        "            if c:\n                a = 1\n                b = 2",
        "            a = 1\n            b = 2",
    ),
    "a line more": ("            a = 1", "            a = 1\n            b = 2"),
    "a blank line": (
        "            a = 1\n\n            b = 2",
        "            a = 1\n\n            c = 2\n\n            b = 2",
    ),
    "a string": (
        '            a = """\n              x\n            """\n            b = 2',
        '            a = """\n              y\n            """\n            b = 2',
    ),
}


def move_lines(text: str, by: int) -> str:
    """The text with each line so many blanks deeper; less deep, where it is that deep."""
    return "\n".join(
        " " * by + line if by > 0 and line.strip() else line[-by if by < 0 else 0 :]
        for line in text.split("\n")
    )


INDENTED: dict[str, Callable[[str], str]] = {
    "far too far": lambda text: move_lines(text, 8),
    "too far": lambda text: move_lines(text, 4),
    "half a step too far": lambda text: move_lines(text, 2),
    "right": lambda text: text,
    "not far enough": lambda text: move_lines(text, -4),
    "at the margin": lambda text: move_lines(text, -12),
    "first line bare": str.lstrip,
}


def anchor_text(text: str, here: str) -> str:
    """The text as the reference indents it: its first line as the file's, the others as they stand
    to that."""
    first = text[: len(text) - len(text.lstrip())]
    theirs = here[: len(here) - len(here.lstrip())]
    return "\n".join(
        "" if not line.strip() else theirs + (line.removeprefix(first) if line.startswith(first) else line.lstrip())
        for line in text.split("\n")
    )  # fmt: skip


async def replace_text(path: Path, before: str, old: str, new: str) -> str | None:
    """The text after `replace`; None when it failed, and then nothing may be written."""
    path.write_bytes(before.encode())
    result = await call(
        Replace(Workspace(path.parent)), file_path=path.name, old_string=old, new_string=new
    )
    after = path.read_bytes().decode()
    if result.error is None:
        return after
    assert after == before
    assert "nothing was written" in text_of(result) or "occurrences found" in text_of(result)
    return None


def indent_with_tabs(text: str) -> str:
    return text.replace("    ", "\t")


@pytest.mark.parametrize("block", list(BLOCKS))
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("tabs", [False, True])
async def test_an_edit_is_what_was_meant_or_a_clear_failure(
    project: Path, block: str, ending: str, tabs: bool
) -> None:
    here, wanted = BLOCKS[block]
    kept = indent_with_tabs if tabs else str
    before, after = (kept(HEAD + each + "\n" + TAIL) for each in (here, wanted))
    for ours, theirs in product(INDENTED, INDENTED):
        if ours == "right" and not tabs:
            continue  # it is found exactly, and then the new text is written as it is
        old, new = INDENTED[ours](here), INDENTED[theirs](wanted)
        got = await replace_text(project / "a.py", before.replace("\n", ending), old, new)
        if got is not None:
            assert got.count("\n") == got.count(ending)
            assert ast.dump(ast.parse(got)) == ast.dump(ast.parse(after)), (ours, theirs)


@pytest.mark.parametrize("block", list(BLOCKS))
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (ours, theirs)
        for ours in ("too far", "at the margin")
        for theirs in ("too far", "right", "at the margin")
    ],
)
async def test_each_combination_of_indentations_is_written_as_the_file_has_it(
    project: Path, block: str, ours: str, theirs: str
) -> None:
    """But for one line at the margin, which is found as it is, within its indentation; and for a
    first line of another depth whose text shares no indentation with the old text or the file."""
    here, wanted = BLOCKS[block]
    old, new = INDENTED[ours](here), INDENTED[theirs](wanted)
    after = await replace_text(project / "a.py", f"{HEAD}{here}\n{TAIL}", old, new)
    if "\n" not in here and ours == "at the margin":
        assert (after is None) is ("\n" in new or theirs != ours)
    elif block == "unwrapped" and {ours, theirs} == {"too far", "at the margin"}:
        assert after is None
    else:
        assert after == f"{HEAD}{wanted}\n{TAIL}"


@pytest.mark.parametrize("block", list(BLOCKS))
@pytest.mark.parametrize(
    "ours", [name for name in INDENTED if name not in ("right", "first line bare")]
)
async def test_in_other_languages_an_edit_is_as_meant_as_the_reference_makes_it_or_none(
    project: Path, block: str, ours: str
) -> None:
    here, wanted = BLOCKS[block]
    for theirs, indented in INDENTED.items():
        old, new = INDENTED[ours](here), indented(wanted)
        got = await replace_text(project / "a.txt", f"{HEAD}{here}\n{TAIL}", old, new)
        allowed = (wanted, anchor_text(new, here))
        assert got in (None, *(f"{HEAD}{each}\n{TAIL}" for each in allowed)), (ours, theirs)


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        # Units of two in a file of four, and what is not indented like the file at all.
        ("if x:\n    y\n    z\n", "if x:\n  y", "if x:\n    w", "if x:\n    w\n    z\n"),
        ("if x:\n    y\n    z\n", "if x:\n  y", "if x:\n  w", "if x:\n    w\n    z\n"),
        ("\tif x:\n\t\ty \n", "if x:\n    y", "\tif x:\n\t\tw", "\tif x:\n\t\tw\n"),
        ("\tif x:\n\t\ty \n", "if x:\n    y", "if x:\n    w", "\tif x:\n\t\tw\n"),
        ("\tx \n\ty\n", "    x\n    y", "\tx\n    w", None),
        ("    x \n    y\n", "x\ny", "    x\n\tw", None),
        # The first line alone without its indentation.
        ("    x \n    y\n", "        x\n        y", "z\n    y", None),
        ("    x \n    y\n", "x\ny", "z\n    y", None),
        ("    x( )\n", "x()", "z()\n    y()", None),
        # Old and new text each as deep as one of the lines, and not together.
        ("    x \n    y\n", "        x\n        y", "    z\n        y", None),
        # Exact, but within the indentation.
        ("    x\n    z\n", "x", "w\n    y", "    w\n    y\n    z\n"),
        ("    x\n    z\n", "x", "w\ny", None),
        ("    x\n    z\n", "x", "    w", None),
        ("    x\n    z\n", "x", "    x", "        x\n    z\n"),
        ("    if x:\n    z\n", "if x:", "if y:\n    w", None),
        ("    if x:\n    z\n", "if x:", "if y:\n        w", "    if y:\n        w\n    z\n"),
        ("    x {\n    }\n", "x {", "y {\n    }\n    z {", "    y {\n    }\n    z {\n    }\n"),
        ("    x\n  }\n", "x\n  }", "y\n  }", "    y\n  }\n"),
    ],
)
async def test_what_the_lines_that_stay_say_decides(
    project: Path, before: str, old: str, new: str, after: str | None
) -> None:
    assert await replace_text(project / "a.txt", before, old, new) == after


BROKEN = "def f():\n    if x:\n        y \n        z\n"


@pytest.mark.parametrize("tool", [Replace, SmartEdit])
async def test_python_that_would_no_longer_parse_is_a_failure_that_says_so(
    project: Path, tool: type[Replace | SmartEdit]
) -> None:
    path = project / "a.py"
    path.write_text(BROKEN, encoding="utf-8")
    given_: dict[str, str] = {"file_path": "a.py", "old_string": "y\nz", "new_string": "if a:\nz"}
    if tool is SmartEdit:
        given_["instruction"] = "Do it."
    result = await call(tool(Workspace(project)), **given_)
    assert failure_type(result) == "edit_no_occurrence_found"
    assert "the Python would no longer parse (line 4: expected an indented block" in text_of(result)
    assert "nothing was written" in text_of(result)
    assert path.read_text(encoding="utf-8") == BROKEN


async def test_what_does_not_parse_before_or_is_given_as_it_is_may_break(project: Path) -> None:
    for before in (BROKEN + "print 'x'\n", BROKEN.replace("y ", "y")):
        old, new = "        y\n        z", "        if a:\n        z"
        wide = before if "print" not in before else before.replace("y ", "y  ")
        assert await replace_text(project / "a.py", wide, old, new) is not None


async def test_a_warning_about_the_source_is_none_of_the_edit(project: Path) -> None:
    before = 'def f():\n    x = "\\d"  \n    y = 1\n'
    old = 'x = "\\d"\ny = 1'
    after = await replace_text(project / "a.py", before, old, old.replace("1", "2"))
    assert after == before.replace("1", "2")


@st.composite
def bodies(draw: st.DrawFn, depth: int = 1) -> list[str]:
    """Lines of Python, relative to the first."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["call", "blank", "if", "string", "long"]))
        name = draw(st.sampled_from("abcd"))
        if kind == "blank" and lines:
            lines.append("")
        if kind == "if" and depth < 3:
            lines.append(f"if {name}:")
            lines += (f"    {line}" if line else "" for line in draw(bodies(depth + 1)))
        elif kind == "string":
            lines += [f'{name} = """', "  text", '"""']
        elif kind == "long":
            lines += [f"{name}(", "    1,", ")"]
        else:
            lines.append(f"{name}({draw(st.integers(0, 9))})")
    return lines


@given(st.data(), bodies(), bodies(), st.integers(0, 2), st.integers(-8, 8))
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_any_consistent_shift_makes_the_edit_that_was_meant_or_none(
    data: st.DataObject, block: list[str], fresh: list[str], depth: int, by: int
) -> None:
    from alhena.system.encoding import decode_text
    from alhena.tools.edit.matching import find
    from alhena.tools.edit.replacing import python_problem
    from alhena.tools.edit.splicing import apply_edits

    start = data.draw(st.integers(0, len(block)))
    end = data.draw(st.integers(start, len(block)))
    changed = [*block[:start], *fresh, *block[end:]]
    base = 4 * depth
    by = max(by, -base)
    lead = "".join(f"{'    ' * n}if q{n}:\n" for n in range(depth))
    here, new = (move_lines("\n".join(lines), base) for lines in (block, changed))
    before, wanted = (f"{lead}{each}\n{' ' * base}end()\n" for each in (here, new))
    try:
        ast.parse(before)
        ast.parse(wanted)
    except SyntaxError:
        assume(False)
    assume(before.count(here) == 1)
    file = decode_text(before.encode())
    match = find(file, move_lines(here, by), move_lines(new, by))
    if match is None or match.edits is None:
        return
    after = apply_edits(before, match.edits)
    if not python_problem(Path("a.py"), file, match, after):
        assert ast.dump(ast.parse(after)) == ast.dump(ast.parse(wanted))
