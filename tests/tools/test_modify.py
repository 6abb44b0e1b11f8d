"""The seam by which a person changes a proposal before it is written (TOOLS-21)."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.scheduler.executor import Executor
from alhena.scheduler.gate import CallPolicy
from alhena.scheduler.scheduler import Scheduler
from alhena.scheduler.states import CompletedToolCall, SuccessfulToolCall
from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import Replace, SmartEdit, WriteFile
from alhena.tools.contract import (
    DiffStat,
    ExecutionContext,
    FileDiff,
    Tool,
    ToolFailure,
    ToolInvocation,
)
from alhena.tools.edit.proposal import EditInvocation
from alhena.tools.registry import ToolRegistry
from tests.scheduler.kit import deciding, request, response_of
from tests.tools.files import failure_type, text_of


class Reviewed:
    """A tool whose calls a person changes before they run, as a front end does it."""

    def __init__(self, tool: Tool, content: str) -> None:
        self._tool = tool
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    def build(self, params: dict[str, Any]) -> ToolInvocation | ToolFailure:
        return modifiable(self._tool, **params).with_content(self._content)


def modifiable(tool: Tool, **params: Any) -> EditInvocation:
    built = tool.build(params)
    assert isinstance(built, EditInvocation)
    return built


def calls(workspace: Workspace, *, old: str, new: str, whole: str) -> list[tuple[Tool, dict]]:
    edit = {"file_path": "a.txt", "old_string": old, "new_string": new}
    return [
        (WriteFile(workspace), {"file_path": "a.txt", "content": whole}),
        (Replace(workspace), edit),
        (SmartEdit(workspace), {**edit, "instruction": "Change it."}),
    ]


async def run(tool: Tool, params: dict[str, Any], content: str) -> CompletedToolCall:
    """Result of the call in the real scheduler with a person's content."""
    reviewed: Any = Reviewed(tool, content)
    scheduler = Scheduler(
        ToolRegistry([reviewed]),
        CallPolicy(deciding()),
        lambda event: None,
        Executor(Path.cwd()),
    )
    (done,) = await scheduler.schedule([request("c0", tool.name, **params)])
    return done


@pytest.mark.requirement("TOOLS-21")
@pytest.mark.parametrize("index", [0, 1, 2])
async def test_what_the_person_made_of_it_is_written_and_the_model_told(
    project: Path, index: int
) -> None:
    before, proposed, written = "a\r\nb\r\nc\r\n", "a\nB\nc\n", "a\nB2\nB3\nc\n"
    (project / "a.txt").write_bytes(before.encode())
    tool, params = calls(Workspace(project), old="b\n", new="B\n", whole=proposed)[index]
    done = await run(tool, params, written)
    assert isinstance(done, SuccessfulToolCall)
    assert (project / "a.txt").read_bytes() == b"a\r\nB2\r\nB3\r\nc\r\n"
    output = response_of(done)["output"]
    if index == 0:
        assert f" User modified the `content` to be: {written}" in output
    else:
        assert " User modified the `new_string` to be: B2\nB3\n" in output
    assert output.endswith(" Here is the updated code:\na\nB2\nB3\nc")
    display = done.response.result_display
    assert isinstance(display, FileDiff)
    assert display.new_content == written
    assert display.diff_stat == DiffStat(
        ai_added_lines=1, ai_removed_lines=1, user_added_lines=2, user_removed_lines=1
    )


@pytest.mark.requirement("TOOLS-21")
@pytest.mark.parametrize("index", [0, 1, 2])
async def test_a_person_is_shown_what_the_file_holds_and_is_to_hold(
    project: Path, index: int
) -> None:
    (project / "a.txt").write_bytes(b"a\r\nb\r\n")
    tool, params = calls(Workspace(project), old="b", new="B", whole="a\nB\n")[index]
    invocation = modifiable(tool, **params)
    context = ExecutionContext(project)
    contents = await invocation.contents(context)
    assert not isinstance(contents, ToolFailure)
    assert contents.file_path == str(project / "a.txt")
    assert (contents.current, contents.proposed) == ("a\nb\n", "a\nB\n")
    modified = invocation.with_content("a\nX\n")
    assert modified.params["modified_by_user"] is True
    new = modified.params["content" if index == 0 else "new_string"]
    assert new == "a\nX\n"
    shown = await modified.confirmation(context)
    assert shown is not None
    assert "+X\n" in getattr(shown, "file_diff", "")
    assert modified.locations() == invocation.locations()


@pytest.mark.requirement("TOOLS-21")
async def test_a_person_may_change_it_again(project: Path) -> None:
    (project / "a.txt").write_text("a\n", encoding="utf-8")
    first = modifiable(
        Replace(Workspace(project)), file_path="a.txt", old_string="a", new_string="b"
    )
    second = first.with_content("c\n")
    assert isinstance(second, EditInvocation)
    result = await second.with_content("d\ne\n").execute(ExecutionContext(project))
    assert (project / "a.txt").read_text(encoding="utf-8") == "d\ne\n"
    assert "User modified the `new_string` to be: d\ne." not in text_of(result)
    assert "User modified the `new_string` to be: d\ne" in text_of(result)
    assert isinstance(result.display, FileDiff)
    assert result.display.diff_stat.ai_added_lines == 1
    assert result.display.diff_stat.user_added_lines == 2


@pytest.mark.requirement("TOOLS-21")
async def test_a_file_that_changed_while_the_person_edited_is_left_alone(project: Path) -> None:
    (project / "a.txt").write_text("a\n", encoding="utf-8")
    invocation = modifiable(WriteFile(Workspace(project)), file_path="a.txt", content="b\n")
    context = ExecutionContext(project)
    await invocation.contents(context)
    (project / "a.txt").write_text("mine\n", encoding="utf-8")
    result = await invocation.with_content("c\n").execute(context)
    assert failure_type(result) == "file_write_failure"
    assert (project / "a.txt").read_text(encoding="utf-8") == "mine\n"


async def test_a_proposal_that_cannot_be_made_cannot_be_modified_either(project: Path) -> None:
    tool = Replace(Workspace(project))
    invocation = modifiable(tool, file_path="a.txt", old_string="x", new_string="y")
    context = ExecutionContext(project)
    assert isinstance(await invocation.contents(context), ToolFailure)
    result = await invocation.with_content("z").execute(context)
    assert failure_type(result) == "file_not_found"
    assert not (project / "a.txt").exists()


async def test_an_unchanged_proposal_says_nothing_of_a_person(project: Path) -> None:
    (project / "a.txt").write_text("a\n", encoding="utf-8")
    invocation = modifiable(WriteFile(Workspace(project)), file_path="a.txt", content="b\n")
    result = await invocation.with_content("b\n").execute(ExecutionContext(project))
    assert "User modified" not in text_of(result)


async def test_of_a_long_content_the_model_is_told_what_changed(project: Path) -> None:
    lines = [f"line {n}\n" for n in range(5_000)]
    tool = WriteFile(Workspace(project))
    invocation = modifiable(tool, file_path="new.txt", content="".join(lines))
    lines[2_500] = "mine\n"
    result = await invocation.with_content("".join(lines)).execute(ExecutionContext(project))
    assert "-line 2500\n+mine\n" in text_of(result)
    assert len(text_of(result)) < 1_000
    assert (project / "new.txt").read_text(encoding="utf-8") == "".join(lines)


async def test_what_the_encoding_lacks_cannot_be_put_in_by_a_person(project: Path) -> None:
    (project / "a.txt").write_bytes(b"caf\xe9\n")
    invocation = modifiable(WriteFile(Workspace(project)), file_path="a.txt", content="th\u00e9\n")
    result = await invocation.with_content("\U0001f600\n").execute(ExecutionContext(project))
    assert failure_type(result) == "file_write_failure"
    assert (project / "a.txt").read_bytes() == b"caf\xe9\n"


LINES = st.lists(
    st.sampled_from([b"a", b"b", b"\xc3\xa9", b"\xff", b"", b"long line of text"]), max_size=8
)
ENDS = st.sampled_from([b"\n", b"\r\n"])


@given(LINES, st.lists(ENDS, min_size=8, max_size=8), st.integers(0, 8))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_lines_that_a_person_leaves_alone_keep_their_bytes(
    project: Path, lines: list[bytes], ends: list[bytes], at: int
) -> None:
    whole = [line + end for line, end in zip(lines, ends, strict=False)]
    (project / "a.txt").write_bytes(b"".join(whole))
    invocation = modifiable(WriteFile(Workspace(project)), file_path="a.txt", content="x")
    context = ExecutionContext(project)
    contents = await invocation.contents(context)
    assert not isinstance(contents, ToolFailure)
    assert contents.current is not None
    shown = contents.current.split("\n")[:-1] if whole else []
    at = min(at, len(shown))
    new = "".join(f"{line}\n" for line in [*shown[:at], "put in", *shown[at:]])
    result = await invocation.with_content(new).execute(context)
    assert result.error is None
    after = (project / "a.txt").read_bytes()
    assert after.startswith(b"".join(whole[:at]) + b"put in")
    assert after.endswith(b"".join(whole[at:]))
    assert len(after) <= len(b"".join(whole)) + len(b"put in\r\n")
