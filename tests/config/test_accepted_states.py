"""States of an entry that were accepted before: what a person has seen runs again unasked."""

import json
import os
from pathlib import Path

import pytest

from alhena.config.home import trusted_commands_path
from alhena.config.pinned_entries import (
    MAX_STATES,
    bound_entries,
    with_accepted,
    without_accepted,
)
from alhena.errors import DamagedError
from tests.config.binding import accept_pending, here, pending
from tests.config.places import workspace, write

KEY = "mcpServers.s"


@pytest.fixture(autouse=True)
def _trust_project(home: Path, project: Path) -> None:
    write(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})


def says(project: Path, *args: str, name: str = "s") -> None:
    workspace(project, {"mcpServers": {name: {"command": "node", "args": list(args)}}})


def test_between_two_branches_nobody_is_asked_again(project: Path) -> None:
    for branch in ("main", "work"):
        says(project, branch)
        write(project / "main", branch)
        accept_pending(project)
    for branch in ("main", "work", "main"):
        says(project, branch)
        write(project / "main", branch)
        assert pending(here(project)) == {}


def test_states_are_not_mixed(project: Path) -> None:
    for word in ("one", "two"):
        says(project, "run.js", word)
        write(project / "run.js", word)
        accept_pending(project)
    says(project, "run.js", "one")
    assert list(pending(here(project))) == [KEY]


def test_so_many_states_are_kept_and_the_oldest_goes(project: Path) -> None:
    for number in range(MAX_STATES + 1):
        says(project, str(number))
        accept_pending(project)
    says(project, "1")
    assert pending(here(project)) == {}
    says(project, "0")
    assert list(pending(here(project))) == [KEY]
    accept_pending(project)
    says(project, "1")
    assert list(pending(here(project))) == [KEY]


def test_the_difference_is_from_the_state_that_is_most_like_the_one_now(project: Path) -> None:
    env = {"A": "1", "B": "2"}
    states = [
        {"command": "node", "args": ["main"], "env": env},
        {"command": "deno", "args": ["work"]},
    ]
    for state in states:
        write(project / "main", str(state["command"]))
        workspace(project, {"mcpServers": {"s": state}})
        accept_pending(project)
    write(project / "main", "changed")
    workspace(project, {"mcpServers": {"s": states[0]}})
    (held,) = here(project).pending
    assert held.changed == ("the file main",)
    assert '"B": "2"' in str(held.before)
    workspace(project, {"mcpServers": {"s": {"command": "bun", "args": ["x"]}}})
    (held,) = here(project).pending
    assert '"deno"' in str(held.before)  # of like ones the last


def test_an_entry_that_is_not_on_every_branch_is_not_asked_about_again(project: Path) -> None:
    says(project, "main")
    accept_pending(project)
    says(project, "work", name="t")
    accept_pending(project)
    says(project, "main")
    assert pending(here(project)) == {}


def test_without_an_entry_all_of_its_states_are_gone(project: Path, tmp_path: Path) -> None:
    data = b""
    for word in ("one", "two"):
        servers = {"s": {"command": word}, "t": {"command": word}}
        for folder in (project, tmp_path):
            entries = bound_entries({"mcpServers": servers}, folder, {})
            data = with_accepted(Path("f"), data, folder, entries)
    one = str(tmp_path)
    left = json.loads(without_accepted(Path("f"), data, lambda at, key: (at, key) == (one, KEY)))
    assert {folder: list(entries) for folder, entries in left.items()} == {
        str(project): [KEY, "mcpServers.t"],
        one: ["mcpServers.t"],
    }
    assert json.loads(without_accepted(Path("f"), data, lambda at, _: at == one)) == {
        str(project): json.loads(data)[str(project)]
    }


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"/a": {"k": 1}}', "{" * 100_000, '{"/a": {"k": {"states": 1}}}'],
    ids=lambda text: text[:20],
)
def test_where_it_cannot_be_told_what_was_accepted_all_is_held_back_with_one_word_of_it(
    project: Path, text: str
) -> None:
    servers = {"s": {"command": "x"}, "t": {"command": "y"}}
    workspace(project, {"mcpServers": servers, "model": {"name": "m"}})
    file = write(trusted_commands_path(os.environ), text)
    place = here(project)
    assert place.settings.model.name == "m"
    assert list(pending(place)) == [KEY, "mcpServers.t"]
    (warning,) = place.warnings
    told = f"MCP server s; MCP server t; it cannot be told what was accepted: {file}: what was"
    assert told in warning
    assert warning.count(str(file)) == 1
    assert "alhena trust accepts it." in warning
    assert file.read_text(encoding="utf-8") == text
    accept_pending(project)
    assert file.with_name(f"{file.name}.damaged-1").read_text(encoding="utf-8") == text
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_is_no_file_of_the_kind_is_not_written_over() -> None:
    with pytest.raises(DamagedError, match="cannot be used"):
        with_accepted(Path("f"), b"{", Path("/"), ())
    with pytest.raises(DamagedError, match="cannot be used"):
        without_accepted(Path("f"), b"[]", lambda _folder, _key: True)
