"""Whoever takes trust back is asked about everything again; a damaged file is put aside."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.config.places import workspace, write
from tests.support.command import alhena

SERVERS = {"mcpServers": {"s": {"command": "one"}}}
KEY = "mcpServers.s"
COMMANDS = (".gemini", "trusted_commands.json")
FOLDERS = (".gemini", "trustedFolders.json")


def recorded(home: Path) -> dict[str, Any]:
    return json.loads(home.joinpath(*COMMANDS).read_text(encoding="utf-8"))


def pending(folder: Path) -> list[str]:
    return list(alhena("trust", "--status", str(folder), "--json").json["pending"])


def two_states(project: Path) -> None:
    for word in ("one", "two"):
        workspace(project, {"mcpServers": {"s": {"command": word}}})
        assert alhena("trust", str(project)).code == 0


@pytest.mark.parametrize("way", ["--never", "--forget"])
def test_a_folder_that_is_not_trusted_any_more_has_nothing_accepted(
    home: Path, project: Path, way: str
) -> None:
    other = project.with_name("other")
    for folder in (project, other):
        two_states(folder)
    assert alhena("trust", str(project), way).code == 0
    assert list(recorded(home)) == [str(other)]
    write(home.joinpath(*FOLDERS), {str(project): "TRUST_FOLDER"})
    workspace(project, {"mcpServers": {"s": {"command": "one"}}})
    assert pending(project) == [KEY]


def test_nor_have_those_in_it_and_others_keep_what_they_have(home: Path, project: Path) -> None:
    inner, beside = project / "inner", project.with_name(f"{project.name}2")
    for folder in (inner, beside):
        two_states(folder)
    write(home.joinpath(*FOLDERS), {str(project): "TRUST_FOLDER", str(beside): "TRUST_FOLDER"})
    assert pending(inner) == []
    alhena("trust", str(project), "--forget")
    assert list(recorded(home)) == [str(beside)]
    write(home.joinpath(*FOLDERS), {str(project): "TRUST_FOLDER"})
    assert pending(inner) == [KEY]


def test_a_folder_of_which_nothing_was_said_can_have_its_acceptance_forgotten(
    home: Path, project: Path
) -> None:
    inner = project / "inner"
    two_states(inner)
    write(home.joinpath(*FOLDERS), {str(project): "TRUST_FOLDER"})
    assert pending(inner) == []
    assert "forgotten" in alhena("trust", str(inner), "--forget").out
    assert pending(inner) == [KEY]
    assert "nothing was said" in alhena("trust", str(inner), "--forget").out


def test_a_server_that_is_removed_by_the_command_has_nothing_accepted(
    home: Path, project: Path
) -> None:
    workspace(project, {"mcpServers": {"s": {"command": "one"}, "t": {"command": "t"}}})
    alhena("trust")
    assert alhena("mcp", "remove", "s").code == 0
    assert list(recorded(home)[str(project)]) == ["mcpServers.t"]
    workspace(project, SERVERS)
    assert pending(project) == [KEY]


def test_what_was_accepted_is_begun_anew_where_its_file_is_damaged(
    home: Path, project: Path
) -> None:
    two_states(project)
    file = home.joinpath(*COMMANDS)
    file.write_text('{"/a": ', encoding="utf-8")
    status = alhena("trust", "--status")
    assert status.code == 0
    assert f"{file}: what was accepted of workspaces cannot be used" in status.out
    listed = alhena("mcp", "list")
    assert listed.code == 0
    assert "it cannot be told what was accepted" in listed.err
    done = alhena("trust")
    aside = file.with_name("trusted_commands.json.damaged-1")
    assert done.code == 0
    assert f"{file} could not be used, and is now {aside}" in done.out
    assert "These servers and commands are accepted as they are now:" in done.out
    assert aside.read_text(encoding="utf-8") == '{"/a": '
    assert pending(project) == []


@pytest.mark.parametrize("words", [("--never",), ("--forget",), ("--parent",), ()])
@pytest.mark.parametrize("text", ["{", "[]", '{"/a": 1}'])
def test_a_list_of_folders_that_is_none_is_put_aside(
    home: Path, project: Path, words: tuple[str, ...], text: str
) -> None:
    file = write(home.joinpath(*FOLDERS), text)
    for reading in (("trust", "--status"), ("trust", "--list"), ("tools", "list")):
        failed = alhena(*reading)
        assert failed.code == 52
        assert "alhena trust moves the file aside" in failed.err
    assert file.read_text(encoding="utf-8") == text
    aside = file.with_name("trustedFolders.json.damaged-1")
    done = alhena("trust", *words)
    assert done.code == 0
    assert f"{file} could not be used, and is now {aside}" in done.out
    assert aside.read_text(encoding="utf-8") == text
    assert alhena("trust", "--list").code == 0


def test_a_file_that_may_not_be_read_or_is_a_link_is_not_lost(home: Path, project: Path) -> None:
    workspace(project, SERVERS)
    real = write(home / "kept" / "commands.json", "{")
    file = home.joinpath(*COMMANDS)
    file.parent.mkdir(exist_ok=True)
    file.symlink_to(real)
    assert alhena("trust").code == 0
    assert file.is_symlink()
    assert list(json.loads(real.read_text(encoding="utf-8"))) == [str(project)]
    assert real.with_name("commands.json.damaged-1").read_text(encoding="utf-8") == "{"
    file.unlink()
    file.mkdir()
    assert "is now" in alhena("trust").out
    assert list(recorded(home)) == [str(project)]


def test_a_file_is_called_the_data_of_a_server(home: Path, project: Path) -> None:
    entry = {"command": "true", "args": ["my memory.json", "run.py"]}
    write(project / "my memory.json", "1")
    write(project / "run.py", "1")
    workspace(project, {"mcpServers": {"s": entry}})
    alhena("trust")
    write(project / "my memory.json", "2")
    shown = alhena("trust", "--status").out
    assert "changed: the file my memory.json" in shown
    assert "my memory.json is watched, for it may say what is run" in shown
    assert "alhena trust --data 'my memory.json'" in shown
    done = alhena("trust", "--data", "my memory.json")
    assert done.code == 0
    assert "MCP server s may change my memory.json: alhena will not ask about it." in done.out
    write(project / "my memory.json", "3")
    assert pending(project) == []
    failed = alhena("trust", "--data", "run.py")
    assert failed.code == 42
    assert "These can be: my memory.json." in failed.err
    assert alhena("trust", "--data", "x", "--never").code == 2
