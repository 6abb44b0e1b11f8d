"""Stored acceptances: no entry passes for another, and there is room for all."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from alhena.config.accepted_entries import with_accepted
from alhena.config.documents import MAX_BYTES
from alhena.config.home import trusted_commands_path
from alhena.config.pinned_entries import bound_entries
from alhena.errors import ConfigError
from tests.config.binding import accepted, here, pending
from tests.config.places import workspace, write

GOOD: dict[str, Any] = {
    "command": "node",
    "args": ["a.js"],
    "env": {"MODE": "good"},
    "headers": {"X": "good"},
    "oauth": {"tokenUrl": "good"},
}


@pytest.fixture(autouse=True)
def _trusted(home: Path, project: Path) -> None:
    write(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})


@pytest.mark.parametrize(
    ("table", "name"), [("env", "MODE"), ("headers", "X"), ("oauth", "tokenUrl")]
)
def test_a_member_with_the_name_of_another_does_not_stand_for_it(
    project: Path, table: str, name: str
) -> None:
    workspace(project, {"mcpServers": {"s": GOOD}})
    accepted(project)
    evil = {**GOOD, table: {name: "evil"}}
    for odd in (f"{table}.{name}", f'["member","{table}","{name}"]', f'{table}","{name}'):
        workspace(project, {"mcpServers": {"s": {**evil, odd: "good"}}})
        (held,) = here(project).pending
        assert f"{table}.{name}" in held.changed
    workspace(project, {"mcpServers": {"s": {**GOOD, f"{table}.{name}": "good"}}})
    why = pending(here(project))["mcpServers.s"]
    assert why == f'it has changed since it was accepted; changed: "{table}.{name}"'


def test_a_member_with_the_name_of_a_file_does_not_stand_for_it(project: Path) -> None:
    file = write(project / "a.js", "good")
    dotenv = write(project / ".env", "MODE=good\n")
    entry = {**GOOD, "env": {"MODE": "$MODE"}}
    workspace(project, {"mcpServers": {"s": entry}})
    accepted(project)
    (known,) = json.loads(trusted_commands_path(os.environ).read_bytes())[str(project)].values()
    file.write_text("evil", encoding="utf-8")
    dotenv.write_text("MODE=evil\n", encoding="utf-8")
    odd = dict.fromkeys(("the file a.js", "MODE of .env", *known["parts"]), "good")
    workspace(project, {"mcpServers": {"s": {**entry, **odd}}})
    (held,) = here(project).pending
    assert {"the file a.js", "MODE of .env"} < set(held.changed)


def test_an_entry_counts_as_a_whole_too(project: Path) -> None:
    workspace(project, {"mcpServers": {"s": {"command": "node"}}})
    accepted(project)
    workspace(project, {"mcpServers": {"s": {"command": "node", "env": {}}}})
    assert pending(here(project)) == {
        "mcpServers.s": "it has changed since it was accepted; changed: how it is written"
    }


def test_what_an_earlier_form_of_the_file_has_is_asked_about_once_more(project: Path) -> None:
    workspace(project, {"mcpServers": {"s": {"command": "node"}}})
    (entry,) = here(project).pending
    old = {str(project): {entry.key: {"parts": {"command": "0"}, "text": entry.text}}}
    write(trusted_commands_path(os.environ), old)
    assert pending(here(project)) == {"mcpServers.s": "it is not accepted yet"}
    accepted(project)


def of_size(members: int) -> dict[str, Any]:
    return {"url": "http://e.example/", "headers": {f"A{n}": "x" for n in range(members)}}


def test_folders_used_least_recently_make_room(tmp_path: Path) -> None:
    servers = {"mcpServers": {f"s{n}": of_size(800) for n in range(3)}}
    data = b""
    folders = [tmp_path / str(number) for number in range(5)]
    for folder in folders:
        data = with_accepted(Path("f"), data, folder, bound_entries(servers, folder, {}))
    kept = list(json.loads(data))
    assert kept == [str(folder) for folder in folders[-len(kept) :]]
    assert 1 < len(kept) < len(folders)
    assert len(data) <= MAX_BYTES


def test_what_could_not_be_read_again_is_not_written(project: Path) -> None:
    entries = bound_entries({"mcpServers": {"s": of_size(14_000)}}, project, {})
    with pytest.raises(ConfigError, match="does not fit"):
        with_accepted(Path("f"), b"", project, entries)
