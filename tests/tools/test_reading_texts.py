"""Results of read-only tools: the texts and types known to models."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alhena.system.search import FileSearch
from alhena.system.workspace import Workspace
from alhena.tools.builtin.list_directory import Glob, ListDirectory
from alhena.tools.builtin.read_file import ReadFile
from alhena.tools.builtin.search_file_content import SearchFileContent
from alhena.tools.contract import Tool
from tests.tools.files import call, text_of

Rows = list[tuple[dict[str, Any], str, str]]
"""Parameters, the whole text or how it begins (before "…"), the error type or ""."""


@pytest.fixture
def tree(project: Path) -> Path:
    files = {
        "a.py": "one\ntwo\n",
        "long.txt": "".join(f"{n}\n" for n in range(1, 3001)),
        "wide.txt": "x" * 2001 + "\n",
        "crlf.txt": "a\r\nb\r\n",
        "sub/b.py": "def two(): ...\n",
        "sub/c.bin": "\0\1\2" * 9,
        "secret.key": "k\n",
        "build/out.py": "two\n",
        ".gitignore": "build/\n",
        ".geminiignore": "*.key\n",
    }
    for name, text in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text, encoding="utf-8", newline="")
        os.utime(project / name, (1_600_000_000, 1_600_000_000))
    (project / "empty").mkdir()
    (project / ".nowhere").symlink_to("gone")
    return project


async def check(tool: Tool, rows: Rows, project: Path) -> None:
    told: Rows = []
    for params, expected, _ in rows:
        result = await call(tool, **params)
        text = text_of(result).replace(str(project), "ROOT")
        begin, more, end = expected.partition("…")
        if more and text.startswith(begin) and text.endswith(end):
            text = expected
        told.append((params, text, str(result.error.type) if result.error else ""))
    assert told == rows


READ: Rows = [
    ({"absolute_path": "a.py"}, "one\ntwo\n", ""),
    ({"file_path": "a.py"}, "one\ntwo\n", ""),
    ({"absolute_path": "crlf.txt"}, "a\nb\n", ""),
    (
        {"absolute_path": "long.txt"},
        (
            "\nIMPORTANT: The file content has been truncated.\n"
            "Status: Showing lines 1-2000 of 3000 total lines.\n"
            "Action: To read more of the file, you can use the 'offset' and 'limit' parameters in a "
            "subsequent 'read_file' call. For example, to read the next section of the file, use "
            "offset: 2000.\n\n--- FILE CONTENT (truncated) ---\n1\n2\n…\n2000"
        ),
        "",
    ),
    (
        {"file_path": "long.txt", "start_line": 2999},
        (
            "\nIMPORTANT: The file content has been truncated.\n"
            "Status: Showing lines 2999-3000 of 3000 total lines.\n…"
            "--- FILE CONTENT (truncated) ---\n2999\n3000\n"
        ),
        "",
    ),
    (
        {"absolute_path": "wide.txt"},
        "\nIMPORTANT: The file content has been truncated.\n…xxx... [truncated]\n",
        "",
    ),
    ({"absolute_path": "sub/c.bin"}, "Cannot display content of binary file: sub/c.bin", ""),
    (
        {"absolute_path": ""},
        "The 'absolute_path' parameter must be non-empty.",
        "invalid_tool_params",
    ),
    (
        {"file_path": "a.py", "start_line": 3, "end_line": 2},
        "start_line cannot be greater than end_line",
        "invalid_tool_params",
    ),
    (
        {"absolute_path": "gone.txt"},
        "Could not read file because no file was found at the specified path. …",
        "file_not_found",
    ),
    (
        {"absolute_path": "sub"},
        "Could not read file because the provided path is a directory, not a file. …",
        "target_is_directory",
    ),
    (
        {"absolute_path": "secret.key"},
        "File path 'ROOT/secret.key' is ignored by configured ignore patterns.",
        "invalid_tool_params",
    ),
    (
        {"absolute_path": "/etc/passwd"},
        (
            'Path not in workspace: Attempted path "/etc/passwd" resolves outside the allowed '
            "workspace directories: ROOT…"
        ),
        "path_not_in_workspace",
    ),
]

LIST: Rows = [
    ({"path": "sub"}, "Directory listing for ROOT/sub:\nb.py (15 bytes)\nc.bin (27 bytes)", ""),
    (
        {"dir_path": ".", "ignore": ["*.txt", ".*"]},
        "Directory listing for ROOT:\n[DIR] empty\n[DIR] sub\na.py (8 bytes)\n\n(2 ignored)",
        "",
    ),
    ({"path": "empty"}, "Directory ROOT/empty is empty.", ""),
    ({"path": "a.py"}, "Error: Path is not a directory: ROOT/a.py…", "path_is_not_a_directory"),
    ({"path": "gone"}, "Error listing directory: ENOENT…", "ls_execution_error"),
    ({"path": ".."}, "Path not in workspace: Attempted path …", "path_not_in_workspace"),
]

GLOB: Rows = [
    (
        {"pattern": "**/*.py"},
        (
            'Found 2 file(s) matching "**/*.py" within ROOT, sorted by modification time (newest '
            "first):\nROOT/a.py\nROOT/sub/b.py"
        ),
        "",
    ),
    (
        {"pattern": "*.{key,py}"},
        (
            'Found 1 file(s) matching "*.{key,py}" within ROOT (1 additional files were ignored), '
            "sorted by modification time (newest first):\nROOT/a.py"
        ),
        "",
    ),
    ({"pattern": "*.rs"}, 'No files found matching pattern "*.rs" within ROOT', ""),
    (
        {"pattern": "*.key"},
        'No files found matching pattern "*.key" within ROOT\n.geminiignore leaves out 1 entry.',
        "",
    ),
    ({"pattern": ""}, "The 'pattern' parameter must be non-empty.", "invalid_tool_params"),
    (
        {"pattern": "*", "dir_path": "gone"},
        (
            "Search path does not exist: ROOT/gone. Check it with list_directory, or leave `path` "
            "out to search the whole workspace."
        ),
        "search_path_not_found",
    ),
    (
        {"pattern": "*", "path": "a.py"},
        (
            "Search path is not a directory: ROOT/a.py. Give the directory that it lies in, or read "
            "it with read_file."
        ),
        "search_path_not_a_directory",
    ),
    (
        {"pattern": "*", "path": "a.py/b/c"},
        "Search path is not a directory: ROOT/a.py/b/c. …",
        "search_path_not_a_directory",
    ),
]

SEARCH: Rows = [
    (
        {"pattern": "two"},
        (
            'Found 2 matches for pattern "two" in path ".":\n---\nFile: a.py\nL2: two\n---\n'
            "File: sub/b.py\nL1: def two(): ...\n---"
        ),
        "",
    ),
    (
        {"pattern": "two", "dir_path": "sub", "include": "*.py"},
        (
            'Found 1 match for pattern "two" in path "sub" (filter: "*.py"):\n---\nFile: sub/b.py\n'
            "L1: def two(): ...\n---"
        ),
        "",
    ),
    (
        {"pattern": "two", "names_only": True},
        'Found 2 files with matches for pattern "two" in path ".":\na.py\nsub/b.py',
        "",
    ),
    (
        {"pattern": "three"},
        (
            'No matches found for pattern "three" in path ".".\n'
            "Note: 1 ignored folder was not looked at; name one in `path` to search it, or set "
            "`no_ignore` to search all that git ignores.\n"
            "Note: .geminiignore leaves out 1 entry."
        ),
        "",
    ),
    (
        {"pattern": "xxx"},
        (
            'Found 1 match for pattern "xxx" in path ".":\n---\nFile: wide.txt\nL1 (column 1): '
            "xxx…xx…\n---"
        ),
        "",
    ),
    (
        {"pattern": "a("},
        "Invalid regular expression pattern provided: a(. Error: …",
        "invalid_tool_params",
    ),
    (
        {"pattern": "x", "path": "gone/more"},
        (
            "Search path does not exist: ROOT/gone/more. Check it with list_directory, or leave "
            "`path` out to search the whole workspace."
        ),
        "search_path_not_found",
    ),
    (
        {"pattern": "x", "path": ".nowhere"},
        "Search path does not exist: ROOT/.nowhere. …",
        "search_path_not_found",
    ),
    (
        {"pattern": "x", "path": "a.py/b"},
        "Search path is not a directory: ROOT/a.py/b. …",
        "search_path_not_a_directory",
    ),
]

CASES: list[tuple[Callable[[Workspace], Tool], Rows]] = [
    (ReadFile, READ), (ListDirectory, LIST), (Glob, GLOB), (SearchFileContent, SEARCH),
]  # fmt: skip


@pytest.mark.requirement("TOOLS-08", "TOOLS-12", "TOOLS-13", "TOOLS-14")
@pytest.mark.parametrize(("make", "rows"), CASES)
async def test_texts_and_types_are_those_that_models_know(
    tree: Path, make: Callable[[Workspace], Tool], rows: Rows
) -> None:
    await check(make(Workspace(tree)), rows, tree)


async def test_a_search_over_its_time_says_so(tree: Path) -> None:
    tool = SearchFileContent(Workspace(tree), backend=FileSearch(time_limit=0.0))
    rows: Rows = [
        (
            {"pattern": "two"},
            "Operation timed out after 0ms. In large repositories, consider narrowing the search …",
            "grep_execution_error",
        )
    ]
    await check(tool, rows, tree)
