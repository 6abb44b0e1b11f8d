"""The environment and the input of hooks, as hooks written for the reference expect them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.config.places import write
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text


def heard(
    server: ScriptedServer, home: Path, event: str, *called: Any, source: str = "user"
) -> tuple[dict[str, Any], dict[str, str]]:
    """The last input and environment of a hook while a call runs."""
    command = f"cat > {home}/input; env -0 > {home}/env"
    hooks = {"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}}
    if source == "user":
        write(home / ".gemini" / "settings.json", hooks)
    else:
        folder = home / ".gemini" / "extensions" / "x"
        write(folder / "gemini-extension.json", {"name": "x", "version": "1.0.0"})
        write(folder / "hooks" / "hooks.json", hooks)
    server.reply(sse(chunk(call(*called), finish="STOP")))
    server.reply(sse(text("done")))
    ran = alhena("-y", "--skip-trust", "-p", "go", MY_TOKEN="my-secret", **keyed(server))
    assert ran.code == 0, ran.err
    pairs = (home / "env").read_text().rstrip("\0").split("\0")
    environ = {each.partition("=")[0]: each.partition("=")[2] for each in pairs}
    return json.loads((home / "input").read_text()), environ


@pytest.mark.parametrize("source", ["user", "extension"])
def test_only_hooks_of_the_user_get_the_whole_environment_and_none_gets_ci(
    home: Path, project: Path, server: ScriptedServer, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    called = ("write_file", {"file_path": str(project / "a"), "content": "x"})
    _, environ = heard(server, home, "BeforeTool", *called, source=source)
    assert environ.get("MY_TOKEN") == ("my-secret" if source == "user" else None)
    assert "CI" not in environ
    assert "GEMINI_API_KEY" not in environ


@pytest.mark.parametrize("new", [True, False])
def test_an_edit_is_described_as_the_reference_does(
    home: Path, project: Path, server: ScriptedServer, new: bool
) -> None:
    path = project / "a.txt"
    if not new:
        path.write_text("old\n")
    called = ("write_file", {"file_path": str(path), "content": "new\n"})
    told, _ = heard(server, home, "AfterTool", *called)
    assert told["tool_input"] == {"file_path": str(path), "content": "new\n"}
    assert told["tool_response"]["returnDisplay"]["isNewFile"] is new


def test_a_path_is_told_by_the_name_that_the_model_gave(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    path = str(project / "a.txt")
    called = ("write_file", {"absolute_path": path, "content": "new\n"})
    told, _ = heard(server, home, "BeforeTool", *called)
    assert told["tool_input"]["absolute_path"] == told["tool_input"]["file_path"] == path


def test_a_file_that_is_read_has_no_name_that_nobody_gave(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    path = project / "a.txt"
    path.write_text("old\n")
    called = ("read_file", {"file_path": str(path)})
    told, _ = heard(server, home, "BeforeTool", *called)
    assert told["tool_input"] == {"file_path": str(path)}


def test_the_output_of_a_command_is_a_text(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    told, _ = heard(server, home, "AfterTool", "run_shell_command", {"command": "echo hello"})
    assert told["tool_response"]["returnDisplay"].strip() == "hello"
