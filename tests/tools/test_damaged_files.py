"""Files that are not quite text, and files with several names: what an edit does to them."""

from pathlib import Path

import pytest

from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import Replace, SmartEdit, WriteFile
from alhena.tools.builtin.read_file import ReadFile
from tests.tools.files import call, failure_type, text_of

HALF = "first\nsecond ".encode("utf-16") + b"\x00\xd8" + "\nthird\n".encode("utf-16-le")
CUT = "first\nsecond \nthird\n".encode("utf-16") + b"x"


@pytest.mark.requirement("TOOLS-10", "TOOLS-11")
@pytest.mark.parametrize("data", [HALF, CUT])
async def test_a_damaged_file_is_not_edited(project: Path, data: bytes) -> None:
    path = project / "a.txt"
    path.write_bytes(data)
    params = {"file_path": "a.txt", "old_string": "third", "new_string": "3rd"}
    for result in (
        await call(Replace(Workspace(project)), **params),
        await call(SmartEdit(Workspace(project)), instruction="Do it.", **params),
    ):
        assert failure_type(result) == "read_content_failure"
        said = text_of(result)
        assert "nothing was written: the file is not valid UTF-16" in said
        assert "write_file" in said
        assert path.read_bytes() == data


@pytest.mark.requirement("TOOLS-08")
@pytest.mark.parametrize("size", [1, 1_000_000])
async def test_a_damaged_file_is_read_with_a_note(project: Path, size: int) -> None:
    path = project / "a.txt"
    path.write_bytes(HALF + ("x\n" * size).encode("utf-16-le"))
    result = await call(ReadFile(Workspace(project)), absolute_path=str(path))
    assert "not valid UTF-16; bytes that are no text are shown as \ufffd" in text_of(result)
    assert "first\nsecond \ufffd\nthird\n" in text_of(result)


@pytest.mark.requirement("TOOLS-09")
async def test_a_damaged_file_can_be_written_whole_in_its_encoding(project: Path) -> None:
    path = project / "a.txt"
    path.write_bytes(HALF)
    result = await call(WriteFile(Workspace(project)), file_path="a.txt", content="first\nnew\n")
    assert result.error is None, result.llm_content
    assert path.read_bytes() == "first\nnew\n".encode("utf-16")


@pytest.mark.requirement("TOOLS-09", "TOOLS-10")
async def test_all_names_of_a_file_show_an_edit_and_the_model_is_told(project: Path) -> None:
    path, other = project / "a.txt", project / "b.txt"
    path.write_text("one\ntwo\n", encoding="utf-8")
    other.hardlink_to(path)
    edit = {"file_path": "a.txt", "old_string": "two", "new_string": "three"}
    result = await call(Replace(Workspace(project)), **edit)
    assert "The file has 1 more name (hard links), with the same content." in text_of(result)
    assert path.read_text(encoding="utf-8") == other.read_text(encoding="utf-8") == "one\nthree\n"
    result = await call(WriteFile(Workspace(project)), file_path="b.txt", content="1\n")
    assert "1 more name" in text_of(result)
    assert path.read_text(encoding="utf-8") == "1\n"
    assert path.samefile(other)
