import os
import threading
from collections import Counter
from pathlib import Path

from alhena.system.ignore import IgnoreRules
from alhena.system.walk import WalkLimits, WalkTally, walk


def make(top: Path, *paths: str) -> None:
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).touch()


def test_a_directorys_files_come_before_its_subdirectories(project: Path) -> None:
    make(project, "b", "a/z", "a/b/c", "c/d", ".git/x", "node_modules/y")
    found = [os.path.relpath(entry.path, project) for entry in walk(project)]
    assert found == ["b", "a/z", "a/b/c", "c/d"]


def test_nested_rules_and_their_tally(project: Path) -> None:
    make(project, "a.log", "sub/b.log", "sub/keep.log", "out/x", "sub/out/y")
    (project / ".gitignore").write_text("*.log\n/out/\n", encoding="utf-8")
    (project / "sub/.gitignore").write_text("!keep.log\n", encoding="utf-8")
    tally = WalkTally()
    found = [os.path.relpath(e.path, project) for e in walk(project, IgnoreRules(project), tally)]
    assert found == [".gitignore", "sub/.gitignore", "sub/keep.log", "sub/out/y"]
    assert tally.ignored_files == [str(project / "a.log"), str(project / "sub/b.log")]
    assert tally.ignored_directories == [str(project / "out")]


def test_a_set_event_ends_the_walk(project: Path) -> None:
    make(project, *(f"{n}/a" for n in range(10)))
    stop = threading.Event()
    seen = 0
    for _ in walk(project, limits=WalkLimits(cancellation=stop)):
        seen += 1
        stop.set()
    assert seen == 1


def test_a_very_deep_tree_is_no_problem(project: Path) -> None:
    deep = project
    for _ in range(300):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "a").touch()
    assert len(list(walk(project, IgnoreRules(project)))) == 1


def test_a_repository_inside_has_rules_of_its_own(project: Path) -> None:
    make(project, ".git/x", "inner/.git/info/exclude", "inner/a.log", "inner/b.tmp", "c.log")
    (project / ".gitignore").write_text("*.log\n", encoding="utf-8")
    (project / "inner/.git/info/exclude").write_text("*.tmp\n", encoding="utf-8")
    rules = IgnoreRules(project)
    assert rules.is_ignored(project / "c.log", is_dir=False)
    assert not rules.is_ignored(project / "inner/a.log", is_dir=False)
    assert rules.is_ignored(project / "inner/b.tmp", is_dir=False)
    assert rules.is_ignored(project / "inner/.git", is_dir=True)
    assert not rules.is_ignored(project.parent / "c.log", is_dir=False)


def test_core_excludes_file_is_found_through_includes(project: Path, home: Path) -> None:
    make(project, ".git/x")
    (home / ".gitconfig").write_text('[include]\n\tpath = "more config"\n', encoding="utf-8")
    (home / "more config").write_text(
        "[core]\n\texcludesFile = ~/my\\\\ignore ; mine\n", encoding="utf-8"
    )
    (home / "my\\ignore").write_text("*.bak\n", encoding="utf-8")
    rules = IgnoreRules(project)
    assert rules.is_ignored(project / "a.bak", is_dir=False)
    assert not rules.is_ignored(project / "a.txt", is_dir=False)
    assert rules.warnings == []


def test_a_fifo_for_an_ignore_file_does_not_block_and_is_told(project: Path) -> None:
    os.mkfifo(project / ".gitignore")
    make(project, "a")
    rules = IgnoreRules(project)
    assert not rules.is_ignored(project / "a", is_dir=False)
    assert any("FIFO" in warning for warning in rules.warnings)


def test_a_worktree_uses_the_exclude_file_of_its_repository(project: Path) -> None:
    make(project, "main/.git/info/exclude", "main/.git/worktrees/w/x", "w/a.tmp")
    (project / "main/.git/info/exclude").write_text("*.tmp\n", encoding="utf-8")
    (project / "main/.git/worktrees/w/commondir").write_text("../..\n", encoding="utf-8")
    (project / "w/.git").write_text("gitdir: ../main/.git/worktrees/w\n", encoding="utf-8")
    assert IgnoreRules(project / "w").is_ignored(project / "w/a.tmp", is_dir=False)


def test_a_walk_reads_no_more_entries_than_it_may(project: Path) -> None:
    for folder in ("ignored", "many", "z"):
        (project / folder).mkdir()
        for number in range(40):
            (project / folder / f"{number}{'.log' * (folder == 'ignored')}").touch()
    (project / ".gitignore").write_text("*.log\n", encoding="utf-8")
    limits = WalkLimits(most=40)
    found = [entry.path for entry in walk(project, IgnoreRules(project), limits=limits)]
    folders = Counter(Path(path).parent.name for path in found)
    # 4 at the top, 10 of each folder: a quarter of 40. Ignored ones count.
    assert folders == {project.name: 1, "many": 10, "z": 10}
    assert limits.most == 40 - 4 - 30
    assert len(list(walk(project, limits=WalkLimits(most=8)))) <= 8
