"""A workspace's servers and commands are bound to their accepted state."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alhena.config import pinned_entries as named_files
from alhena.config.effective_settings import Place, open_place
from alhena.config.mcp_servers import configured_servers
from alhena.config.pinned_entries import with_accepted
from alhena.errors import ConfigError
from tests.config.binding import accept_pending, here, pending
from tests.config.places import user, workspace, write

SERVER = {"command": "node", "args": ["server.js", "--fast"], "env": {"MODE": "a"}}


@pytest.fixture(autouse=True)
def _trust_project(home: Path, project: Path) -> None:
    write(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})


def started_servers(place: Place) -> list[str]:
    found = configured_servers(place.settings, place.environ, held=place.held_servers)
    return list(found.servers)


def test_what_nobody_has_accepted_is_held_back_and_the_rest_counts(project: Path) -> None:
    workspace(project, {"mcpServers": {"s": SERVER}, "tools": {"exclude": ["glob"]}})
    place = here(project)
    assert pending(place) == {"mcpServers.s": "it is not accepted yet"}
    assert place.settings.mcp_servers == {}
    assert place.settings.tools.exclude == ("glob",)
    assert "MCP server s (it is not accepted yet)" in place.warnings[-1]
    assert place.warnings[-1].endswith("shows what it is now; alhena trust accepts it.")
    configured = configured_servers(place.settings, place.environ, held=place.held_servers)
    assert configured.servers == {}
    assert configured.disabled["s"].startswith("it is not accepted yet; alhena trust")


def test_what_was_accepted_is_there_for_good(home: Path, project: Path) -> None:
    workspace(project, {"mcpServers": {"s": SERVER}})
    accept_pending(project)
    place = here(project)
    assert (started_servers(place), place.warnings) == (["s"], ())
    file = home / ".gemini" / "trusted_commands.json"
    assert file.stat().st_mode & 0o777 == 0o600


CHANGES: list[dict[str, Any]] = [
    {"command": "deno"},
    {"args": ["server.js"]},
    {"cwd": "elsewhere"},
    {"env": {"MODE": "b"}},
    {"env": {"MODE": "a", "TOKEN": "$GITHUB_TOKEN"}},
    {"env": {}},
    {"url": "https://e.example/"},
    {"httpUrl": "https://e.example/"},
    {"headers": {"X": "$SSH_AUTH_SOCK"}},
    {"oauth": {"tokenUrl": "https://e.example/"}},
    {"whatever": 1},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: str(each)[:30])
def test_a_change_is_held_back_and_says_what_is_another(
    project: Path, change: dict[str, Any]
) -> None:
    workspace(project, {"mcpServers": {"s": SERVER, "t": {"command": "x"}}})
    accept_pending(project)
    workspace(project, {"mcpServers": {"s": {**SERVER, **change}, "t": {"command": "x"}}})
    place = here(project)
    assert started_servers(place) == ["t"]
    assert pending(place) == {
        "mcpServers.s": "it has changed since it was accepted; changed: the entry",
    }
    workspace(project, {"mcpServers": {"s": SERVER}})
    assert started_servers(here(project)) == ["s"]


@pytest.mark.parametrize(
    "change",
    [{"description": "new"}, {"timeout": 5}, {"excludeTools": ["x"]}, {"includeTools": ["x"]}],
    ids=str,
)
def test_what_does_not_say_what_a_server_is_may_change(
    project: Path, change: dict[str, Any]
) -> None:
    workspace(project, {"mcpServers": {"s": SERVER}})
    accept_pending(project)
    workspace(project, {"mcpServers": {"s": {**SERVER, **change}}})
    assert started_servers(here(project)) == ["s"]


@pytest.mark.parametrize(
    ("args", "file"),
    [
        (["tools/server.py"], "tools/server.py"),
        (["--main=tools/server.py"], "tools/server.py"),
        (["-c", "cd tools; exec 'tools/server.py' --x"], "tools/server.py"),
        (["--main", "tools/server.py"], "tools/server.py"),
    ],
    ids=str,
)
def test_a_file_of_the_folder_that_a_command_names_is_part_of_it(
    project: Path, args: list[str], file: str
) -> None:
    write(project / file, "print(1)")
    workspace(project, {"mcpServers": {"s": {"command": "python", "args": args}}})
    accept_pending(project)
    (project / file).write_text("print(2)", encoding="utf-8")
    assert pending(here(project)) == {
        "mcpServers.s": f"it has changed since it was accepted; changed: the file {file}"
    }
    (project / file).unlink()
    assert "mcpServers.s" in pending(here(project))


def test_a_file_beside_the_directory_of_a_server_is_part_of_it(project: Path) -> None:
    write(project / "sub" / "run.sh", "1")
    entry = {"command": "./run.sh", "cwd": "sub"}
    workspace(project, {"mcpServers": {"s": entry}})
    accept_pending(project)
    write(project / "sub" / "run.sh", "2")
    assert pending(here(project))["mcpServers.s"].endswith("changed: the file sub/run.sh")


def test_a_file_beside_the_folder_is_part_of_it_where_it_is_named_from_there(
    project: Path,
) -> None:
    folder = project / "app"
    write(project / "server.py", "1")
    workspace(folder, {"mcpServers": {"s": {"command": "python", "args": ["../server.py"]}}})
    accept_pending(folder)
    write(project / "server.py", "2")
    assert pending(here(folder))["mcpServers.s"].endswith("changed: the file ../server.py")


def test_a_file_too_large_to_be_read_is_known_by_its_size(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_files, "MAX_FILE", 10)
    file = write(project / "big", "x" * 20)
    workspace(project, {"mcpServers": {"s": {"command": "./big"}}})
    accept_pending(project)
    with file.open("a", encoding="utf-8") as more:
        more.write("y")
    assert pending(here(project))["mcpServers.s"].endswith("changed: the file big")


def test_a_fifo_or_a_directory_of_that_name_is_no_file(project: Path) -> None:
    os.mkfifo(project / "pipe")
    (project / "server.py").mkdir()
    args = ["pipe", "server.py", "/dev/zero", "a\0b", "x" * 5_000]
    workspace(project, {"mcpServers": {"s": {"command": "python", "args": args}}})
    (bound,) = here(project).pending
    assert bound.files == ()


def test_files_elsewhere_are_the_users_own(project: Path, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside.py", "1")
    workspace(project, {"mcpServers": {"s": {"command": "python", "args": [str(outside)]}}})
    accept_pending(project)
    write(outside, "2")
    assert started_servers(here(project)) == ["s"]


COMMANDS: list[tuple[str, Callable[[str], Any]]] = [
    ("mcp.serverCommand", lambda text: {"mcp": {"serverCommand": text}}),
    ("tools.discoveryCommand", lambda text: {"tools": {"discoveryCommand": text}}),
    ("tools.callCommand", lambda text: {"tools": {"callCommand": text}}),
    ("tools.callCommand", lambda text: {"toolCallCommand": text}),
]


@pytest.mark.parametrize(("key", "settings"), COMMANDS, ids=lambda each: str(each)[:22])
def test_commands_of_a_workspace_are_bound_likewise(
    project: Path, key: str, settings: Callable[[str], Any]
) -> None:
    workspace(project, settings("bin/list"))
    assert pending(here(project)) == {key: "it is not accepted yet"}
    accept_pending(project)
    workspace(project, settings("bin/list | sh"))
    place = here(project)
    assert pending(place) == {key: "it has changed since it was accepted; changed: the entry"}
    tools, mcp = place.settings.tools, place.settings.mcp
    assert (tools.discovery_command, tools.call_command, mcp.server_command) == (None, None, None)
    write(project / "bin" / "list", "x")
    workspace(project, settings("bin/list"))
    assert pending(here(project))[key].endswith("changed: the file bin/list")


def test_what_the_env_file_of_the_project_puts_in_is_part_of_it(project: Path) -> None:
    entry = {
        "command": "$TOOL",
        "env": {"API_TOKEN": "$SERVICE_TOKEN", "PLACE": "$HIDDEN_TOKEN"},
    }
    workspace(project, {"mcpServers": {"s": entry}})
    dotenv = "TOOL={}\nSERVICE_TOKEN={}\nHIDDEN_TOKEN={}\n"
    write(project / ".env", dotenv.format("good", "one", "place"))
    (bound,) = here(project).pending
    assert "with TOOL of .env = good" in bound.text
    assert "place" not in bound.text
    assert bound.given == ()
    accept_pending(project)
    write(project / ".env", dotenv.format("good", "two", "place"))  # a secret that is renewed
    assert started_servers(here(project)) == ["s"]
    write(project / ".env", dotenv.format("evil", "one", "place"))
    assert pending(here(project))["mcpServers.s"].endswith("changed: TOOL of .env")
    write(project / ".env", dotenv.format("good", "one", "other"))
    assert pending(here(project))["mcpServers.s"].endswith("changed: HIDDEN_TOKEN of .env")


def test_what_the_users_own_variables_hold_may_change(project: Path) -> None:
    workspace(project, {"mcpServers": {"s": {"command": "x", "env": {"T": "$MY_TOKEN"}}}})
    (bound,) = here(project, MY_TOKEN="one").pending
    assert bound.given == ("MY_TOKEN",)
    accept_pending(project, MY_TOKEN="one")
    assert started_servers(here(project, MY_TOKEN="two")) == ["s"]


def test_trust_that_is_said_for_a_run_is_of_what_is_there(project: Path) -> None:
    workspace(project, {"mcpServers": {"s": SERVER}})
    assert started_servers(open_place(project, os.environ, skip_trust=True)) == ["s"]
    assert started_servers(here(project, GEMINI_CLI_TRUST_WORKSPACE="true")) == ["s"]


def test_a_folder_in_one_that_is_trusted_is_bound_by_itself(home: Path, project: Path) -> None:
    workspace(project, {"mcpServers": {"s": SERVER}})
    accept_pending(project)
    inner = project / "clone"
    workspace(inner, {"mcpServers": {"s": SERVER}})
    assert pending(here(inner)) == {"mcpServers.s": "it is not accepted yet"}


def test_servers_of_the_user_are_not_asked_about(home: Path, project: Path) -> None:
    user(home, {"mcpServers": {"mine": SERVER}})
    workspace(project, {"mcpServers": {"mine": {"command": "evil"}}})
    place = here(project)
    assert (started_servers(place), place.pending) == (["mine"], ())


def test_many_that_are_held_back_make_one_warning(project: Path) -> None:
    workspace(project, {"mcpServers": {f"s{n}": SERVER for n in range(300)}})
    (warning,) = here(project).warnings
    assert "; and 295 more" in warning
    assert len(warning) < 600


def test_the_file_does_not_grow_without_end(project: Path) -> None:
    workspace(project, {"mcpServers": {"s": {"command": "x" * 900_000}}})
    data = b""
    place = here(project)
    for number in range(80):
        folder = project / str(number)
        data = with_accepted(Path("f"), data, folder, place.pending)
    assert len(data) <= 1024 * 1024
    assert f"{project}/79" in list(json.loads(data))
    assert f"{project}/0" not in list(json.loads(data))


@pytest.mark.parametrize("entry", [None, 3, [], "x", {"args": "x", "cwd": 5, "env": [1]}], ids=str)
def test_an_entry_of_any_shape_can_be_bound(project: Path, entry: Any) -> None:
    try:
        workspace(project, {"mcpServers": {"s": entry}})
        accept_pending(project)
    except ConfigError:
        assert not isinstance(entry, dict)
