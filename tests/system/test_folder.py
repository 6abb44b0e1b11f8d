import os
from pathlib import Path

from inline_snapshot import snapshot

from alhena.system.folder import folder_structure
from alhena.system.ignore import IgnoreRules


def make(project: Path, *names: str) -> None:
    for name in names:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")


def test_the_tree_lists_files_then_folders_and_closes_what_is_ignored(project: Path):
    make(project, "b.txt", "a.txt", "src/deep/c.py", "node_modules/x/y.js", "out/o.log", "t.log")
    (project / ".gitignore").write_text("out/\n*.log\n", encoding="utf-8")
    text = folder_structure(project, IgnoreRules(project)).replace(str(project), "ROOT")
    assert text == snapshot("""\
Showing up to 200 items (files + folders). Folders or files indicated with ... contain more items not shown, were ignored, or the display limit (200 items) was reached.

ROOT/
├───.gitignore
├───a.txt
├───b.txt
├───node_modules/...
├───out/...
├───src/
│   └───deep/
│       └───c.py
└───...\
""")


def test_the_tree_is_bounded_breadth_first(project: Path):
    make(project, *(f"d{i}/f{j}" for i in range(10) for j in range(10)))
    text = folder_structure(project, None, max_items=15)
    assert sum(f"d{i}/" in text for i in range(10)) == 10
    assert text.count("───f") == 5
    assert "..." in text


def test_symlink_loops_and_odd_names_do_not_disturb(project: Path):
    make(project, "a\nb")
    os.symlink(project, project / "loop")
    (project / "bad\udcff").mkdir()
    text = folder_structure(project, None)
    assert "a\\nb" in text
    assert "───loop\n" in text
    assert "bad\\xff/" in text
    text.encode("utf-8")


def test_a_deep_tree_does_not_exhaust_the_stack(project: Path):
    path = project
    for _ in range(180):
        path = path / "d"
        path.mkdir()
    assert folder_structure(project, None).count("d/") == 180
