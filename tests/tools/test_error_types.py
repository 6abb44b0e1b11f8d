"""Errors of file tools: the texts and types known to models."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alhena.system.errors import DiskFullError, FileError, MissingFileError
from alhena.system.files import read_whole
from alhena.system.replacement import replace_file
from alhena.system.workspace import Workspace
from alhena.tools.base import failure_of
from alhena.tools.builtin.edit_files import Replace, SmartEdit, WriteFile
from alhena.tools.builtin.read_many_files import ReadManyFiles
from alhena.tools.contract import Tool, ToolErrorType
from tests.support.disk import with_own_mounts
from tests.tools.files import call, failure_type, text_of, unprivileged

Rows = list[tuple[dict[str, Any], str, str]]
"""Parameters, what the text begins with ("…": whatever follows), the type."""

FAILED = "Failed to edit, "
EDIT: Rows = [
    (
        {"file_path": "a.txt", "old_string": "nowhere"},
        FAILED + "0 occurrences found for old_string in file: ROOT/a.txt. Read the lines with",
        "edit_no_occurrence_found",
    ),
    (
        {"file_path": "a.txt", "old_string": "one"},
        FAILED + "Expected 1 occurrence but found 2 for old_string in file: ROOT/a.txt. They",
        "edit_expected_occurrence_mismatch",
    ),
    (
        {"file_path": "a.txt", "old_string": "two", "new_string": "two"},
        "No changes to apply. The old_string and new_string are identical in file: ROOT/a.txt",
        "edit_no_change",
    ),
    (
        {"file_path": "gone.txt", "old_string": "two"},
        "File not found: ROOT/gone.txt. Check the path, or give an empty old_string to create",
        "file_not_found",
    ),
    (
        {"file_path": "a.txt", "old_string": ""},
        "File already exists, cannot create: ROOT/a.txt. Give the text to replace as old_string",
        "attempt_to_create_existing_file",
    ),
    (
        {"file_path": "a.py", "old_string": "two", "new_string": "# rest of code ..."},
        "`new_string` contains an omission placeholder (for example 'rest of methods ...'): ",
        "invalid_tool_params",
    ),
    (
        {"file_path": "sub", "old_string": "two"},
        "Path is a directory, not a file: ROOT/sub. Use list_directory for it.",
        "target_is_directory",
    ),
    (
        {"file_path": "fifo", "old_string": "two"},
        "Not a regular file: ROOT/fifo is a FIFO. ",
        "not_a_regular_file",
    ),
    (
        {"file_path": "a.bin", "old_string": "two"},
        "Cannot edit binary file: ROOT/a.bin. Use write_file or run_shell_command.",
        "read_content_failure",
    ),
    (
        {"file_path": "huge.txt", "old_string": "two"},
        "File size exceeds the 64MB limit: ROOT/huge.txt. ",
        "file_too_large",
    ),
    (
        {"file_path": "../a.txt", "old_string": "two"},
        'Path not in workspace: Attempted path "',
        "path_not_in_workspace",
    ),
    (
        {"file_path": "ascii.txt", "old_string": "two", "new_string": "\u4e00"},
        "File ROOT/ascii.txt is encoded in cp1252, which has no character '\u4e00' (U+4E00)",
        "file_write_failure",
    ),
]

WRITE: Rows = [
    (
        {"file_path": "sub", "content": "x"},
        "Path is a directory, not a file: ROOT/sub.",
        "target_is_directory",
    ),
    (
        {"file_path": "a.txt/b", "content": "x"},
        "Error writing to file 'ROOT/a.txt/b': a part of its path is not a directory (ENOTD",
        "file_write_failure",
    ),
    (
        {"file_path": "", "content": "x"},
        "The 'file_path' parameter must be non-empty.",
        "invalid_tool_params",
    ),
    (
        {"file_path": "b.py", "content": "a()\n# rest of code ...\n"},
        "`content` contains an omission placeholder (for example 'rest of methods ...'): ",
        "invalid_tool_params",
    ),
]

MANY: Rows = [
    (
        {"paths": ["gone.txt", "lost.txt"]},
        (
            "No files matching the criteria were found or all were skipped. There is no such file: "
            "gone.txt, lost.txt. Find it with glob."
        ),
        "file_not_found",
    ),
    (
        {"paths": ["[a"]},
        "The 'paths' pattern '[a' is no valid one.",
        "invalid_tool_params",
    ),
]

TABLE: list[tuple[Callable[[Workspace], Tool], dict[str, str], Rows]] = [
    (Replace, {"new_string": "x"}, EDIT),
    (SmartEdit, {"new_string": "x", "instruction": "Change it."}, EDIT),
    (WriteFile, {}, WRITE),
    (ReadManyFiles, {}, MANY),
]


@pytest.fixture
def tree(project: Path) -> Path:
    (project / "a.txt").write_text("one\none\ntwo\n", encoding="utf-8")
    (project / "a.py").write_text("two\n", encoding="utf-8")
    (project / "ascii.txt").write_bytes(b"two caf\xe9 \x80\n")
    (project / "a.bin").write_bytes(b"two\0\1\2")
    (project / "sub").mkdir()
    os.mkfifo(project / "fifo")
    (project / "huge.txt").touch()
    os.truncate(project / "huge.txt", 64_000_001)
    return project


@pytest.mark.requirement("TOOLS-09", "TOOLS-10", "TOOLS-11", "TOOLS-15")
@pytest.mark.parametrize(("make", "more", "rows"), TABLE)
async def test_texts_and_types_are_those_that_models_know(
    tree: Path, make: Callable[[Workspace], Tool], more: dict[str, str], rows: Rows
) -> None:
    tool = make(Workspace(tree))
    told: Rows = []
    for params, expected, _ in rows:
        result = await call(tool, **{**more, **params})
        text = text_of(result).replace(str(tree), "ROOT")
        told.append((params, text[: len(expected)], failure_type(result)))
    assert told == rows
    assert (tree / "a.txt").read_text(encoding="utf-8") == "one\none\ntwo\n"


@pytest.mark.requirement("TOOLS-09", "TOOLS-10", "TOOLS-11")
async def test_what_the_system_refuses_is_told_with_its_code(tree: Path) -> None:
    workspace = Workspace(tree)
    (tree / "a.txt").chmod(0o400)
    params = {"file_path": "a.txt", "old_string": "two", "new_string": "x", "instruction": "x"}
    with unprivileged(tree):
        unread = [await call(tool, **params) for tool in (Replace(workspace), SmartEdit(workspace))]
        unwritten = await call(WriteFile(workspace), file_path="b.txt", content="x")
    for result in (*unread, unwritten):
        assert failure_type(result) == "permission_denied"
        assert text_of(result).startswith("Permission denied ")
        assert "(EACCES)" in text_of(result)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file here that fails so")
@pytest.mark.requirement("TOOLS-09", "TOOLS-10", "TOOLS-11")
async def test_a_file_that_fails_when_it_is_read_is_not_edited() -> None:
    workspace = Workspace(Path(f"/proc/{os.getpid()}"))
    params = {"file_path": "mem", "old_string": "two", "new_string": "x", "instruction": "x"}
    for tool in (Replace(workspace), SmartEdit(workspace)):
        result = await call(tool, **params)
        assert failure_type(result) == "edit_preparation_failure"
        assert text_of(result).startswith("Error preparing edit: Error reading file '/proc/")
        assert "(EIO)" in text_of(result)
    result = await call(WriteFile(workspace), file_path="mem", content="x")
    assert failure_type(result) == "file_write_failure"
    assert text_of(result).startswith("Error checking existing file '/proc/")


@pytest.mark.requirement("TOOLS-15")
async def test_directories_that_cannot_be_searched_are_no_empty_result(tree: Path) -> None:
    tool = ReadManyFiles(Workspace(tree))
    (tree / "sub/a.txt").write_text("a", encoding="utf-8")
    (tree / "sub").chmod(0o000)
    with unprivileged(tree):
        result = await call(tool, paths=["sub", "**/*.md"])
        both = await call(tool, paths=["**/*.txt"], exclude=["huge.txt"])
    (tree / "sub").chmod(0o700)
    assert failure_type(result) == "read_many_files_search_error"
    assert text_of(result).startswith(
        f"Error during file search: Permission denied reading file: {tree}/sub (EACCES)."
    )
    assert both.error is None
    assert f"\n- Permission denied reading file: {tree}/sub (EACCES)." in text_of(both)


FULL = """
import asyncio, json, os, subprocess, sys
from pathlib import Path
from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import Replace
from alhena.tools.builtin.edit_files import WriteFile
from tests.tools.files import call

disk = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=8", "none", disk], check=True)
(disk / "a.txt").write_text("old " * 8_000)
(disk / "b.txt").hardlink_to(disk / "a.txt")
(disk / "c.txt").write_text("old")

async def main():
    workspace = Workspace(disk)
    new = "new " * 9_000
    linked = await call(Replace(workspace), file_path="a.txt", old_string="old " * 8_000,
                        new_string=new * 2)
    over = await call(WriteFile(workspace), file_path="c.txt", content=new)
    fresh = await call(WriteFile(workspace), file_path="d/e.txt", content=new)
    return [[r.error and [r.error.type, r.error.message]] for r in (linked, over, fresh)]

told = asyncio.run(main())
print(json.dumps([told, sorted(os.listdir(disk)), (disk / "b.txt").read_text() == "old " * 8_000,
                  (disk / "c.txt").read_text()]))
"""


@pytest.mark.requirement("TOOLS-09")
def test_on_a_disk_that_is_full_the_old_content_stands(project: Path) -> None:
    told, names, linked, content = with_own_mounts(FULL, project)
    for ((type_, message),) in told:
        assert type_ == "no_space_left"
        assert message.startswith("No space left to write file: ")
        assert "(ENOSPC); the old content was kept. Free some space" in message
    assert (names, linked, content) == (["a.txt", "b.txt", "c.txt"], True, "old")


class Failing(threading.Event):
    """Fails as a write would, the n-th time that somebody looks."""

    def __init__(self, code: int, times: int) -> None:
        super().__init__()
        self.code = code
        self.left = times

    def is_set(self) -> bool:
        self.left -= 1
        if self.left < 0:
            raise OSError(self.code, os.strerror(self.code))
        return False


@pytest.mark.requirement("TOOLS-09")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("times", [0, 1])
@pytest.mark.parametrize("kind", ["new", "old", "linked"])
def test_no_space_and_no_quota_are_told_alike_wherever_the_write_stops(
    project: Path, code: int, times: int, kind: str
) -> None:
    path = project / ("sub/a.txt" if kind == "new" else "a.txt")
    before = None
    if kind != "new":
        path.write_bytes(b"old")
        before = read_whole(path, 1000)[1]
    if kind == "linked":
        (project / "b.txt").hardlink_to(path)
    names = sorted(os.listdir(project))
    with pytest.raises(DiskFullError) as caught:
        replace_file(path, b"new", expected=before, limit=1000, cancellation=Failing(code, times))
    assert failure_of(caught.value).type is ToolErrorType.NO_SPACE_LEFT
    assert errno.errorcode[code] in str(caught.value)
    assert sorted(os.listdir(project)) == names
    assert kind == "new" or path.read_bytes() == b"old"


def test_a_reason_that_tools_do_not_have_is_unknown() -> None:
    class OddError(FileError):
        kind = "of_its_own_kind"

    assert failure_of(OddError("It is odd.")).type is ToolErrorType.UNKNOWN
    assert failure_of(MissingFileError("It is gone.")).type is ToolErrorType.FILE_NOT_FOUND
    assert all(ToolErrorType.from_name(known) is known for known in ToolErrorType)
