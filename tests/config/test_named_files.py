"""The files that a command of a workspace names, and what follows when one of them changes."""

from pathlib import Path
from typing import Any

import pytest

from alhena.config.pinned_entries import named_files
from tests.config.binding import here
from tests.config.places import workspace, write


@pytest.fixture
def files(project: Path) -> Path:
    for name in ("srv.py", "lib/tool.sh", "conf.json", "data.db", "sub/srv.js"):
        write(project / name, name)
    return project


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ({"command": "python", "args": ["srv.py", "--quiet"]}, {"srv.py"}),
        ({"command": "./lib/tool.sh"}, {"lib/tool.sh"}),
        ({"command": "python", "args": ["--app=srv.py", "--config", "conf.json"]}, None),
        ({"command": "sh", "args": ["-c", "cd lib && sh 'lib/tool.sh' | cat"]}, {"lib/tool.sh"}),
        ({"command": "node", "args": ["srv.js"], "cwd": "sub"}, {"sub/srv.js"}),
        ({"command": "srv", "args": ["data.db", "sub", "missing.py", "/etc/hostname"]}, set()),
        ({"httpUrl": "http://localhost/srv.py"}, set()),
        ("python srv.py 'unfinished", {"srv.py"}),
    ],
)
def test_each_word_that_is_a_file_of_the_folder_is_watched(
    files: Path, entry: Any, names: set[str] | None
) -> None:
    assert set(named_files(entry, files)[0]) == (
        {"srv.py", "conf.json"} if names is None else names
    )


def test_a_file_by_its_whole_path_counts_when_it_lies_in_the_folder(files: Path) -> None:
    args = [str(files / "srv.py"), "/etc/hostname"]
    assert set(named_files({"command": "python", "args": args}, files)[0]) == {"srv.py"}


def test_what_is_no_program_may_be_its_own_data(files: Path) -> None:
    (files / "run.json").write_text("#!/bin/sh\n", encoding="utf-8")
    entry = {"command": "python", "args": ["srv.py", "conf.json", "run.json"]}
    assert named_files(entry, files)[1] == {"conf.json"}


def test_a_link_into_the_folder_is_the_file_that_it_leads_to(files: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to(files / "srv.py")
    assert set(named_files({"command": str(link)}, files)[0]) == {"srv.py"}


@pytest.fixture
def trusted_folder(home: Path, files: Path) -> Path:
    write(home / ".gemini" / "trustedFolders.json", {str(files): "TRUST_FOLDER"})
    return files


def test_a_command_of_which_no_file_is_watched_says_so(trusted_folder: Path) -> None:
    files = trusted_folder
    workspace(files, {"mcpServers": {"s": {"command": "python", "args": ["-c", "import x"]}}})
    (entry,) = here(files).pending
    assert "no file of it is checked for changes" in entry.text
