"""Memory files of subdirectories: found from a touched path, told once, and listed within limits."""

import os
from pathlib import Path

import pytest

from alhena.memory.files import MemoryRequest, TouchedMemory, below, load_memory
from tests.memory.kit import put
from tests.memory.test_hierarchy import block, request


def touch(memory: TouchedMemory, *paths: Path) -> str:
    found, _ = memory.look(paths)
    return memory.take(found)


def open_memory(asked: MemoryRequest) -> TouchedMemory:
    return TouchedMemory(asked, (item.identity for item in load_memory(asked).files))


@pytest.mark.requirement("MEM-01")
def test_a_touched_path_tells_of_the_files_above_it_once(project: Path):
    put(project, "GEMINI.md", "known from the start")
    a, b = put(project, "a/GEMINI.md", "of a"), put(project, "a/b/GEMINI.md", "of b")
    memory = open_memory(request(project))
    assert touch(memory, project / "README.md") == ""
    assert (
        touch(memory, project / "a" / "b" / "x.py") == f"{block(a, 'of a')}\n\n{block(b, 'of b')}"
    )
    assert touch(memory, project / "a" / "y.py", project / "a" / "b") == ""


def test_a_directory_itself_counts_and_a_path_that_is_not_there_too(project: Path):
    path = put(project, "a/GEMINI.md", "of a")
    assert touch(open_memory(request(project)), project / "a") == block(path, "of a")
    assert touch(open_memory(request(project)), project / "a" / "no" / "such.py") == block(
        path, "of a"
    )


def test_a_file_that_appears_during_the_session_is_told_from_then_on(project: Path):
    memory = open_memory(request(project))
    assert touch(memory, project / "a.py") == ""
    path = put(project, "GEMINI.md", "new")
    assert touch(memory, path) == ""
    assert touch(memory, project / "a.py") == block(path, "new")


def test_two_calls_at_once_tell_it_once(project: Path):
    path = put(project, "a/GEMINI.md", "of a")
    memory = open_memory(request(project))
    first, _ = memory.look([project / "a" / "x"])
    second, _ = memory.look([project / "a" / "y"])
    assert (memory.take(first), memory.take(second)) == (block(path, "of a"), "")


def test_what_was_looked_up_and_not_taken_is_told_later(project: Path):
    path = put(project, "a/GEMINI.md", "of a")
    memory = open_memory(request(project))
    memory.look([project / "a"])
    assert touch(memory, project / "a") == block(path, "of a")


def test_outside_the_workspace_nothing_is_looked_for(tmp_path: Path, project: Path):
    put(tmp_path, "other/GEMINI.md", "foreign")
    (project / "link").symlink_to(tmp_path / "other")
    memory = open_memory(request(project))
    assert touch(memory, tmp_path / "other", project / "link" / "x.py") == ""


def test_folders_nobody_trusts_tell_nothing(project: Path):
    put(project, "a/GEMINI.md", "INJECTED")
    assert touch(open_memory(request(project, trusted=lambda _: False)), project / "a") == ""


@pytest.mark.parametrize("rules", [".gitignore", ".geminiignore"])
def test_directories_that_are_ignored_tell_nothing(project: Path, rules: str):
    put(project, rules, "vendor/\nGEMINI.md\n")
    put(project, "vendor/lib/GEMINI.md", "INJECTED")
    own = put(project, "src/GEMINI.md", "kept out of git by its owner")
    memory = open_memory(request(project))
    assert touch(memory, project / "vendor" / "lib" / "x.py") == ""
    assert touch(memory, project / "src") == block(own, own.read_text(encoding="utf-8"))
    assert list(below(request(project), ())) == [own]


def test_what_cannot_be_read_is_said_once(project: Path):
    (project / "a").mkdir()
    os.mkfifo(project / "a" / "GEMINI.md")
    memory = open_memory(request(project))
    assert "Not a regular file" in memory.look([project / "a"])[1][0]
    assert memory.look([project / "a"]) == ([], [])


def test_imports_of_such_files_are_in_their_text(project: Path):
    put(project, "a/GEMINI.md", "@./x.md @../../out.md")
    put(project, "a/x.md", "X")
    text = touch(open_memory(request(project)), project / "a")
    assert "\nX\n" in text
    assert "Path traversal attempt" in text


def test_the_nearest_root_decides_where_the_search_ends(project: Path):
    put(project, "GEMINI.md", "outer")
    inner = put(project, "a/GEMINI.md", "inner")
    put(project, "a/b/x.py", "")
    memory = TouchedMemory(request(project, project / "a"))
    assert touch(memory, project / "a" / "b" / "x.py") == block(inner, "inner")


@pytest.mark.requirement("MEM-01")
def test_subdirectories_are_listed_breadth_first_up_to_the_limit(project: Path):
    paths = [put(project, f"{name}/GEMINI.md", name) for name in ("a", "b", "a/deep")]
    put(project, "node_modules/x/GEMINI.md", "INJECTED")
    (project / "loop").symlink_to(project)
    assert list(below(request(project), ())) == paths
    assert list(below(request(project, discoveryMaxDirs=3), ())) == paths[:2]
    assert list(below(request(project, discoveryMaxDirs=0), ())) == []
    assert list(below(request(project, trusted=lambda _: False), ())) == []
    status = paths[0].stat()
    assert list(below(request(project), [(status.st_dev, status.st_ino)])) == paths[1:]
