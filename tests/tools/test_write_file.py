import asyncio
import os
import stat
from pathlib import Path

import pytest

from alhena.policy.model import PolicyOutcome
from alhena.scheduler.question import ConfirmationRequest
from alhena.scheduler.states import SuccessfulToolCall
from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import WriteFile
from alhena.tools.contract import (
    EditConfirmation,
    ExecutionContext,
    FileDiff,
    ToolFailure,
    ToolInvocation,
)
from tests.scheduler.kit import Stage, deciding, request
from tests.tools.files import call, failure_type, text_of, unprivileged


@pytest.fixture
def write(project: Path) -> WriteFile:
    return WriteFile(Workspace(project))


def built(tool: WriteFile, path: str, content: str) -> ToolInvocation:
    invocation = tool.build({"file_path": path, "content": content})
    assert not isinstance(invocation, ToolFailure)
    return invocation


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.requirement("TOOLS-09", "TOOLS-03")
async def test_a_new_file_is_created_with_its_directories(write: WriteFile, project: Path) -> None:
    result = await call(write, file_path="a/b/c.txt", content="one\ntwo\n")
    path = project / "a/b/c.txt"
    assert text_of(result) == f"Successfully created and wrote to new file: {path}."
    assert path.read_bytes() == b"one\ntwo\n"
    assert names(path.parent) == ["c.txt"]
    assert isinstance(result.display, FileDiff)
    assert result.display.original_content is None
    assert result.display.new_content == "one\ntwo\n"
    assert result.display.file_name == "c.txt"
    assert result.display.diff_stat.ai_added_lines == 2
    assert result.display.file_diff.splitlines() == [
        "--- c.txt\tOriginal",
        "+++ c.txt\tWritten",
        "@@ -0,0 +1,2 @@",
        "+one",
        "+two",
    ]


@pytest.mark.requirement("TOOLS-09")
async def test_an_existing_file_is_overwritten_and_the_change_shown(
    write: WriteFile, project: Path
) -> None:
    (project / "a.txt").write_text("one\ntwo\nthree", encoding="utf-8")
    result = await call(write, file_path="a.txt", content="one\n2\nthree")
    assert text_of(result) == (
        f"Successfully overwrote file: {project / 'a.txt'}. "
        "Here is the updated code:\none\n2\nthree"
    )
    assert (project / "a.txt").read_text(encoding="utf-8") == "one\n2\nthree"
    assert isinstance(result.display, FileDiff)
    assert result.display.original_content == "one\ntwo\nthree"
    assert (result.display.diff_stat.ai_added_lines, result.display.diff_stat.ai_removed_lines) == (
        1,
        1,
    )
    assert "-two\n+2\n three\n\\ No newline at end of file\n" in result.display.file_diff


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\r\n"),
        (b"\xef\xbb\xbfa\n", "é\n", b"\xef\xbb\xbf\xc3\xa9\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffx\n", b"\xef\xbb\xbfx\n"),
        ("\ufeffa\r\n".encode("utf-16-le"), "é\n", "\ufeffé\r\n".encode("utf-16-le")),
        (b"caf\xe9\n", "th\u00e9\n", b"th\xe9\n"),
        (b"a\n", "x\r\ny\n", b"x\r\ny\n"),
        (b"", "é", b"\xc3\xa9"),
        (b"\0\1\2binary", "text", b"text"),
        (b"a\r\nb\nc\r\n", "a\nB\nc\n", b"a\r\nB\nc\r\n"),
        (b"\xc3\xa9\n\xff\nc\n", "\u00e9\n\ufffd\nC\n", b"\xc3\xa9\n\xff\nC\n"),
    ],
)
async def test_encoding_bom_and_line_ends_stay(
    write: WriteFile, project: Path, before: bytes, content: str, after: bytes
) -> None:
    (project / "a.txt").write_bytes(before)
    assert (await call(write, file_path="a.txt", content=content)).error is None
    assert (project / "a.txt").read_bytes() == after


@pytest.mark.parametrize(
    ("before", "content", "named"),
    [
        (b"caf\xe9", "\U0001f600", "U+1F600"),
        (b"a", "x\ud800", "U+D800"),
        (None, "\udc80", "U+DC80"),
    ],
)
async def test_what_the_encoding_lacks_is_refused_and_nothing_written(
    write: WriteFile, project: Path, before: bytes | None, content: str, named: str
) -> None:
    if before is not None:
        (project / "a.txt").write_bytes(before)
    result = await call(write, file_path="a.txt", content=content)
    assert failure_type(result) == "file_write_failure"
    assert named in text_of(result)
    text_of(result).encode()
    assert names(project) == ([] if before is None else ["a.txt"])
    assert before is None or (project / "a.txt").read_bytes() == before


async def test_mode_stays_and_a_new_file_follows_the_umask(write: WriteFile, project: Path) -> None:
    (project / "run.sh").write_text("x", encoding="utf-8")
    (project / "run.sh").chmod(0o750)
    umask = os.umask(0o027)
    try:
        await call(write, file_path="run.sh", content="y")
        await call(write, file_path="new.txt", content="y")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((project / "run.sh").stat().st_mode) == 0o750
    assert stat.S_IMODE((project / "new.txt").stat().st_mode) == 0o640


async def test_a_link_inside_the_workspace_stays_a_link(write: WriteFile, project: Path) -> None:
    (project / "real").mkdir()
    (project / "real/a.txt").write_text("x", encoding="utf-8")
    (project / "link.txt").symlink_to("real/a.txt")
    (project / "dangling.txt").symlink_to("real/new.txt")
    await call(write, file_path="link.txt", content="y")
    await call(write, file_path="dangling.txt", content="z")
    assert (project / "link.txt").is_symlink()
    assert (project / "real/a.txt").read_text(encoding="utf-8") == "y"
    assert (project / "real/new.txt").read_text(encoding="utf-8") == "z"
    assert names(project / "real") == ["a.txt", "new.txt"]


@pytest.mark.requirement("TOOLS-09")
@pytest.mark.parametrize(
    ("path", "type"),
    [
        ("directory", "target_is_directory"),
        ("fifo", "not_a_regular_file"),
        ("../outside.txt", "path_not_in_workspace"),
        ("way-out/x.txt", "path_not_in_workspace"),
        ("dangling-out", "path_not_in_workspace"),
        ("file.txt/x", "file_write_failure"),
        ("x" * 300, "file_write_failure"),
        ("", "invalid_tool_params"),
    ],
)
async def test_what_cannot_be_written_is_a_typed_failure(
    write: WriteFile, project: Path, path: str, type: str
) -> None:
    (project / "file.txt").touch()
    (project / "directory").mkdir()
    os.mkfifo(project / "fifo")
    (project / "way-out").symlink_to("..")
    (project / "dangling-out").symlink_to("../new.txt")
    before = (names(project), names(project.parent))
    assert failure_type(await call(write, file_path=path, content="x")) == type
    assert (names(project), names(project.parent)) == before


async def test_without_permission_nothing_changes(write: WriteFile, project: Path) -> None:
    (project / "a.txt").write_text("old", encoding="utf-8")
    (project / "a.txt").chmod(0o444)
    with unprivileged(project):
        closed = await call(write, file_path="a.txt", content="new")
        new = await call(write, file_path="sub/b.txt", content="new")
    assert failure_type(closed) == "permission_denied"
    assert failure_type(new) == "permission_denied"
    assert (project / "a.txt").read_text(encoding="utf-8") == "old"
    assert names(project) == ["a.txt"]


@pytest.mark.parametrize(
    "line",
    [
        "// rest of code ...",
        "# ... existing code ...",
        "(rest of methods ...)",
        "<!-- unchanged code ... -->",
        "  /* Rest of the file … */",
    ],
)
async def test_an_omission_placeholder_is_refused(
    write: WriteFile, project: Path, line: str
) -> None:
    result = await call(write, file_path="a.js", content=f"a()\n{line}\n")
    assert failure_type(result) == "invalid_tool_params"
    assert "omission placeholder" in text_of(result)
    assert names(project) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("guide.md", "Then:\n\n    // ... existing code ...\n"),
        ("notes.txt", "(rest of methods ...)\n"),
        ("README", "# rest of file ...\n"),
        ("a.py", 'PAGE = """\n# ... existing code ...\n"""\n'),
        ("a.ts", "const page = `\n// ... existing code ...\n`\n"),
    ],
)
async def test_prose_and_strings_may_show_a_placeholder(
    write: WriteFile, project: Path, name: str, text: str
) -> None:
    assert (await call(write, file_path=name, content=text)).error is None
    assert (project / name).read_text(encoding="utf-8") == text


async def test_a_person_who_is_warned_may_approve_a_placeholder(
    write: WriteFile, project: Path
) -> None:
    text = "a()\n// rest of code ...\n"
    asked: list[tuple[str, ...]] = []

    def approve(asking: ConfirmationRequest) -> bool:
        assert isinstance(asking.details, EditConfirmation)
        asked.append(asking.details.warnings)
        return True

    for decision, written in ((PolicyOutcome.ALLOW, False), (PolicyOutcome.ASK_USER, True)):
        stage = Stage(write, decide=deciding(write_file=decision), approver=approve)
        call = request("c0", "write_file", file_path="a.js", content=text)
        (done,) = await stage.scheduler.schedule([call])
        assert isinstance(done, SuccessfulToolCall) is written
        assert (project / "a.js").exists() is written
    assert asked == [("code may be left out: // rest of code ...",)]


async def test_a_line_that_stands_in_the_file_already_is_no_placeholder(
    write: WriteFile, project: Path
) -> None:
    (project / "a.sh").write_text("# rest of code ...\n", encoding="utf-8")
    result = await call(write, file_path="a.sh", content="# rest of code ...\nmore\n")
    assert result.error is None


async def test_approval_sees_the_diff_and_gets_what_it_saw(write: WriteFile, project: Path) -> None:
    (project / "a.txt").write_text("old\n", encoding="utf-8")
    invocation = built(write, "a.txt", "new\n")
    context = ExecutionContext(project)
    shown = await invocation.confirmation(context)
    assert isinstance(shown, EditConfirmation)
    assert shown.title == "Confirm Write: a.txt"
    assert "-old\n+new\n" in shown.file_diff
    assert (shown.original_content, shown.new_content, shown.is_new_file) == (
        "old\n",
        "new\n",
        False,
    )
    assert (project / "a.txt").read_text(encoding="utf-8") == "old\n"
    assert (await invocation.execute(context)).error is None
    assert (project / "a.txt").read_text(encoding="utf-8") == "new\n"


@pytest.mark.parametrize("existed", [True, False])
async def test_a_file_that_changed_after_approval_is_left_alone(
    write: WriteFile, project: Path, existed: bool
) -> None:
    path = project / "a.txt"
    if existed:
        path.write_text("old\n", encoding="utf-8")
        before = path.stat()
    invocation = built(write, "a.txt", "new\n")
    context = ExecutionContext(project)
    await invocation.confirmation(context)
    path.write_text("mine", encoding="utf-8")
    if existed:  # not even its time tells
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    result = await invocation.execute(context)
    assert failure_type(result) == "file_write_failure"
    assert "changed since it was read" in text_of(result)
    assert path.read_text(encoding="utf-8") == "mine"
    assert names(project) == ["a.txt"]


async def test_a_file_deleted_after_approval_is_not_made_again(
    write: WriteFile, project: Path
) -> None:
    (project / "a.txt").write_text("old\n", encoding="utf-8")
    invocation = built(write, "a.txt", "new\n")
    await invocation.confirmation(ExecutionContext(project))
    (project / "a.txt").unlink()
    assert failure_type(await invocation.execute(ExecutionContext(project))) == "file_write_failure"
    assert names(project) == []


async def test_what_failed_at_approval_does_not_happen_unapproved(
    write: WriteFile, project: Path
) -> None:
    (project / "a.txt").mkdir()
    invocation = built(write, "a.txt", "new\n")
    context = ExecutionContext(project)
    assert await invocation.confirmation(context) is None
    (project / "a.txt").rmdir()
    assert failure_type(await invocation.execute(context)) == "target_is_directory"
    assert names(project) == []


async def test_a_cancelled_call_writes_nothing_or_everything(
    write: WriteFile, project: Path
) -> None:
    content = "new\n" * 200_000
    for steps in range(12):
        (project / "a.txt").write_text("old", encoding="utf-8")
        context = ExecutionContext(project)
        running = asyncio.ensure_future(built(write, "a.txt", content).execute(context))
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert names(project) == ["a.txt"]
        assert (project / "a.txt").read_text(encoding="utf-8") in ("old", content)
