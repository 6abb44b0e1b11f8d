"""Files that a program writes itself: a person can call them its data, and is not asked again."""

import json
import os
from pathlib import Path

import pytest

from alhena.config.home import trusted_commands_path
from alhena.config.pinned_entries import BoundEntry, named_files
from alhena.frontends.shared.folder_trust import call_data
from tests.config.binding import accept_pending, here, pending
from tests.config.places import workspace, write

MEMORY = {"command": "node", "args": ["server.js", "--memory", "memory.json"]}


@pytest.fixture(autouse=True)
def _accept_servers(home: Path, project: Path) -> None:
    write(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})
    write(project / "server.js", "1")
    write(project / "memory.json", "{}")
    workspace(project, {"mcpServers": {"s": MEMORY}})
    accept_pending(project)


def entries_of_call(project: Path, path: str = "memory.json") -> tuple[BoundEntry, ...]:
    return call_data(here(project), path)


def test_of_a_text_that_has_changed_it_is_known_that_it_may_be_data(project: Path) -> None:
    write(project / "memory.json", "{1}")
    (held,) = here(project).pending
    assert (held.changed, held.doubtful) == (("the file memory.json",), ("memory.json",))
    (warning,) = here(project).warnings
    assert warning.endswith(
        "If the server writes memory.json itself: alhena trust --data memory.json."
    )
    write(project / "memory.json", "{}")
    write(project / "server.js", "2")
    assert "--data" not in here(project).warnings[0]


def test_what_is_called_data_may_change_go_and_come_and_the_rest_may_not(project: Path) -> None:
    assert [each.key for each in entries_of_call(project)] == ["mcpServers.s"]
    write(project / "memory.json", "{2}")
    assert pending(here(project)) == {}
    (project / "memory.json").unlink()
    assert pending(here(project)) == {}
    write(project / "memory.json", "{3}")
    write(project / "server.js", "2")
    (held,) = here(project).pending
    assert (held.changed, held.doubtful) == (("the file server.js",), ())


def test_it_stays_data_of_a_program_that_is_accepted_anew_under_the_same_entry(
    project: Path,
) -> None:
    entries_of_call(project)
    write(project / "server.js", "2")
    accept_pending(project)
    write(project / "memory.json", "{2}")
    assert pending(here(project)) == {}


def test_an_entry_that_is_another_has_to_be_told_again(project: Path) -> None:
    entries_of_call(project)
    workspace(project, {"mcpServers": {"s": {**MEMORY, "args": [*MEMORY["args"], "--run"]}}})
    accept_pending(project)
    write(project / "memory.json", "{2}")
    assert pending(here(project))["mcpServers.s"].endswith("changed: the file memory.json")


def test_what_has_become_a_program_is_no_data_any_more(project: Path) -> None:
    entries_of_call(project)
    (project / "memory.json").write_text("#!/bin/sh\n", encoding="utf-8")
    assert pending(here(project))["mcpServers.s"].endswith("changed: the file memory.json")
    (project / "memory.json").write_text("{2}", encoding="utf-8")
    assert pending(here(project)) == {}
    (project / "memory.json").chmod(0o755)
    assert list(pending(here(project))) == ["mcpServers.s"]
    (project / "memory.json").unlink()
    write(project / "other.js", "1")
    (project / "memory.json").symlink_to("other.js")
    assert pending(here(project))["mcpServers.s"].endswith("changed: the file memory.json")


def test_code_cannot_be_called_data(project: Path) -> None:
    assert entries_of_call(project, "server.js") == ()
    assert entries_of_call(project, "nothing.json") == ()
    known = json.loads(trusted_commands_path(os.environ).read_bytes())
    assert "data" not in known[str(project)]["mcpServers.s"]["states"][0]


def test_a_name_of_the_command_itself_is_never_data(project: Path) -> None:
    write(project / "run.txt", "x")
    assert named_files({"command": "x", "args": ["run.txt"]}, project)[1] == {"run.txt"}
    assert named_files({"command": "./run.txt", "args": ["run.txt"]}, project)[1] == set()


def test_by_calling_a_file_data_nothing_is_accepted(project: Path) -> None:
    write(project / "server.js", "2")
    write(project / "memory.json", "{2}")
    entries_of_call(project)
    assert pending(here(project))["mcpServers.s"].endswith("changed: the file server.js")
    workspace(project, {"mcpServers": {"s": {**MEMORY, "cwd": "."}, "t": MEMORY}})
    entries_of_call(project)
    assert list(pending(here(project))) == ["mcpServers.s", "mcpServers.t"]
