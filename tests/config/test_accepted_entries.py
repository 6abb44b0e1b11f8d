"""Stored acceptances: no entry passes for another, and there is room for all."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from alhena.config.documents import MAX_BYTES
from alhena.config.home import trusted_commands_path
from alhena.config.pinned_entries import bound_entries, with_accepted
from alhena.errors import ConfigError
from tests.config.binding import accept_pending, here, pending
from tests.config.places import workspace, write

GOOD: dict[str, Any] = {
    "command": "node",
    "args": ["a.js"],
    "env": {"MODE": "good"},
    "headers": {"X": "good"},
    "oauth": {"tokenUrl": "good"},
}


@pytest.fixture(autouse=True)
def _trust_project(home: Path, project: Path) -> None:
    write(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})


def test_a_member_with_the_name_of_a_file_does_not_stand_for_it(project: Path) -> None:
    file = write(project / "a.js", "good")
    dotenv = write(project / ".env", "MODE=good\n")
    entry = {**GOOD, "env": {"MODE": "$MODE"}}
    workspace(project, {"mcpServers": {"s": entry}})
    accept_pending(project)
    (known,) = json.loads(trusted_commands_path(os.environ).read_bytes())[str(project)].values()
    file.write_text("evil", encoding="utf-8")
    dotenv.write_text("MODE=evil\n", encoding="utf-8")
    odd = dict.fromkeys(("the file a.js", "MODE of .env", *known["states"][0]["parts"]), "good")
    workspace(project, {"mcpServers": {"s": {**entry, **odd}}})
    (held,) = here(project).pending
    assert set(held.changed) == {"the entry", "the file a.js", "MODE of .env"}


def test_what_an_earlier_form_of_the_file_has_is_asked_about_once_more(project: Path) -> None:
    workspace(project, {"mcpServers": {"s": {"command": "node"}}})
    (entry,) = here(project).pending
    old = {str(project): {entry.key: {"parts": {"command": "0"}, "text": entry.text}}}
    write(trusted_commands_path(os.environ), old)
    assert pending(here(project)) == {"mcpServers.s": "it is not accepted yet"}
    accept_pending(project)


def of_size(members: int) -> dict[str, Any]:
    return {"url": "http://e.example/", "headers": {f"A{n}": "x" for n in range(members)}}


def test_folders_used_least_recently_make_room(tmp_path: Path) -> None:
    servers = {"mcpServers": {f"s{n}": of_size(2_000) for n in range(12)}}
    data = b""
    folders = [tmp_path / str(number) for number in range(6)]
    for folder in folders:
        data = with_accepted(Path("f"), data, folder, bound_entries(servers, folder, {}))
    kept = list(json.loads(data))
    assert kept == [str(folder) for folder in folders[-len(kept) :]]
    assert 1 < len(kept) < len(folders)
    assert len(data) <= MAX_BYTES


def test_what_could_not_be_read_again_is_not_written(project: Path) -> None:
    entries = bound_entries(
        {"mcpServers": {f"s{n}": of_size(2_000) for n in range(60)}}, project, {}
    )
    with pytest.raises(ConfigError, match="does not fit"):
        with_accepted(Path("f"), b"", project, entries)
