"""Behaviour common to all file tools."""

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.system.workspace import Workspace
from alhena.tools.base import DeclarativeTool
from alhena.tools.builtin.edit_files import Replace, WriteFile
from alhena.tools.builtin.list_directory import Glob, ListDirectory
from alhena.tools.builtin.read_file import ReadFile
from alhena.tools.contract import ExecutionContext, InfoConfirmation, Kind, ToolFailure, ToolResult

TOOLS: list[tuple[type[Any], Kind, dict[str, Any], str]] = [
    (ReadFile, Kind.READ, {"absolute_path": "a.txt"}, "a.txt"),
    (WriteFile, Kind.EDIT, {"file_path": "a.txt", "content": "x"}, "Write a.txt"),
    (
        Replace,
        Kind.EDIT,
        {"file_path": "a.txt", "old_string": "a", "new_string": "b"},
        "Edit a.txt",
    ),
    (ListDirectory, Kind.SEARCH, {"path": "sub"}, "sub"),
    (Glob, Kind.SEARCH, {"pattern": "*.txt", "path": "sub"}, "'*.txt' within sub"),
]

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["absolute_path", "file_path", "path", "offset", "limit", "start_line", "end_line", "content",
     "old_string", "new_string", "expected_replacements", "allow_multiple", "pattern", "ignore",
     "case_sensitive", "file_filtering_options", "respect_git_ignore"]
)  # fmt: skip


@pytest.mark.requirement("TOOLS-01", "TOOLS-02")
@pytest.mark.parametrize(("make", "kind", "params", "described"), TOOLS)
def test_a_call_says_what_it_will_do_and_where(
    project: Path, make: type[Any], kind: Kind, params: dict[str, Any], described: str
) -> None:
    tool: DeclarativeTool = make(Workspace(project))
    assert tool.kind is kind
    assert tool.declaration().description == tool.description
    assert len(tool.description) > 100
    assert set(tool.parameter_schema["required"]) <= set(tool.parameter_schema["properties"])
    call = tool.build(params)
    assert not isinstance(call, ToolFailure)
    assert call.params == params
    assert call.describe() == described
    assert [location.path for location in call.locations()] == [
        str(project / described.rsplit(maxsplit=1)[-1])
    ]


@pytest.mark.requirement("TOOLS-02")
async def test_a_read_that_a_rule_asks_about_is_approved_by_its_description(project: Path) -> None:
    call = ReadFile(Workspace(project)).build({"absolute_path": "a.txt"})
    assert not isinstance(call, ToolFailure)
    details = await call.confirmation(ExecutionContext(project))
    assert details == InfoConfirmation(title="Confirm", prompt="a.txt")


@pytest.mark.requirement("TOOLS-05")
@pytest.mark.parametrize("make", [row[0] for row in TOOLS])
@given(params=st.dictionaries(NAMES, VALUES, max_size=5))
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_no_parameters_make_a_tool_raise(
    project: Path, make: type[Any], params: dict[str, Any]
) -> None:
    built = make(Workspace(project)).build(params)
    if isinstance(built, ToolFailure):
        assert built.message
        return
    assert isinstance(await built.execute(ExecutionContext(project)), ToolResult)


@pytest.mark.requirement("TOOLS-05")
@pytest.mark.parametrize(("make", "kind", "params", "described"), TOOLS)
def test_a_missing_or_wrong_parameter_is_named(
    project: Path, make: type[Any], kind: Kind, params: dict[str, Any], described: str
) -> None:
    tool = make(Workspace(project))
    for name in tool.parameter_schema["required"]:
        for wrong in (
            {key: value for key, value in params.items() if key != name},
            {**params, name: 7},
        ):
            failure = tool.build(wrong)
            assert isinstance(failure, ToolFailure)
            assert failure.type == "invalid_tool_params"
            assert name in failure.message


def test_descriptions_are_read_when_they_are_asked_for(project: Path) -> None:
    tool = ReadFile(Workspace(project))
    assert "description" not in vars(tool)
    module = sys.modules[ReadFile.__module__]
    told = Path(str(module.__file__)).with_suffix(".md").read_text(encoding="utf-8").strip()
    assert tool.description == told
