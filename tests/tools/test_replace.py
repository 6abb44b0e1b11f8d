from pathlib import Path

import pytest

from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import Replace
from alhena.tools.contract import EditConfirmation, ExecutionContext, FileDiff, ToolFailure
from tests.tools.files import call, failure_type, text_of


@pytest.fixture
def replace(project: Path) -> Replace:
    return Replace(Workspace(project))


@pytest.mark.requirement("TOOLS-10")
async def test_one_occurrence_is_replaced_and_the_change_shown(
    replace: Replace, project: Path
) -> None:
    (project / "a.py").write_text("x = 1\ny = 2\n", encoding="utf-8")
    result = await call(replace, file_path="a.py", old_string="y = 2", new_string=r"y = '\1 $&'")
    assert text_of(result) == (
        f"Successfully modified file: {project / 'a.py'} (1 replacements). "
        "Here is the updated code:\nx = 1\ny = '\\1 $&'"
    )
    assert result.data == {"rung": "exact", "lines": [[2, 2]], "replacements": 1}
    assert (project / "a.py").read_text(encoding="utf-8") == "x = 1\ny = '\\1 $&'\n"
    assert isinstance(result.display, FileDiff)
    assert result.display.original_content == "x = 1\ny = 2\n"
    assert result.display.new_content == "x = 1\ny = '\\1 $&'\n"
    assert "-y = 2\n" in result.display.file_diff


@pytest.mark.requirement("TOOLS-10")
@pytest.mark.parametrize(
    ("extra", "outcome"),
    [
        ({}, "edit_expected_occurrence_mismatch"),
        ({"expected_replacements": 2}, "edit_expected_occurrence_mismatch"),
        ({"expected_replacements": 3}, "b b b\n"),
        ({"allow_multiple": True}, "b b b\n"),
        ({"allow_multiple": False}, "edit_expected_occurrence_mismatch"),
        ({"allow_multiple": True, "expected_replacements": 3}, "b b b\n"),
        ({"allow_multiple": True, "expected_replacements": 2}, "edit_expected_occurrence_mismatch"),
    ],
)
async def test_the_number_of_occurrences_has_to_be_the_expected_one(
    replace: Replace, project: Path, extra: dict[str, object], outcome: str
) -> None:
    (project / "a.txt").write_text("a a a\n", encoding="utf-8")
    params = {"file_path": "a.txt", "old_string": "a", "new_string": "b", **extra}
    result = await call(replace, **params)
    if outcome.startswith("edit"):
        assert failure_type(result) == outcome
        assert "found 3" in text_of(result)
        assert (project / "a.txt").read_text(encoding="utf-8") == "a a a\n"
    else:
        assert (project / "a.txt").read_text(encoding="utf-8") == outcome


@pytest.mark.requirement("TOOLS-10")
@pytest.mark.parametrize(
    ("path", "old", "new", "type"),
    [
        ("a.txt", "nowhere", "x", "edit_no_occurrence_found"),
        ("a.txt", "text", "text", "edit_no_change"),
        ("missing.txt", "text", "x", "file_not_found"),
        ("a.txt", "", "x", "attempt_to_create_existing_file"),
        ("a.bin", "text", "x", "read_content_failure"),
        ("directory", "text", "x", "target_is_directory"),
        ("../a.txt", "text", "x", "path_not_in_workspace"),
        ("a.js", "text", "// rest of code ...", "invalid_tool_params"),
    ],
)
async def test_what_cannot_be_edited_is_a_typed_failure(
    replace: Replace, project: Path, path: str, old: str, new: str, type: str
) -> None:
    (project / "a.txt").write_text("text\n", encoding="utf-8")
    (project / "a.js").write_text("text\n", encoding="utf-8")
    (project / "a.bin").write_bytes(b"text\0\1\2")
    (project / "directory").mkdir()
    result = await call(replace, file_path=path, old_string=old, new_string=new)
    assert failure_type(result) == type
    assert (project / "a.txt").read_text(encoding="utf-8") == "text\n"
    assert (project / "a.js").read_text(encoding="utf-8") == "text\n"
    assert (project / "a.bin").read_bytes() == b"text\0\1\2"


async def test_an_empty_old_string_creates_a_file(replace: Replace, project: Path) -> None:
    result = await call(replace, file_path="sub/a.txt", old_string="", new_string="x\n")
    path = project / "sub/a.txt"
    assert text_of(result) == f"Created new file: {path} with provided content."
    assert path.read_bytes() == b"x\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\nc\r\nd\n", "b\nc", "b2\nc", b"a\r\nb2\nc\r\nd\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\nc", "a\nB\nc", b"a\r\nB\nc\r\nd\n"),
        (b"a\nb\r\nc\n", "b", "b\nb2", b"a\nb\r\nb2\r\nc\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\nc", "A\nb\nC", b"A\r\nb\nC\r\nd\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        (b"a\nb\n", "a\r\nb", "x", b"x\n"),
        (b"\xef\xbb\xbfa", "a", "é", b"\xef\xbb\xbf\xc3\xa9"),
        (b"caf\xe9 a\x80", "a\u20ac", "\u20ac", b"caf\xe9 \x80"),
        (b"\xc3\xa9 \xff a", "a", "\u00e9", b"\xc3\xa9 \xff \xc3\xa9"),
        ("\ufeffa\r\nb".encode("utf-16-be"), "a\nb", "x\ny", "\ufeffx\r\ny".encode("utf-16-be")),
    ],
)
async def test_line_ends_and_encoding_stay_what_they_were(
    replace: Replace, project: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    (project / "a.txt").write_bytes(before)
    result = await call(replace, file_path="a.txt", old_string=old, new_string=new)
    assert result.error is None, result.error
    assert (project / "a.txt").read_bytes() == after
    assert isinstance(result.display, FileDiff)
    result.display.new_content.encode()


SOURCE = "def f(x):\n    if x:\n        return 1\n"


@pytest.mark.requirement("TOOLS-10")
@pytest.mark.parametrize(
    ("before", "old", "reason"),
    [
        (SOURCE, "\tif x", "line 2: the file has '    if x:', old_string has '\\tif x' (tabs and"),
        (SOURCE, "      if x", "the indentation differs"),
        (SOURCE, "    IF x:", "upper and lower case differ"),
        (SOURCE, "    if x:\n        return 2", "line 3: "),
        (SOURCE, "    if x:\n        return 2", "the text differs"),
        (SOURCE, "    elif x_:\n", "line 2"),
        (SOURCE, "if x:\n        return 1\n\nf(3)", "the file ends before"),
        (SOURCE, "import os\n\ndef f(x):", "more lines before it"),
        ("a = f('b')\n", "a = f(\u2018b\u2019)", "the quotes differ"),
        ("if a:\rb()\nc()\n", "f a:b()", "carriage return"),
        ('s = "x  y"\n', 's = "x y"', "the blanks differ"),
        # Found but for the indentation, which gives no hint at how deep the new lines are.
        ("if a:\n    b()\n    if c:\n        d()\n", "if a:\nb()\nif c:\nd()", "the indentation"),
    ],
)
async def test_a_miss_names_the_nearest_line_and_the_difference(
    replace: Replace, project: Path, before: str, old: str, reason: str
) -> None:
    (project / "a.py").write_text(before, encoding="utf-8", newline="")
    new = "if a:\nb()\nb()\nb()\nif c:\nd()"
    result = await call(replace, file_path="a.py", old_string=old, new_string=new)
    assert failure_type(result) == "edit_no_occurrence_found"
    assert reason in text_of(result)
    assert (project / "a.py").read_bytes() == before.encode()


@pytest.mark.requirement("TOOLS-10")
@pytest.mark.parametrize(
    ("before", "old", "told"),
    [
        (b"a\r\nb\r\n", "a\nb", "found with line ends other than the file's at line(s) 1-2."),
        (
            b"\ta\n\tb\n",
            "  a\n  b",
            "with indentation, or blanks at the ends of lines, other than the file's at",
        ),
        (b"f( a, b )\n", "f(a,b)", "found with blanks between its words other than the file's at"),
    ],
)
async def test_the_result_says_how_and_where_it_was_found_when_not_exactly(
    replace: Replace, project: Path, before: bytes, old: str, told: str
) -> None:
    (project / "a.txt").write_bytes(before)
    result = await call(replace, file_path="a.txt", old_string=old, new_string="c")
    assert told in text_of(result)


@pytest.mark.requirement("TOOLS-10")
@pytest.mark.parametrize(
    ("before", "old", "extra", "outcome"),
    [
        # Exact twice, although one of the two would be the only one with its line ends.
        (b"a\r\nb\na\nb\n", "a\nb", {}, "found 2"),
        (b"  a \n  a\n", "  a", {}, "found 2"),
        (b"}\n}\n}\n", "}\n}\n", {}, "overlap"),
        (b"}\n}\n}\n", " }\n }", {"expected_replacements": 2}, "overlap"),
        (b"a\n\n\nb", "\n\n", {"new_string": "\n"}, b"a\n\nb"),
        (b" a\n\ta\n", "   a\n", {"new_string": "   b\n", "allow_multiple": True}, b" b\n\tb\n"),
        (b" a\n\ta\n", "   a\n", {}, "found 2"),
        (
            b" a\n\ta\n",
            "   a\n",
            {"new_string": "   b\n", "expected_replacements": 2},
            b" b\n\tb\n",
        ),
        (b"a\r\n" * 90_000, "a", {"new_string": "b\nc", "allow_multiple": True}, None),
        (b"a\r\na\n" * 70_000, "a", {"allow_multiple": True}, "too many for one call"),
    ],
)
async def test_places_are_counted_and_never_chosen_from(
    replace: Replace,
    project: Path,
    before: bytes,
    old: str,
    extra: dict[str, object],
    outcome: str | bytes | None,
) -> None:
    (project / "a.txt").write_bytes(before)
    params = {"file_path": "a.txt", "old_string": old, "new_string": "x", **extra}
    result = await call(replace, **params)
    after = (project / "a.txt").read_bytes()
    if isinstance(outcome, str):
        assert failure_type(result) == "edit_expected_occurrence_mismatch"
        assert outcome in text_of(result)
        assert after == before
    elif outcome is None:
        assert result.error is None
        new = str(extra["new_string"]).encode().replace(b"\n", b"\r\n")
        assert after == before.replace(b"a", new)
    else:
        assert after == outcome


async def test_blanks_without_end_do_not_hold_up_the_check_for_omissions(
    replace: Replace, project: Path
) -> None:
    (project / "a.js").write_text("x\n", encoding="utf-8")
    new = "//" + " \t" * 1_000_000 + "rest of ...\n"
    result = await call(replace, file_path="a.js", old_string="x", new_string=new)
    assert result.error is None
    for new in (
        "\n  //   rest \t of the  code  ...\n",
        "\n# ... existing code ...\n",
        "\n(rest of methods ...)\n",
    ):
        result = await call(replace, file_path="a.js", old_string="rest of", new_string=new)
        assert failure_type(result) == "invalid_tool_params"


async def test_approval_shows_the_edit(replace: Replace, project: Path) -> None:
    (project / "a.txt").write_text("a\r\nb\r\n", encoding="utf-8", newline="")
    built = replace.build({"file_path": "a.txt", "old_string": "b", "new_string": "c"})
    assert not isinstance(built, ToolFailure)
    context = ExecutionContext(project)
    shown = await built.confirmation(context)
    assert isinstance(shown, EditConfirmation)
    assert shown.title == "Confirm Edit: a.txt"
    assert shown.file_diff.endswith("@@ -1,2 +1,2 @@\n a\n-b\n+c\n")
    (project / "a.txt").write_text("other b\n", encoding="utf-8")
    assert failure_type(await built.execute(context)) == "file_write_failure"
    assert (project / "a.txt").read_text(encoding="utf-8") == "other b\n"
