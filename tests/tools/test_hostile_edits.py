"""Edits that are meant ill or are odd: nothing but what was asked for changes, and soon."""

import unicodedata
from pathlib import Path
from typing import Any

import pytest

from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import Replace, SmartEdit, WriteFile
from alhena.tools.contract import Tool
from tests.tools.files import call, failure_type, text_of


@pytest.mark.requirement("TOOLS-10")
@pytest.mark.parametrize(
    ("before", "old", "new", "type", "told"),
    [
        # A carriage return is no line end of its own where lines end otherwise.
        (b"a\r\nb\r\n", "\r", "", "edit_no_occurrence_found", "0 occurrences"),
        (b"a\nb\n", "a\rb", "c", "edit_no_occurrence_found", "carriage return"),
        (b"a\r\nb\r\n", "\r\n", "\n", "edit_no_change", "differ in line ends only, and those stay"),
        (b"a\nb\n", "a\nb", "a\r\nb", "edit_no_change", "use run_shell_command"),
        (b"a\n", "a", "a", "edit_no_change", "are identical in file"),
    ],
)
async def test_line_ends_are_not_edited_by_the_way(
    project: Path, before: bytes, old: str, new: str, type: str, told: str
) -> None:
    (project / "a.txt").write_bytes(before)
    params = {"file_path": "a.txt", "old_string": old, "new_string": new, "allow_multiple": True}
    result = await call(Replace(Workspace(project)), **params)
    assert failure_type(result) == type
    assert told in text_of(result)
    assert (project / "a.txt").read_bytes() == before


@pytest.mark.requirement("TOOLS-10")
async def test_a_carriage_return_can_be_taken_away_where_it_is_a_character(project: Path) -> None:
    (project / "a.txt").write_bytes(b"a\r\nb\nc\rd")
    params = {"file_path": "a.txt", "old_string": "\r", "new_string": ""}
    assert (await call(Replace(Workspace(project)), **params)).error is None
    assert (project / "a.txt").read_bytes() == b"a\r\nb\ncd"


@pytest.mark.requirement("TOOLS-10")
@pytest.mark.parametrize(
    ("expected", "told"),
    [
        (2, ("Expected 2 occurrences but found 1 for old_string in file: ROOT/a.txt. It appears at "
         "line 2. Set expected_replacements to 1 if that is all")),
        (1, ("Expected 1 occurrence but found 3 for old_string in file: ROOT/a.txt. They appear at "
         "lines 1, 2, 3. Give more of the surrounding lines")),
        (4, ("Expected 4 occurrences but found 3 for old_string in file: ROOT/a.txt. They appear at "
         "lines 1, 2, 3. Set expected_replacements to 3 if that is all")),
        (5, ("Expected 5 occurrences but found 3 for old_string in file: ROOT/a.txt. They appear at "
         "line 1. Set expected_replacements to 3 if that is all")),
    ],
)  # fmt: skip
async def test_a_wrong_count_says_what_to_do_about_it(
    project: Path, expected: int, told: str
) -> None:
    (project / "a.txt").write_text("a\nab\na\n" if expected != 5 else "aaa", encoding="utf-8")
    params = {
        "file_path": "a.txt",
        "old_string": "ab" if expected == 2 else "a",
        "new_string": "x",
        "expected_replacements": expected,
    }
    result = await call(Replace(Workspace(project)), **params)
    assert failure_type(result) == "edit_expected_occurrence_mismatch"
    assert told in text_of(result).replace(str(project), "ROOT")


PARAMS: dict[str, dict[str, Any]] = {
    "replace": {"old_string": "secret", "new_string": "x"},
    "smart_edit": {"old_string": "sacret line", "new_string": "x", "instruction": "Change it."},
    "write_file": {"content": "x"},
}


def tools(project: Path, asked: list[str]) -> dict[str, Tool]:
    async def ask(prompt: str) -> str:
        asked.append(prompt)
        return "{}"

    workspace = Workspace(project)
    made: tuple[Tool, ...] = (
        Replace(workspace),
        SmartEdit(workspace, ask),
        WriteFile(workspace),
    )
    return {tool.name: tool for tool in made}


@pytest.mark.requirement("TOOLS-09", "TOOLS-10", "TOOLS-11")
@pytest.mark.parametrize("name", PARAMS)
@pytest.mark.parametrize("path", ["hidden.key", "link.txt", "sub/inner.txt"])
async def test_what_geminiignore_keeps_closed_is_neither_told_nor_changed(
    project: Path, name: str, path: str
) -> None:
    asked: list[str] = []
    (project / ".geminiignore").write_text("*.key\nsub/\n", encoding="utf-8")
    (project / "hidden.key").write_text("the secret line\n", encoding="utf-8")
    (project / "link.txt").symlink_to("hidden.key")
    (project / "sub").mkdir()
    (project / "sub/inner.txt").write_text("the secret line\n", encoding="utf-8")
    result = await call(tools(project, asked)[name], file_path=path, **PARAMS[name])
    assert failure_type(result) == "invalid_tool_params"
    assert text_of(result) == (
        f"File path '{project / path}' is ignored by configured ignore patterns. It was left as it "
        "is."
    )
    assert asked == []
    assert (project / path).read_text(encoding="utf-8") == "the secret line\n"


@pytest.mark.requirement("TOOLS-10")
async def test_files_of_the_same_name_are_named_when_there_is_no_such_file(project: Path) -> None:
    names = ["src/deep/b.py", "test/b.py", "out/b.py", "c.py"]
    for name in names:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("a = 1\n", encoding="utf-8")
    (project / ".gitignore").write_text("out/\n", encoding="utf-8")
    tool = Replace(Workspace(project))
    result = await call(tool, file_path="b.py", old_string="a = 1", new_string="a = 2")
    assert failure_type(result) == "file_not_found"
    assert text_of(result) == (
        f"File not found: {project}/b.py. There is src/deep/b.py, test/b.py. Check the path, or "
        "give an empty old_string to create the file."
    )
    assert all((project / name).read_text(encoding="utf-8") == "a = 1\n" for name in names)


@pytest.mark.requirement("TOOLS-09")
async def test_a_new_file_may_have_an_ignored_name(project: Path) -> None:
    (project / ".geminiignore").write_text("*.key\n", encoding="utf-8")
    result = await call(WriteFile(Workspace(project)), file_path="new.key", content="x")
    assert result.error is None
    assert (project / "new.key").read_text(encoding="utf-8") == "x"


@pytest.mark.requirement("TOOLS-09", "TOOLS-10", "TOOLS-11")
@pytest.mark.parametrize("name", PARAMS)
async def test_a_path_that_ends_in_a_slash_names_no_file(project: Path, name: str) -> None:
    (project / "a.txt").write_text("secret", encoding="utf-8")
    for path in ("a.txt/", "new/"):
        result = await call(tools(project, [])[name], file_path=path, **PARAMS[name])
        assert failure_type(result) == "target_is_directory"
    assert (project / "a.txt").read_text(encoding="utf-8") == "secret"
    assert not (project / "new").exists()


@pytest.mark.requirement("TOOLS-09", "TOOLS-10")
async def test_a_file_that_is_emptied_is_said_to_be_empty(project: Path) -> None:
    (project / "a.txt").write_text("secret", encoding="utf-8")
    workspace = Workspace(project)
    params = {"file_path": "a.txt", "old_string": "secret", "new_string": ""}
    assert text_of(await call(Replace(workspace), **params)).endswith(" It is empty now.")
    (project / "a.txt").write_text("secret", encoding="utf-8")
    result = await call(WriteFile(workspace), file_path="a.txt", content="")
    assert text_of(result).endswith(" It is empty now.")


@pytest.mark.requirement("TOOLS-11")
@pytest.mark.parametrize(
    ("before", "old"),
    [
        ("\"'`" * 400_000, "\" ' ` " * 1000),
        ("(" * 1_000_000, "( " * 2000 + ")"),
        ("a" * 4_000_000, "a" * 5000 + "b"),
        (" \n" * 3_000_000, "\n" * 1000 + "x"),
        ("ab " * 1_000_000, "ab ab ac"),
    ],
    ids=["quotes", "brackets", "letters", "blank lines", "words"],
)
async def test_no_text_takes_long_to_look_through(project: Path, before: str, old: str) -> None:
    (project / "a.txt").write_text(before, encoding="utf-8")
    params = {"old_string": old, "new_string": "y", "instruction": "Change it."}
    result = await call(SmartEdit(Workspace(project)), file_path="a.txt", **params)
    assert failure_type(result) == "edit_no_occurrence_found"


async def test_letters_composed_otherwise_are_found_or_named_as_the_reason(project: Path) -> None:
    decomposed = unicodedata.normalize("NFD", "größe = maß(übergröße)\n")
    (project / "a.txt").write_text(f"one\n{decomposed}", encoding="utf-8")
    params = {"file_path": "a.txt", "old_string": "größe = maß(übergröße)", "new_string": "x"}
    result = await call(Replace(Workspace(project)), **params)
    assert result.error is None
    assert (project / "a.txt").read_text(encoding="utf-8") == "one\nx\n"
    (project / "a.txt").write_text(f"one\n {decomposed}", encoding="utf-8")
    params["old_string"] = "\tgröße = maß(übergröße)"  # with blanks of its own besides
    result = await call(Replace(Workspace(project)), **params)
    assert failure_type(result) == "edit_no_occurrence_found"
    assert "closest place is line 2" in text_of(result)
    assert "Unicode normalization, NFC and NFD" in text_of(result)
