import os
from pathlib import Path

import pytest

from alhena.system.workspace import Workspace
from alhena.tools.builtin.list_directory import MOST_FILES, Glob
from tests.tools.files import call, failure_type, text_of, unprivileged

DAY = 24 * 60 * 60
NOW = 1_700_000_000.0


@pytest.fixture
def glob(project: Path) -> Glob:
    return Glob(Workspace(project), clock=lambda: NOW)


def make(top: Path, *paths: str) -> None:
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).touch()
        os.utime(top / path, (NOW - 2 * DAY, NOW - 2 * DAY))


async def find_paths(glob: Glob, project: Path, pattern: str, **params: object) -> list[str]:
    lines = text_of(await call(glob, pattern=pattern, **params)).split("\n")[1:]
    return [line.removeprefix(f"{project}/") for line in lines]


@pytest.mark.requirement("TOOLS-13")
async def test_recent_files_come_first_then_the_others_by_name(glob: Glob, project: Path) -> None:
    make(project, "b.py", "a.py", "sub/c.py", "new.py", "newest.py", "x.txt")
    os.utime(project / "new.py", (NOW, NOW - 100))
    os.utime(project / "newest.py", (NOW, NOW - 10))
    text = text_of(await call(glob, pattern="**/*.py"))
    header, *paths = text.split("\n")
    assert header == (
        f'Found 5 file(s) matching "**/*.py" within {project}, sorted by modification time '
        "(newest first):"
    )
    names = ("newest.py", "new.py", "a.py", "b.py", "sub/c.py")
    assert paths == [f"{project}/{name}" for name in names]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.py", "A.py"),
        ("**/*.{ts,tsx}", "src/deep/b.tsx src/b.ts"),
        ("./src/*.ts", "src/b.ts"),
        ("SRC/*.TS", "src/b.ts"),
        ("src/**", "src/app/[id]/page.tsx src/b.ts src/deep/b.tsx"),
        ("src/app/[id]/page.tsx", "src/app/[id]/page.tsx"),
        ("src/app/[id]/*.tsx", "src/app/[id]/page.tsx"),
        ("**/[id]/{page,layout}.tsx", "src/app/[id]/page.tsx"),
        ("**/[s-u]rc/b.ts", "src/b.ts"),
        ("**/.hidden", ".hidden"),
        ("s?c/b.*", "src/b.ts"),
        ("[!a]*", "A.py .hidden"),
        ("src/*/b.tsx", "src/deep/b.tsx"),
        ("node_modules/**", "node_modules/x.js"),
    ],
)
async def test_patterns(glob: Glob, project: Path, pattern: str, names: str) -> None:
    make(project, "A.py", "src/b.ts", "src/deep/b.tsx", ".hidden", "node_modules/x.js")
    if "[" in pattern or "**" in pattern:
        make(project, "src/app/[id]/page.tsx")
    if pattern == "**/*.{ts,tsx}":
        names += " src/app/[id]/page.tsx"
    if pattern == "[!a]*":
        names = ".hidden"
    assert sorted(await find_paths(glob, project, pattern)) == sorted(names.split())


async def test_case_counts_when_asked_for(glob: Glob, project: Path) -> None:
    make(project, "A.py")
    assert await find_paths(glob, project, "a.py", case_sensitive=True) == []
    assert await find_paths(glob, project, "A.py", case_sensitive="true") == ["A.py"]


@pytest.mark.requirement("TOOLS-13")
async def test_ignored_files_are_counted_and_left_out(glob: Glob, project: Path) -> None:
    make(project, "a.log", "b.log", "keep.log", "secret.log")
    (project / ".gitignore").write_text("[ab].log\n", encoding="utf-8")
    (project / ".geminiignore").write_text("secret*\n", encoding="utf-8")
    text = text_of(await call(glob, pattern="*.log"))
    assert (
        f'Found 1 file(s) matching "*.log" within {project} (3 additional files were ignored),'
        in text
    )
    assert text_of(await call(glob, pattern="a.l?g")) == (
        f'No files found matching pattern "a.l?g" within {project}\n'
        "1 ignored file was not looked at; name one in `path` to look there, or set "
        "`respect_git_ignore` to false."
    )
    assert text_of(await call(glob, pattern="s*.log")) == (
        f'No files found matching pattern "s*.log" within {project}\n'
        ".geminiignore leaves out 1 entry."
    )
    assert await find_paths(glob, project, "a.log") == ["a.log"]
    assert len(await find_paths(glob, project, "*.log", respect_git_ignore=False)) == 3
    assert len(await find_paths(glob, project, "*.log", respect_gemini_ignore=False)) == 2


async def test_all_roots_are_searched_when_no_path_is_given(tmp_path: Path, project: Path) -> None:
    other = tmp_path / "other"
    make(project, "a.py")
    make(other, "b.py")
    glob = Glob(Workspace(project, [other]))
    text = text_of(await call(glob, pattern="*.py"))
    assert "Found 2 file(s)" in text
    assert "across 2 workspace directories" in text
    assert await find_paths(glob, other, "*.py", path=str(other)) == ["b.py"]
    assert await find_paths(glob, other, f"{other}/*.py") == ["b.py"]


async def test_links_in_circles_and_odd_entries_do_not_disturb(glob: Glob, project: Path) -> None:
    make(project, "sub/a.py", "bad\nname.py")
    (project / "sub/up").symlink_to("..")
    (project / "linked.py").symlink_to("sub/a.py")
    (project / "gone.py").symlink_to("nowhere")
    os.mkfifo(project / "fifo.py")
    (Path(os.fsdecode(os.fsencode(project) + b"/\xff.py"))).touch()
    names = await find_paths(glob, project, "**/*.py")
    assert sorted(names) == ["\\xff.py", "bad\\nname.py", "linked.py", "sub/a.py"]


async def test_unreadable_directories_are_skipped_and_named(glob: Glob, project: Path) -> None:
    make(project, "a.py", "closed/b.py")
    (project / "closed").chmod(0)
    with unprivileged(project):
        text = text_of(await call(glob, pattern="**/*.py"))
    assert f"{project}/a.py" in text
    assert "(1 directory could not be read: Permission denied" in text
    assert "closed" in text.split("\n")[-1]


@pytest.mark.requirement("TOOLS-13")
@pytest.mark.parametrize(
    ("params", "type"),
    [
        ({"pattern": ""}, "invalid_tool_params"),
        ({"pattern": "../*"}, "invalid_tool_params"),
        ({"pattern": "[a"}, "invalid_tool_params"),
        ({"pattern": "{a,b}" * 20}, "invalid_tool_params"),
        ({"pattern": "*" * 5000}, "invalid_tool_params"),
        ({"pattern": "/etc/*"}, "path_not_in_workspace"),
        ({"pattern": "*", "path": "/etc"}, "path_not_in_workspace"),
        ({"pattern": "*", "path": "missing"}, "search_path_not_found"),
        ({"pattern": "*", "path": "a.py"}, "search_path_not_a_directory"),
        ({"pattern": 1}, "invalid_tool_params"),
        ({}, "invalid_tool_params"),
    ],
)
async def test_what_cannot_be_searched_is_a_typed_failure(
    glob: Glob, project: Path, params: dict[str, object], type: str
) -> None:
    make(project, "a.py")
    assert failure_type(await call(glob, **params)) == type


async def test_many_files_are_cut_with_a_note(project: Path) -> None:
    for number in range(MOST_FILES + 5):
        os.mknod(project / f"{number:05}")
    glob = Glob(Workspace(project), most_characters=0)
    lines = text_of(await call(glob, pattern="*")).split("\n")
    assert lines[0].startswith(f"Found {MOST_FILES + 5} file(s)")
    assert len(lines) == MOST_FILES + 2
    assert lines[-1] == "(5 more files are not shown; use a narrower pattern)"


async def test_a_long_result_ends_with_a_whole_path_and_says_what_is_left(
    glob: Glob, project: Path
) -> None:
    for number in range(1_000):
        os.mknod(project / f"{number:04}-{'x' * 60}")
        os.utime(project / f"{number:04}-{'x' * 60}", (1, 1))
    text = text_of(await call(glob, pattern="*"))
    assert 38_000 < len(text) <= 40_000
    *paths, last = text.split("\n")[1:]
    assert paths == [f"{project}/{number:04}-{'x' * 60}" for number in range(len(paths))]
    assert last == f"({1_000 - len(paths)} more files are not shown; use a narrower pattern)"
