"""Which of the files that a command names are watched."""

import os
import subprocess
from pathlib import Path

import pytest

from alhena.config import watched
from alhena.config.bound import bound_entries
from alhena.config.named_files import named_files
from alhena.config.watched import Indexes
from tests.config.binding import accepted, here, pending
from tests.config.places import workspace, write

FILES = ("data.db", "memory.json", "run.log", "notes", "srv.py", "conf.yaml")


def names(folder: Path, *args: str) -> list[str]:
    return list(named_files({"command": "x", "args": list(args or FILES)}, folder))


def git(folder: Path, *args: str) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=e@e.example", "-c", "commit.gpgsign=false")
    allowed = ("-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *allowed, *args], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def files(project: Path) -> Path:
    for name in FILES:
        write(project / name, "{}")
    return project


def test_without_a_repository_only_known_data_is_left_out(files: Path) -> None:
    assert names(files) == ["conf.yaml", "memory.json", "notes", "srv.py"]


def test_in_a_repository_what_is_no_code_is_watched_while_it_is_tracked(files: Path) -> None:
    git(files, "init")
    assert names(files) == ["notes", "srv.py"]
    git(files, "add", "data.db", "conf.yaml")
    assert names(files) == ["conf.yaml", "data.db", "notes", "srv.py"]
    git(files, "rm", "--cached", "data.db")
    assert names(files) == ["conf.yaml", "notes", "srv.py"]


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_every_form_of_an_index_is_understood_or_all_is_watched(files: Path, version: str) -> None:
    git(files, "init")
    write(files / "deep" / "run.log", "1")
    long = "d" * 41 + "/x.log"  # the low byte of the length is a slash
    write(files / long, "1")
    git(files, "add", "deep", long)
    if version == "3":
        git(files, "add", "--intent-to-add", "run.log")
    git(files, "update-index", "--index-version", version)
    given = names(files, "data.db", "run.log", "deep/run.log", long)
    everything = sorted(["data.db", "run.log", "deep/run.log", long])
    plain = sorted(["deep/run.log", long])
    assert given == {"2": plain, "3": sorted([*plain, "run.log"]), "4": everything}[version]


def test_a_name_within_another_is_not_taken_for_it(files: Path) -> None:
    git(files, "init")
    for name in ("fixtures/data.db", "data.db.txt", "xdata.db"):
        write(files / name, "1")
        git(files, "add", name)
    assert names(files, "data.db") == []


def test_an_index_that_does_not_say_all_has_all_watched(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(files, "init")
    git(files, "add", "srv.py")
    index = files / ".git" / "index"
    good = index.read_bytes()
    for odd in (b"", b"DIRC", b"\0" * 100, good + b"sdir\0\0\0\0"):
        index.write_bytes(odd)
        assert names(files, "data.db") == ["data.db"]
    index.write_bytes(good)
    assert names(files, "data.db") == []
    git(files, "update-index", "--split-index")
    assert names(files, "data.db") == ["data.db"]
    monkeypatch.setattr(watched, "MAX_INDEX", 10)
    assert names(files, "data.db") == ["data.db"]
    index.unlink()
    os.mkfifo(index)
    assert names(files, "data.db") == ["data.db"]


def test_more_files_than_are_looked_for_in_an_index_are_watched(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(files, "init")
    monkeypatch.setattr(watched, "MAX_ASKED", 2)
    assert names(files, "data.db", "memory.json") == []
    assert names(files, "data.db", "memory.json", "run.log") == ["run.log"]


def test_servers_of_a_large_repository_can_be_accepted(files: Path) -> None:
    git(files, "init")
    (files / ".git" / "index").write_bytes(b"DIRC\0\0\0\2".ljust(40 << 20, b"\0"))
    servers: dict[str, object] = {}
    for count in range(10):
        write(files / f"{count}.json", "{}")
        servers[f"s{count}"] = {"command": "x", "args": [f"{count}.json", "conf.yaml", "data.db"]}
    for each in bound_entries({"mcpServers": servers}, files, {"PATH": "/usr/bin"}):
        assert (each.obstacle, each.files) == ("", ())


def test_an_index_is_looked_through_once_for_a_file(files: Path) -> None:
    git(files, "init")
    git(files, "add", "memory.json")
    looks, looked = Indexes(), list[int]()
    top = str(files / ".git")
    for _ in range(3):
        assert looks.may_hold(top, "memory.json", looked.append)
        assert not looks.may_hold(top, "conf.yaml", looked.append)
    assert len(looked) == 2


def test_a_tree_of_files_beside_the_repository_has_its_own_index(files: Path) -> None:
    main, tree = files / "main", files / "tree"
    main.mkdir()
    git(main, "init")
    write(main / "old.log", "1")
    git(main, "add", ".")
    git(main, "commit", "-m", "x")
    git(main, "worktree", "add", str(tree))
    write(tree / "data.db", "1")
    assert names(tree, "data.db", "old.log") == ["old.log"]
    git(tree, "add", "data.db")
    assert names(tree, "data.db") == ["data.db"]
    assert names(main, "data.db") == []
    (tree / ".git").write_text("gitdir: /nowhere\n", encoding="utf-8")
    git(main, "rm", "--cached", "old.log")
    assert names(tree, "old.log") == ["old.log"]


def test_a_file_of_a_module_within_a_repository_counts_by_its_own_index(files: Path) -> None:
    inner = files / "inner"
    inner.mkdir()
    git(inner, "init")
    write(inner / "old.log", "1")
    git(inner, "add", ".")
    git(inner, "commit", "-m", "x")
    git(files, "init")
    git(files, "submodule", "add", str(inner), "module")
    write(files / "module" / "new.log", "1")
    assert names(files, "module/old.log", "module/new.log") == ["module/old.log"]


@pytest.mark.parametrize("mark", ["executable", "shebang", "named", "linked"])
def test_what_can_be_run_is_watched_whatever_it_is_called(files: Path, mark: str) -> None:
    git(files, "init")
    file = files / "data.db"
    assert names(files, "data.db") == []
    if mark == "executable":
        file.chmod(0o755)
        assert names(files, "data.db") == ["data.db"]
    elif mark == "shebang":
        file.write_text("#!/bin/sh\n", encoding="utf-8")
        assert names(files, "data.db") == ["data.db"]
    elif mark == "named":
        assert list(named_files({"command": "./data.db"}, files)) == ["data.db"]
        assert list(named_files("./data.db --x", files)) == ["data.db"]
    else:
        (files / "run.py").symlink_to("data.db")
        assert names(files, "run.py") == ["data.db"]


def test_a_server_that_writes_its_own_data_is_not_held_back_for_it(home: Path, files: Path) -> None:
    write(home / ".gemini" / "trustedFolders.json", {str(files): "TRUST_FOLDER"})
    git(files, "init")
    entry = {
        "command": "python",
        "args": ["srv.py", "--db-path", "./data.db"],
        "env": {"MEMORY_FILE_PATH": "memory.json"},
    }
    workspace(files, {"mcpServers": {"s": entry}})
    accepted(files)
    write(files / "data.db", "row")
    write(files / "memory.json", "row")
    assert here(files).pending == ()
    git(files, "add", "memory.json")  # as a pull would bring it
    assert pending(here(files))["mcpServers.s"].endswith("changed: the file memory.json")
