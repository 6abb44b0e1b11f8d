import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.config.home import project_temp
from alhena.system.errors import FileError, MissingFileError
from alhena.system.output import TextSpool
from alhena.tools.output_store import EXCERPT, WHOLE_AT, OutputStore
from tests.support.disk import file_size_limit, mode
from tests.tools.files import unprivileged


@pytest.fixture
def store(tmp_path: Path) -> OutputStore:
    return OutputStore(tmp_path / "tmp" / "tool-outputs", "s1")


def save_output(store: OutputStore, call_id: str, text: str = "text") -> Path:
    made = store.save("tool", call_id, text)
    assert made.path is not None, made.problem
    return made.path


@pytest.mark.requirement("TOOLS-22")
def test_a_saved_text_is_whole_and_for_the_user_alone(store: OutputStore) -> None:
    text = "a\r\nb\n\ud800 漢字" * 1000
    path = save_output(store, "c1", text)
    assert path == store.directory / "tool__c1.txt"
    assert path.read_bytes().decode() == text.replace("\ud800", "?")
    assert mode(path) == 0o600
    assert mode(store.directory) == mode(store.directory.parent) == 0o700
    assert os.listdir(store.directory) == ["tool__c1.txt"]


def test_nothing_is_made_before_there_is_something_to_keep(store: OutputStore) -> None:
    spool = store.spool("tool", "c1", keep=10)
    spool.add("0123456789")
    spool.finish()
    assert not spool.spilled
    assert spool.path is None
    assert not store.directory.parent.exists()


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_tool_and_call_id_make_a_name_inside_the_session(
    tmp_path_factory: pytest.TempPathFactory, tool: str, call_id: str
) -> None:
    store = OutputStore(tmp_path_factory.mktemp("s") / "outputs", call_id)
    made = store.save(tool, call_id, "x")
    assert made.path is not None, made.problem
    assert made.path.parent == store.directory
    assert made.path.parent.parent.name == "outputs"
    assert made.path.read_text(encoding="utf-8") == "x"


def test_ids_that_look_alike_do_not_overwrite_each_other(store: OutputStore) -> None:
    paths = {save_output(store, call_id, call_id) for call_id in ("a/b", "a_b", "a:b")}
    assert {path.read_text(encoding="utf-8") for path in paths} == {"a/b", "a_b", "a:b"}


def test_a_symlink_in_the_way_is_not_followed(store: OutputStore, tmp_path: Path) -> None:
    target = tmp_path / "target"
    save_output(store, "first")
    (store.directory / "tool__c1.txt").symlink_to(target)
    assert save_output(store, "c1").name == "tool__c1-2.txt"
    spool = store.spool("tool", "c2", keep=1)
    (store.directory / "tool__c2.txt").symlink_to(target)
    spool.add("longer")
    assert not target.exists()
    other = OutputStore(tmp_path / "elsewhere", "s1")
    other.directory.parent.mkdir()
    other.directory.symlink_to(tmp_path)
    assert other.save("tool", "c1", "text").path is None


def test_a_directory_that_cannot_be_written_is_told_and_nothing_raises(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    with unprivileged(tmp_path):
        store = OutputStore(locked / "outputs", "s1")
        made = store.save("tool", "c1", "text")
        spool = store.spool("tool", "c2", keep=1)
        spool.add("longer")
        spool.finish("suffix")
    assert made.path is None
    assert "Permission denied" in made.problem
    assert (spool.path, "Permission denied" in spool.problem) == (None, True)


def test_a_full_disk_leaves_no_half_file_of_a_saved_text(store: OutputStore) -> None:
    with file_size_limit(1000):
        made = store.save("tool", "c1", "x" * 5000)
    assert made.path is None
    assert "No space left" in made.problem
    assert os.listdir(store.directory) == []


@pytest.mark.requirement("TOOLS-22")
def test_a_full_disk_keeps_what_a_spool_has_written_and_counts_it(store: OutputStore) -> None:
    spool = store.spool("tool", "c1", prefix="head:", keep=10)
    with file_size_limit(1000):
        for _ in range(100):
            spool.add("é" * 20)
        spool.finish("end")
    assert "No space left" in spool.problem
    assert spool.path is not None
    text = spool.path.read_bytes().decode("utf-8", "ignore")
    assert len(text) == spool.saved
    assert text.startswith("head:éé")
    assert 400 < len(text) <= 510


@given(st.lists(st.text(max_size=30), max_size=10), st.integers(1, 60))
def test_a_spool_keeps_exactly_what_it_was_given(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], keep: int
) -> None:
    store = OutputStore(tmp_path_factory.mktemp("s"), "s1")
    spool = store.spool("tool", "c1", prefix="p:", keep=keep)
    for piece in pieces:
        spool.add(piece)
    spool.finish(":s")
    spool.add("too late")
    whole = "p:" + "".join(pieces) + ":s"
    assert spool.spilled is (len(whole) - 4 > keep)
    assert (spool.path is not None) is spool.spilled
    if spool.path is not None:
        assert spool.path.read_bytes().decode() == whole
        assert spool.saved == len(whole)


def test_a_discarded_spool_leaves_no_file(store: OutputStore) -> None:
    spool: TextSpool = store.spool("tool", "c1", keep=1)
    spool.add("text")
    assert spool.path is not None
    path = spool.path
    spool.discard()
    assert not path.exists()
    spool.discard()


@pytest.mark.parametrize("by", ["path", "name", "call_id"])
def test_what_was_kept_is_found_by_path_name_and_call_id(store: OutputStore, by: str) -> None:
    path = save_output(store, "call:1")
    save_output(store, "other")
    names = {"path": str(path), "name": path.name, "call_id": "call:1"}
    assert store.find(names[by]) == path


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../../secret.txt", "secret.txt", "", "\0", "x" * 5000, "/", ".", "..",
             "link.txt", "fifo.txt", "../session-s2/tool__c9.txt", "\ud800"]
)  # fmt: skip
def test_nothing_else_is_ever_found(store: OutputStore, tmp_path: Path, name: str) -> None:
    save_output(store, "c1")
    save_output(OutputStore(store.directory.parent, "s2"), "c9")
    (tmp_path / "secret.txt").write_text("s", encoding="utf-8")
    (store.directory / "link.txt").symlink_to(tmp_path / "secret.txt")
    os.mkfifo(store.directory / "fifo.txt")
    with pytest.raises(FileError):
        store.find(name)
    if not name.startswith("/") and "\0" not in name:
        with pytest.raises(FileError):
            store.find(str(store.directory.parent / name))


def test_a_session_that_kept_nothing_finds_nothing(store: OutputStore) -> None:
    with pytest.raises(MissingFileError, match="No output is kept"):
        store.find("c1")


def test_sessions_of_a_month_ago_are_removed_when_another_begins(tmp_path: Path) -> None:
    now = 1_800_000_000.0
    month = 31 * 86_400
    outputs = tmp_path / "outputs"
    for name, age in (("old", month), ("recent", month // 2), ("s1", month)):
        path = save_output(OutputStore(outputs, name), "c1")
        os.utime(path.parent, (now - age, now - age))
    (outputs / "other").mkdir()
    (tmp_path / "victim").mkdir()
    (outputs / "session-link").symlink_to(tmp_path / "victim")
    for name in ("other", "session-link"):
        os.utime(outputs / name, (now - month, now - month))
    save_output(OutputStore(outputs, "s1", clock=lambda: now), "c2")
    assert (outputs / "session-old").exists()  # this session has its directory already
    save_output(OutputStore(outputs, "new", clock=lambda: now), "c1")
    left = {"session-recent", "session-new", "session-link", "other"}
    assert left <= set(os.listdir(outputs))
    assert not (outputs / "session-old").exists()
    assert (tmp_path / "victim").exists()


def test_the_projects_directory_is_named_after_its_folder(home: Path, tmp_path: Path) -> None:
    environ = {"HOME": str(home)}
    base = home / ".gemini" / "tmp"
    assert project_temp(environ, Path("/x/My Project (2)")) == base / "my-project-2"
    assert project_temp(environ, Path("/x/漢字")) == base / "project"
    assert project_temp(environ, Path("/")) == base / "project"
    assert not base.exists()


def test_many_texts_are_kept_one_by_one_and_one_that_fails_leaves_the_others(
    store: OutputStore,
) -> None:
    texts = [("a", "1", "x" * 500), ("b", "2", "y" * 5_000), ("a", "1", "z"), ("c", "", "")]
    with file_size_limit(1_000):
        made = [store.save(*text) for text in texts]
    assert [each.path and each.path.name for each in made] == [
        "a__1.txt",
        None,
        "a__1-2.txt",
        "c___.txt",
    ]
    assert "No space left" in made[1].problem
    assert sorted(os.listdir(store.directory)) == ["a__1-2.txt", "a__1.txt", "c___.txt"]
    assert (store.directory / "a__1-2.txt").read_text(encoding="utf-8") == "z"


def test_nothing_can_be_kept_where_there_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("in the way", encoding="utf-8")
    store = OutputStore(tmp_path / "outputs", "s1")
    made = store.save("a", "1", "x")
    assert made.path is None
    assert made.problem


def test_an_excerpt_names_its_whole_only_if_that_is_of_the_same_call(store: OutputStore) -> None:
    path = save_output(store, "c1")
    second = save_output(store, "c1")

    def name_place(where: object) -> str:
        return f"{EXCERPT}1 and last 2 characters. {WHOLE_AT}{where}\nhead"

    assert store.whole_of("c1", name_place(path)) == path
    assert store.whole_of("c1", name_place(second)) == second
    for call_id, text in (
        ("c2", name_place(path)),
        ("1", name_place(path)),
        ("c1", name_place("/etc/passwd")),
        ("c1", name_place(path.parent.parent / "x" / path.name)),
        ("c1", name_place(path.name)),
        ("c1", name_place(path.with_name("tool__c1-9.txt"))),
        ("c1", f"It says: {name_place(path)}"),
        ("c1", str(path)),
        ("c1", ""),
    ):
        assert store.whole_of(call_id, text) is None, text
