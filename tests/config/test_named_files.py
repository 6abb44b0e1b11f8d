"""Which files a command of a workspace is taken to name."""

import os
from pathlib import Path
from typing import Any

import pytest

from alhena.config import named_files as files
from alhena.config.named_files import MAX_PLACES, Looks, TooManyWordsError, named_files
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


def test_a_program_is_looked_for_where_the_users_variable_says(project: Path) -> None:
    tree(project, "bin/srv", "other/srv", ".venv/bin/tool")
    entry = {"command": "srv", "args": ["-c", "tool"]}
    path = f"/usr/bin:{project}/bin:.venv/bin"
    assert list(named_files(entry, project, path=path)) == [".venv/bin/tool", "bin/srv"]
    assert list(named_files("srv --x", project, path=path)) == ["bin/srv"]
    own = {**entry, "env": {"PATH": "other"}}
    assert list(named_files(own, project, path=path)) == ["other/srv"]
    assert list(named_files(entry, project, path="/usr/bin::")) == []
    (project / "srv").write_text("x", encoding="utf-8")
    assert list(named_files(entry, project, path="/usr/bin::")) == ["srv"]


def test_a_program_elsewhere_that_is_a_link_into_the_folder_is_watched(
    project: Path, tmp_path: Path
) -> None:
    tree(project, "src/srv")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "srv").symlink_to(project / "src" / "srv")
    entry = {"command": "srv"}
    assert list(named_files(entry, project, path=str(tmp_path / "bin"))) == ["src/srv"]


def test_a_program_by_the_users_path_is_held_back_once_it_changes(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(project, "bin/srv")
    write(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})
    monkeypatch.setenv("PATH", f"{project}/bin{os.pathsep}{os.environ['PATH']}")
    workspace(project, {"mcpServers": {"s": {"command": "srv"}}})
    accepted(project)
    write(project / "bin" / "srv", "evil")
    assert pending(here(project))["mcpServers.s"].endswith("changed: the file bin/srv")


def test_as_many_directories_as_one_goes_down_are_seen(project: Path) -> None:
    tree(project, "d1/d2/d3/d4/d5/z.sh")
    assert named(project, "-c", "cd d1; cd d2; cd d3; cd d4; cd d5; sh z.sh") == [
        "d1/d2/d3/d4/d5/z.sh"
    ]


def test_all_entries_of_a_folder_share_what_may_be_looked_at(project: Path) -> None:
    entry = {"command": "x", "args": [f"w{number}" for number in range(1_500)]}

    def several(looks: Looks, count: int) -> None:
        for _ in range(count):
            assert named_files(entry, project, looks=looks) == {}

    several(Looks(), 2)
    with pytest.raises(TooManyWordsError, match="the entries have more words"):
        several(Looks(), 100)
    several(Looks(), 2)


def test_of_many_entries_those_have_an_obstacle_for_which_nothing_is_left(
    home: Path, project: Path
) -> None:
    write(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})
    words = [f"w{number}" for number in range(1_500)]
    servers = {f"s{number}": {"command": "x", "args": words} for number in range(30)}
    workspace(project, {"mcpServers": servers})
    held = here(project).pending
    assert held[0].acceptable
    assert [each.acceptable for each in held] == sorted(each.acceptable for each in held)[::-1]
    assert held[-1].why == (
        "it cannot be accepted, for the entries have more words than can be looked at"
    )


def test_files_are_read_once_and_up_to_so_many_bytes_for_all_entries(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        write(project / f"a{number}.py", "x" * 100)
    (project / "link.py").symlink_to("a0.py")
    monkeypatch.setattr(files, "MAX_READ", 250)
    looks = Looks()
    for _ in range(5):
        assert len(named_files("x a0.py link.py a1.py", project, looks=looks)) == 2
    with pytest.raises(TooManyWordsError, match="too large altogether"):
        named_files("x a2.py", project, looks=looks)


def test_what_an_option_or_a_variable_calls_data_may_change_where_git_does_not_track_it(
    project: Path,
) -> None:
    tree(project, "state", "srv.py")
    assert named(project, "--state", "./state") == ["state"]
    entry = {"command": "x", "args": ["--state", "./state"]}
    assert named_files(entry, project).loose == {"state"}
    (project / ".git").mkdir()
    write(project / ".git" / "HEAD", "x")
    assert named(project, "--state", "./state", "srv.py") == ["srv.py"]
    assert named(project, "--state-file=state") == []
    assert named(project, "x", env={"STATE_FILE_PATH": "./state"}) == []
    assert named(project, "x", env={"stateFile": "state"}) == []
    for strict in (
        ["state"],
        ["--config", "state"],
        ["--data-plugin=state"],
        ["--state", "x", "state"],
        ["--state", "srv.py", "-c", ". ./state"],
        ["--state", "state", "state"],
    ):
        assert "state" in named(project, *strict)
    assert named(project, "x", env={"BASH_ENV": "state"}) == ["state"]
    assert named(project, "x", env={"PYTHON_STATE": "state"}) == ["state"]
    assert named(project, "x", env={"LOG_FILE": "srv.py"}) == ["srv.py"]
    (project / "state").chmod(0o755)
    assert named(project, "--state", "./state") == ["state"]


def test_what_a_server_would_run_without_its_url_is_watched(project: Path) -> None:
    tree(project, "srv.sh")
    entry = {"url": "https://e.example/", "command": "sh", "args": ["srv.sh"]}
    assert list(named_files(entry, project)) == ["srv.sh"]


def test_a_directory_that_a_variable_has_loaded_stands_for_its_module(project: Path) -> None:
    tree(project, "hooks/index.js", "data/index.js")
    env = {"NODE_OPTIONS": "--require ./hooks", "DATA_DIR": "./data"}
    assert named(project, "x", env=env) == ["hooks/index.js"]
