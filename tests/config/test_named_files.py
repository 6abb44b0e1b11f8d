"""Which files a command of a workspace is taken to name."""

import os
from pathlib import Path
from typing import Any

import pytest

from alhena.config.named_files import MAX_PLACES, TooManyWordsError, named_files
from tests.config.binding import accepted, here, pending
from tests.config.places import workspace, write


def named(folder: Path, *args: str, **members: Any) -> list[str]:
    return list(named_files({"command": "x", "args": list(args), **members}, folder))


def tree(project: Path, *files: str) -> None:
    for file in files:
        write(project / file, file)


def test_a_name_through_a_link_means_what_the_kernel_opens(home: Path, project: Path) -> None:
    tree(project, "srv.py", "sub/srv.py", "sub/dir/.keep")
    (project / "link").symlink_to("sub/dir")
    write(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})
    entry = {"command": "python", "args": ["./link/../srv.py"]}
    workspace(project, {"mcpServers": {"s": entry}})
    accepted(project)
    opened = (project / "./link/../srv.py").read_text(encoding="utf-8")
    assert opened == "sub/srv.py"
    write(project / "sub" / "srv.py", "evil")
    assert pending(here(project))["mcpServers.s"].endswith("changed: the file sub/srv.py")


def test_a_directory_through_a_link_is_the_one_that_the_kernel_goes_to(project: Path) -> None:
    tree(project, "sub/srv.py", "sub/dir/.keep")
    (project / "link").symlink_to("sub/dir")
    assert named(project, "srv.py", cwd="link/..") == ["sub/srv.py"]
    assert named(project, "srv.py", cwd=f"{project}/link/..") == ["sub/srv.py"]


def test_a_name_through_a_link_means_also_what_a_shell_or_a_program_makes_of_it(
    project: Path,
) -> None:
    tree(project, "a/srv.py", "sub/srv.py", "sub/dir/.keep")
    (project / "a" / "link").symlink_to("../sub/dir")
    both = ["a/srv.py", "sub/srv.py"]
    assert named(project, "a/link/../srv.py") == both
    assert named(project, "-c", "cd a/link/.. && python srv.py") == both
    assert named(project, "-c", "cd a/link; cd ..; python srv.py") == both


@pytest.mark.parametrize(
    "args",
    [
        ["--directory", "server", "run", "srv.py"],
        ["--directory=server", "run", "srv.py"],
        ["-C", "server", "srv.py"],
        ["-Cserver", "srv.py"],
        ["-c", "cd server && exec python srv.py"],
        ["-c", "(cd ./server; python srv.py)"],
        ["--prefix", "server", "-m", "srv"],
        ["-r./server/srv.py"],
        ["-fserver/srv.py"],
        ["--require./server/srv.py"],
        ["@server/srv.py"],
    ],
    ids=" ".join,
)
def test_a_name_may_be_meant_from_a_directory_that_the_command_names(
    project: Path, args: list[str]
) -> None:
    tree(project, "server/srv.py", "server/other.py")
    assert named(project, *args) == ["server/srv.py"]


def test_a_command_line_is_looked_at_likewise(project: Path) -> None:
    tree(project, "a/b/run.py", "a/b/no.py")
    assert list(named_files("cd a && cd b && python run.py", project)) == ["a/b/run.py"]


@pytest.mark.parametrize("word", [".", "./", "server", "--cwd=server"])
def test_a_directory_stands_for_what_programs_look_for_in_it(project: Path, word: str) -> None:
    at = "server/" if "server" in word else ""
    files = [f"{at}{name}" for name in ("Makefile", "__main__.py", "index.js", "package.json")]
    tree(project, *files, f"{at}other.py", "elsewhere/Makefile")
    assert named(project, word) == files


def test_the_directory_of_a_server_stands_for_these_too_and_one_of_a_variable_does_not(
    project: Path,
) -> None:
    tree(project, "package.json", "server/package.json", "lib/srv.py", "lib/package.json")
    assert named(project, "start") == []
    assert named(project, "start", cwd="server") == ["server/package.json"]
    assert named(project, "-m", "srv", env={"PYTHONPATH": "lib"}) == ["lib/srv.py"]


def test_directories_elsewhere_by_their_whole_path_are_the_users(
    project: Path, tmp_path: Path
) -> None:
    tree(tmp_path / "tools", "srv.py", "package.json")
    assert named(project, str(tmp_path / "tools"), "srv.py") == []
    assert named(project, os.path.relpath(tmp_path / "tools", project), "srv.py") == [
        os.path.relpath(tmp_path / "tools" / name, project) for name in ("package.json", "srv.py")
    ]


def test_the_search_ends_whatever_the_words_are(project: Path) -> None:
    for number in range(MAX_PLACES + 1):
        (project / f"d{number}").mkdir()
    (project / "loop").symlink_to(".")
    with pytest.raises(TooManyWordsError):
        named(project, *(f"d{number}" for number in range(MAX_PLACES + 1)))
    with pytest.raises(TooManyWordsError):
        named(project, *("d0/" + "../d0/" * number for number in range(500)))
    assert named(project, "loop", "..", "loop/..") == []
    assert named(project, "\ud800", "a\0b", cwd="\ud800") == []
    assert named(project, cwd="a\0b") == []


def test_two_files_whose_names_look_the_same_are_both_looked_at(project: Path) -> None:
    odd = os.fsdecode(b"a\xff.py")
    plain = "a\\xff.py"
    write(project / plain, "1")
    before = named_files({"command": "x", "args": [odd, plain]}, project)
    write(project / odd, "1")
    both = named_files({"command": "x", "args": [odd, plain]}, project)
    assert list(before) == list(both) == [plain]
    write(project / odd, "2")
    assert named_files({"command": "x", "args": [odd, plain]}, project) != both != before


def test_a_command_of_which_nothing_is_watched_says_so(home: Path, project: Path) -> None:
    write(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})
    servers = {
        "module": {"command": "python", "args": ["-m", "srv"]},
        "web": {"url": "https://e.example/"},
        "endless": {"command": "x", "args": [f"w{n}" for n in range(20_000)]},
    }
    workspace(project, {"mcpServers": servers})
    words = "none of its files is watched: what it runs may change unasked"
    assert [each.server for each in here(project).pending if words in each.text] == ["module"]
    tree(project, "srv.py")
    assert not any(words in each.text for each in here(project).pending)
