from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from alhena.system.ignore import IgnoreRules
from alhena.system.walk import folder_structure


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


def test_a_deep_tree_does_not_exhaust_the_stack(project: Path):
    path = project
    for _ in range(180):
        path = path / "d"
        path.mkdir()
    assert folder_structure(project, None).count("d/") == 180


def test_a_folder_full_of_files_leaves_room_for_the_folders_beside_them(project: Path):
    make(project, *(f"image{i:03}.png" for i in range(300)), "src/main.py", "docs/guide.md")
    text = folder_structure(project, None, max_items=20)
    assert "├───image000.png" in text
    assert "├───src/\n│   └───main.py" in text
    assert "├───docs/\n│   └───guide.md" in text
    assert text.count("───") == 20 + 1
    assert text.endswith("└───...")


def test_room_that_folders_do_not_take_goes_to_the_files(project: Path):
    make(project, *(f"f{i:02}" for i in range(18)), "src/main.py")
    text = folder_structure(project, None, max_items=20)
    assert text.count("───f") == 18
    assert text.endswith("└───src/\n    └───main.py")


def test_what_nobody_sees_is_not_read(project: Path):
    make(project, *(f"a{i}/f{j}" for i in range(5) for j in range(20)), "z/last.txt")
    whole = folder_structure(project, None, max_items=1000)
    assert whole.count("───f") == 100
    assert "Folders or files indicated" not in whole
    few = folder_structure(project, None, max_items=1000, max_read=40)
    assert few.count("───f") == 34
    assert few.count("───f", few.index("a0/"), few.index("a1/")) == 10
    assert "z/..." in few
    assert "indicated with ... contain more items" in few


def test_the_top_says_that_it_holds_more_than_was_read(project: Path):
    make(project, *(f"f{i}.log" for i in range(50)))
    (project / ".gitignore").write_text("*.log\n", encoding="utf-8")
    text = folder_structure(project, IgnoreRules(project), max_read=8)
    assert text.endswith("└───...")


def test_empty_folders_are_no_more_than_they_are_when_there_is_no_room(project: Path):
    (project / "empty").mkdir()
    make(project, "full/x")
    text = folder_structure(project, None, max_items=2)
    assert "├───empty/\n" in text
    assert "└───full/..." in text


def test_a_directory_that_cannot_be_read_is_closed(project: Path):
    text = folder_structure(project / "not there", None)
    assert text.endswith("not there/\n└───...")


Tree = dict[str, Any]
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.dictionaries(st.sampled_from("abcdef"), st.none(), max_size=6),
    lambda inner: st.dictionaries(st.sampled_from("abcdefgh"), st.none() | inner, max_size=8),
    max_leaves=40,
)


def build(top: Path, tree: Tree) -> set[str]:
    """Makes the tree; its paths, those of folders with a slash."""
    found: set[str] = set()
    for name, inner in tree.items():
        if inner is None:
            (top / name).touch()
            found.add(name)
        else:
            (top / name).mkdir()
            found |= {f"{name}/"} | {f"{name}/{below}" for below in build(top / name, inner)}
    return found


def paths_in_picture(text: str) -> tuple[set[str], int]:
    """The paths in a picture, and how many places say that there is more."""
    paths: set[str] = set()
    more = 0
    above: list[str] = []
    for line in text.split("/\n", 1)[1].split("\n"):
        indent, _, name = line.partition("───")
        del above[(len(indent) - 1) // 4 :]
        if name == "...":
            more += 1
            continue
        more += name.endswith("...")
        plain = name.removesuffix("...")
        if plain:
            paths.add("".join(above) + plain)
        above.append(plain)
    return paths, more


@given(tree=TREES, room=st.integers(1, 30), reads=st.integers(1, 60) | st.just(20_000))
def test_a_picture_shows_only_what_is_there_and_says_where_there_is_more(
    tree: Tree, room: int, reads: int
):
    with TemporaryDirectory() as folder:
        top = Path(folder)
        there = build(top, tree)
        text = folder_structure(top, None, max_items=room, max_read=reads)
    paths, more = paths_in_picture(text)
    assert paths <= there
    assert len(paths) == min(len(there), room) or reads < len(there) * 4
    assert len(paths) <= room
    assert (paths == there) is (more == 0)
    assert ("indicated with ..." in text) is (more > 0)
    for path in paths:
        assert "/" not in path[:-1] or path[:-1].rpartition("/")[0] + "/" in paths
