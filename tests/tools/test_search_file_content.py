import os
import threading
from pathlib import Path
from typing import Any

import pytest

from alhena.system.search import FileSearch, LineMatch, Query, SearchResult
from alhena.system.workspace import Workspace
from alhena.tools.builtin.search_file_content import SearchFileContent
from alhena.tools.contract import (
    ExecutionContext,
    Kind,
    ToolErrorType,
    ToolFailure,
    ToolResult,
)
from tests.tools.files import built, put


@pytest.fixture
def tool(project: Path) -> SearchFileContent:
    return SearchFileContent(Workspace(project))


async def search(tool: SearchFileContent, **params: Any) -> ToolResult:
    return await built(tool, **params).execute(ExecutionContext(Path.cwd()))


@pytest.mark.requirement("TOOLS-14")
async def test_matches_are_grouped_by_file_with_line_numbers(
    tool: SearchFileContent, project: Path
) -> None:
    put(project / "src/a.py", "import os\nfoo = 1\n\nprint(Foo)\n")
    put(project / "b.py", "    foo()   \n")
    result = await search(tool, pattern="foo")
    assert result.llm_content == (
        'Found 3 matches for pattern "foo" in path ".":\n---\n'
        "File: b.py\nL1:     foo()\n---\n"
        "File: src/a.py\nL2: foo = 1\nL4: print(Foo)\n---"
    )
    assert result.display == 'Found 3 matches for pattern "foo" in path "."'
    assert (result.data or {})["matches"] == 3


@pytest.mark.requirement("TOOLS-14")
async def test_path_and_include_narrow_and_are_named(
    tool: SearchFileContent, project: Path
) -> None:
    for name in ("src/a.py", "src/a.ts", "b.py"):
        put(project / name, "foo\n")
    result = await search(tool, pattern="foo", path="src", include="*.py")
    assert result.llm_content == (
        'Found 1 match for pattern "foo" in path "src" (filter: "*.py"):\n---\n'
        "File: src/a.py\nL1: foo\n---"
    )
    same = await search(tool, pattern="foo", dir_path="src", include_pattern="*.py")
    assert same.llm_content == result.llm_content


async def test_a_single_file_can_be_searched(tool: SearchFileContent, project: Path) -> None:
    put(project / "src/a.py", "x\nfoo\n")
    put(project / "src/b.py", "foo\n")
    result = await search(tool, pattern="foo", path=str(project / "src/a.py"))
    assert isinstance(result.llm_content, str)
    assert "File: src/a.py\nL2: foo\n---" in result.llm_content
    assert "b.py" not in result.llm_content


async def test_nothing_found_is_said(tool: SearchFileContent, project: Path) -> None:
    result = await search(tool, pattern="foo", include="*.py")
    assert result.llm_content == (
        'No matches found for pattern "foo" in path "." (filter: "*.py").'
    )
    assert result.error is None


async def test_every_root_is_searched_when_no_path_is_given(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    put(project / "a.txt", "foo\n")
    put(project / "sub/b.txt", "foo\n")
    put(other / "c.txt", "foo\n")
    tool = SearchFileContent(Workspace(project, [other, project / "sub"]))
    result = await search(tool, pattern="foo")
    assert result.llm_content == (
        'Found 3 matches for pattern "foo" across 2 workspace directories:\n---\n'
        "File: a.txt\nL1: foo\n---\nFile: sub/b.txt\nL1: foo\n---\n"
        f"File: {other}/c.txt\nL1: foo\n---"
    )


async def test_names_only_lists_the_files(tool: SearchFileContent, project: Path) -> None:
    put(project / "b.txt", "foo\nfoo\n")
    put(project / "a.txt", "foo\n")
    result = await search(tool, pattern="foo", names_only=True)
    assert result.llm_content == (
        'Found 2 files with matches for pattern "foo" in path ".":\na.txt\nb.txt'
    )


async def test_lines_can_be_excluded(tool: SearchFileContent, project: Path) -> None:
    put(project / "a.txt", "foo one\nfoo two\n")
    result = await search(tool, pattern="foo", exclude_pattern="two")
    assert result.llm_content == (
        'Found 1 match for pattern "foo" in path ".":\n---\nFile: a.txt\nL1: foo one\n---'
    )


@pytest.mark.requirement("TOOLS-14")
async def test_twenty_thousand_matches_are_the_most(tool: SearchFileContent, project: Path) -> None:
    put(project / "a.txt", "foo\n" * 20_001)
    result = await search(tool, pattern="foo")
    assert isinstance(result.llm_content, str)
    assert result.llm_content.startswith(
        'Found 20000 matches for pattern "foo" in path "." (results limited to 20000 matches):\n'
    )
    shown = result.llm_content.count("\nL")
    assert result.llm_content.endswith(
        f"---\n... [{20_000 - shown} more matches in 1 file not shown; "
        "narrow the pattern, path or include] ..."
    )
    assert len(result.llm_content) < 41_000


@pytest.mark.requirement("COST-06")
@pytest.mark.parametrize("before", [0, 100, 5_000, 1_200_000])
@pytest.mark.parametrize("after", [0, 5_000])
async def test_the_part_of_a_long_line_around_the_match_is_shown(
    tool: SearchFileContent, project: Path, before: int, after: int
) -> None:
    put(project / "a.min.js", "x" * before + "needle" + "y" * after + "\n")
    result = await search(tool, pattern="needle")
    assert isinstance(result.llm_content, str)
    (shown,) = [row for row in result.llm_content.splitlines() if "needle" in row and "L1" in row]
    assert len(shown) < 2_200
    _, _, told = shown.partition(": ")
    head, _, tail = told.partition("needle")
    assert ("…" in head) is (before > 2_000)
    assert tail.endswith("…") is (after > 2_000)


@pytest.mark.requirement("COST-06")
async def test_what_does_not_fit_is_counted(tool: SearchFileContent, project: Path) -> None:
    for number in range(100):
        put(project / f"{number:03}.txt", "foo" + "x" * 1_500 + "\n")
    result = await search(tool, pattern="foo")
    assert isinstance(result.llm_content, str)
    shown = result.llm_content.count("File: ")
    assert 20 < shown < 30
    assert result.llm_content.endswith(
        f"... [{100 - shown} more matches in {100 - shown} files not shown; "
        "narrow the pattern, path or include] ..."
    )


async def test_a_single_huge_match_is_shown_cut(tool: SearchFileContent, project: Path) -> None:
    put(project / "a.txt", "foo" * 100_000)
    result = await search(tool, pattern="foo")
    assert isinstance(result.llm_content, str)
    assert result.llm_content.endswith("foofo…\n---")


async def test_odd_file_names_are_shown_in_one_line(tool: SearchFileContent, project: Path) -> None:
    put(project / "new\nline.txt", "foo\n")
    put(project / os.fsdecode(b"raw\xff.txt"), "foo\n")
    result = await search(tool, pattern="foo")
    assert isinstance(result.llm_content, str)
    assert "File: new\\nline.txt\n" in result.llm_content
    assert "File: raw\\xff.txt\n" in result.llm_content
    result.llm_content.encode("utf-8")


@pytest.mark.parametrize(
    ("params", "kind", "said"),
    [
        ({"pattern": "("}, ToolErrorType.INVALID_TOOL_PARAMS, "missing ) at position 1"),
        ({"pattern": "x", "exclude_pattern": "*"}, ToolErrorType.INVALID_TOOL_PARAMS, "position 0"),
        ({"pattern": "x", "path": "gone"}, ToolErrorType.SEARCH_PATH_NOT_FOUND, "gone"),
        ({"pattern": "x", "path": "fifo"}, ToolErrorType.NOT_A_REGULAR_FILE, "a FIFO"),
    ],
)
async def test_what_cannot_be_searched_is_a_failure_that_names_it(
    tool: SearchFileContent, project: Path, params: Any, kind: ToolErrorType, said: str
) -> None:
    os.mkfifo(project / "fifo")
    result = await search(tool, **params)
    assert result.error is not None
    assert result.error.type is kind
    assert said in result.error.message


@pytest.mark.parametrize("params", [{}, {"pattern": ""}, {"pattern": 3}, {"pattern": "x", "path": 1},
                                    {"pattern": "x", "path": "a\0b"}])  # fmt: skip
def test_bad_parameters_are_a_value(tool: SearchFileContent, params: Any) -> None:
    failure = tool.build(params)
    assert isinstance(failure, ToolFailure)
    assert failure.type is ToolErrorType.INVALID_TOOL_PARAMS


@pytest.mark.parametrize("path", ["..", "/etc", "out"])
def test_a_path_outside_the_workspace_is_refused(
    tool: SearchFileContent, project: Path, path: str
) -> None:
    (project / "out").symlink_to("/etc")
    failure = tool.build({"pattern": "x", "path": path})
    assert isinstance(failure, ToolFailure)
    assert failure.type is ToolErrorType.PATH_NOT_IN_WORKSPACE


async def test_a_pattern_that_explodes_is_a_failure_with_a_remedy(project: Path) -> None:
    put(project / "a.txt", "a" * 5_000)
    tool = SearchFileContent(Workspace(project), backend=FileSearch(time_limit=0.3))
    result = await search(tool, pattern="(a|a)*[bc]$")
    assert result.error is not None
    assert result.error.type is ToolErrorType.GREP_EXECUTION_ERROR
    assert "Simplify" in result.error.message or "Narrow" in result.error.message


@pytest.mark.requirement("COST-06")
async def test_what_could_not_be_searched_is_told(project: Path) -> None:
    class Partial:
        name = "partial"

        async def search(
            self, query: Query, cancellation: threading.Event | None = None
        ) -> SearchResult:
            return SearchResult(
                matches=(LineMatch(query.path / "a.txt", 1, "x"),),
                limited=False,
                notes=tuple(f"no access {n}" for n in range(8)),
                backend=self.name,
            )

    tool = SearchFileContent(Workspace(project), backend=Partial())
    result = await search(tool, pattern="x")
    assert isinstance(result.llm_content, str)
    assert "---\nNote: no access 0\n" in result.llm_content
    assert result.llm_content.endswith("Note: 3 more places could not be searched.")


def test_a_call_is_described_and_located(tool: SearchFileContent, project: Path) -> None:
    invocation = built(tool, pattern="a\nb", path="src", include="*.py")
    assert invocation.describe() == "'a\\nb' in src (*.py)"
    assert [place.path for place in invocation.locations()] == [str(project / "src")]
    assert [p.path for p in built(tool, pattern="x").locations()] == [str(project)]


def test_the_declaration_is_that_of_the_seeds(tool: SearchFileContent) -> None:
    assert tool.declaration().name == "search_file_content"
    assert set(tool.parameter_schema["properties"]) == {"pattern", "path", "include"}
    assert (tool.parameter_schema["required"], tool.kind) == (["pattern"], Kind.SEARCH)
