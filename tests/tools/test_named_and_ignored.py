"""Named paths are searched though git ignores them; empty results say what was left out."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from alhena.config.settings import FileFilteringSettings
from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import WriteFile
from alhena.tools.builtin.list_directory import Glob, ListDirectory
from alhena.tools.builtin.read_file import ReadFile
from alhena.tools.builtin.read_many_files import ReadManyFiles
from alhena.tools.builtin.search_file_content import SearchFileContent
from tests.support.each import for_each
from tests.tools.files import call, text_of

RULES = "build/*\n!build/.gitkeep\n*.log\n/out/\n/dist/**\n"
FILES = ("build/a.js", "build/.gitkeep", "logs/x.log", "logs/deep/y.log", "out/b.js", "dist/c/d.js",
         "src/a.py", "src/gen/a.log", "node_modules/m/e.js")  # fmt: skip


@pytest.fixture
def tree(project: Path) -> Path:
    subprocess.run(("git", "init", "-q"), cwd=project, check=True)
    (project / ".gitignore").write_text(RULES, encoding="utf-8")
    for name in FILES:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(f"needle of {name}\n", encoding="utf-8")
    return project


async def search(project: Path, **params: Any) -> str:
    return text_of(await call(SearchFileContent(Workspace(project)), **params))


NAMED = [
    ("build", ["build/a.js", "build/.gitkeep"]),
    ("build/a.js", ["build/a.js"]),
    ("logs", ["logs/deep/y.log", "logs/x.log"]),
    ("logs/deep", ["logs/deep/y.log"]),
    ("out", ["out/b.js"]),
    ("dist", ["dist/c/d.js"]),
    ("dist/c", ["dist/c/d.js"]),
    ("node_modules", ["node_modules/m/e.js"]),
    ("src/gen", ["src/gen/a.log"]),
]


@pytest.mark.parametrize(("place", "names"), NAMED)
async def test_a_place_that_the_call_names_is_looked_at(
    tree: Path, place: str, names: list[str]
) -> None:
    names = [name for name in names if not name.endswith(".gitkeep")]
    text = await search(tree, pattern=r"needle of .*\.(js|log)", path=place)
    assert [line[6:] for line in text.splitlines() if line.startswith("File: ")] == names
    if not (tree / place).is_dir():
        return
    workspace = Workspace(tree)
    text = text_of(await call(Glob(workspace), pattern="**/*.{js,log}", path=place))
    assert sorted(text.splitlines()[1:]) == sorted(f"{tree}/{name}" for name in names)
    text = text_of(await call(Glob(workspace), pattern=f"{place}/**/*.{{js,log}}"))
    assert sorted(text.splitlines()[1:]) == sorted(f"{tree}/{name}" for name in names)
    many = text_of(await call(ReadManyFiles(workspace), paths=[place], exclude=[".gitkeep"]))
    assert all(f"needle of {name}" in many for name in names), many
    listed = text_of(await call(ListDirectory(workspace), path=place))
    assert len(listed.splitlines()) > 1
    assert "(0" not in listed


async def test_a_place_with_matches_of_its_own_does_not_bring_in_what_is_ignored(tree: Path):
    text = await search(tree, pattern="needle", path="src")
    assert "File: src/a.py" in text
    assert "gen" not in text
    empty = await search(tree, pattern="nothing like it", path="src")
    assert "Note: What git ignores in" in empty


async def test_an_empty_search_says_what_was_not_looked_at_and_how_to(tree: Path):
    text = await search(tree, pattern="nothing")
    assert text.splitlines()[1:] == [
        (
            "Note: 4 ignored files and 3 ignored folders were not looked at; name one in `path` to "
            "search it, or set `no_ignore` to search all that git ignores."
        )
    ]
    text = await search(tree, pattern="nothing", include="*.py")
    assert "Note: 3 ignored folders were not looked at;" in text
    text = await search(tree, pattern="nothing", no_ignore=True)
    assert text.splitlines()[1:] == []
    text = await search(tree, pattern="needle")
    assert "not looked at" not in text
    workspace = Workspace(tree)
    text = text_of(await call(Glob(workspace), pattern="*.nothing"))
    assert "set `respect_git_ignore` to false" not in text, "no place below the top was entered"
    text = text_of(await call(Glob(workspace), pattern="**/*.log"))
    assert "3 ignored files and 3 ignored folders were not looked at; name one in `path`" in text
    text = text_of(await call(Glob(workspace), pattern="**/*.log", respect_git_ignore=False))
    assert text.count(".log") == 4
    many = text_of(await call(ReadManyFiles(workspace), paths=["*.nothing", "**/*.log"]))
    assert "3 ignored files and " in many
    assert "file_filtering_options.respect_git_ignore" in many


async def test_what_geminiignore_leaves_out_is_said_and_stays_closed(tree: Path):
    (tree / ".geminiignore").write_text("src/\nlogs/x.log\n", encoding="utf-8")
    text = await search(tree, pattern="needle", path="logs")
    assert [line for line in text.splitlines() if line.startswith("File")] == [
        "File: logs/deep/y.log"
    ]
    text = await search(tree, pattern="nothing")
    assert "Note: .geminiignore leaves out 2 entries." in text
    assert "src is left out by .geminiignore" in await search(tree, pattern="needle", path="src")


@pytest.mark.requirement("WORLD-04")
@pytest.mark.parametrize("name", ["list", ".geminiignore", "both"])
async def test_files_that_settings_name_hide_from_all_tools_whatever_a_call_says(
    tree: Path, name: str
):
    """Also by name, and where .geminiignore does not count or would show it."""
    (tree / ".ai").mkdir()
    (tree / ".ai" / "ignore").write_text("a.py\n/logs/deep/\n", encoding="utf-8")
    (tree / ".geminiignore").write_text("!a.py\n" if name == "both" else "", encoding="utf-8")
    custom = ("missing", ".ai/ignore", str(tree / "absolute"))
    (tree / "absolute").write_text("x.log\n", encoding="utf-8")
    workspace = Workspace(tree)
    workspace.follow_filtering(
        FileFilteringSettings(
            respect_git_ignore=False,
            respect_gemini_ignore=name != "list",
            custom_ignore_file_paths=custom,
        )
    )
    everything = {"respect_git_ignore": False, "respect_gemini_ignore": False}
    given = {"file_filtering_options": everything}
    found = text_of(await call(SearchFileContent(workspace), pattern="needle", no_ignore=True))
    globbed = text_of(await call(Glob(workspace), pattern="**/*", **everything))
    many = text_of(await call(ReadManyFiles(workspace), paths=["."], **given))
    assert "gen" in found
    assert "gen" in globbed
    listed = text_of(await call(ListDirectory(workspace), path="src", **given))
    for text in (found, globbed, many, listed):
        assert "src/a.py" not in text
        assert "x.log\n" not in text.replace("absolute ---\n\nx.log\n", "")
        assert "deep/y.log" not in text
    assert "a.py" not in listed
    for path in ("src/a.py", "logs/deep/y.log", "logs/x.log"):
        read = await call(ReadFile(workspace), absolute_path=str(tree / path))
        assert "ignored by configured ignore patterns" in text_of(read)
        named = text_of(await call(ReadManyFiles(workspace), paths=[path], **given))
        assert ".ai/ignore" in named
        assert "leaves it out" in named
        assert "needle" not in named
        found = text_of(await call(SearchFileContent(workspace), pattern="needle", path=path))
        assert "is left out by missing or .ai/ignore" in found
    written = await call(WriteFile(workspace), file_path=str(tree / "src/a.py"), content="x")
    assert "ignore" in text_of(written)


TRACKED = ["build/a.js", "logs/deep/y.log", "out/b.js", "dist/c/d.js"]


async def test_what_git_tracks_is_never_ignored(tree: Path):
    subprocess.run(("git", "add", "-f", *TRACKED), cwd=tree, check=True)
    (tree / "out" / "new.js").write_text("needle\n", encoding="utf-8")
    workspace = Workspace(tree)
    text = await search(tree, pattern="needle")
    names = [line[6:] for line in text.splitlines() if line.startswith("File: ")]
    assert set(TRACKED) <= set(names)
    assert {"out/new.js", "logs/x.log"}.isdisjoint(names)
    text = text_of(await call(Glob(workspace), pattern="**/*.{js,log}"))
    assert sorted(text.splitlines()[1:]) == sorted(f"{tree}/{name}" for name in TRACKED)
    many = text_of(await call(ReadManyFiles(workspace), paths=["**/*.{js,log}"],
                              useDefaultExcludes=False))  # fmt: skip
    assert all(f"needle of {name}" in many for name in TRACKED)
    assert "new.js" not in many
    listed = text_of(await call(ListDirectory(workspace), path="."))
    assert "[DIR] out" in listed


@for_each("broken", ["gitdir: /nowhere\n", "nonsense"])
def test_a_repository_that_git_cannot_read_is_said(tmp_path: Path, broken: str) -> None:
    from alhena.system.ignore import IgnoreRules

    place = tmp_path / f"broken-{len(broken)}"
    place.mkdir()
    (place / ".git").write_text(broken, encoding="utf-8")
    (place / ".gitignore").write_text("*.log\n", encoding="utf-8")
    rules = IgnoreRules(place)
    assert rules.is_ignored(place / "a.log", is_dir=False)
    assert "git cannot list the tracked files" in "".join(rules.warnings)
