"""The settings, texts and commands of all places, by what the model is sent."""

import json
from pathlib import Path

import pytest

from tests.config.places import system, user, workspace, write
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text

pytestmark = pytest.mark.requirement("CLI-03")


def sent(server: ScriptedServer, *arguments: str, **environ: str) -> dict[str, object]:
    """The first request of a run with these arguments."""
    server.reply(sse(text("fine")))
    before = len(server.requests)
    ran = alhena(*arguments, **keyed(server), **environ)
    assert ran.code == 0, ran.err
    return server.requests[before].json


def declared(request: dict[str, object]) -> set[str]:
    tools = json.loads(json.dumps(request["tools"]))
    return {each["name"] for each in tools[0]["functionDeclarations"]}


def test_settings_of_system_user_and_project_go_together_and_the_project_counts_when_trusted(
    home: Path, project: Path, tmp_path: Path, server: ScriptedServer
) -> None:
    of_system = system(
        tmp_path, {"tools": {"exclude": ["glob"]}, "model": {"name": "gemini-2.5-pro"}}
    )
    user(home, {"tools": {"exclude": ["read_file"]}, "model": {"name": "gemini-2.5-flash"}})
    of_project = {"tools": {"exclude": ["list_directory"]}, "model": {"name": "gemini-3-flash"}}
    workspace(project, of_project)
    write(project / "GEMINI.md", "words of the project")
    hidden = {"glob", "read_file", "list_directory"}

    request = sent(server, "-p", "hi", **of_system)
    assert hidden & declared(request) == set(), "what it restricts holds all the same"
    assert "words of the project" not in json.dumps(request)
    assert "gemini-2.5-pro" in server.requests[-1].path
    sent(server, "-p", "hi")
    assert "gemini-2.5-flash" in server.requests[-1].path, "only what it restricts"

    assert alhena("trust", ".").code == 0
    request = sent(server, "-p", "hi", **of_system)
    assert hidden & declared(request) == set()
    assert "words of the project" in json.dumps(request)
    sent(server, "-p", "hi")
    assert "gemini-3-flash" in server.requests[-1].path

    assert alhena("trust", "--never", ".").code == 0
    assert hidden & declared(sent(server, "-p", "hi", **of_system)) == set()


def test_the_name_of_context_files_is_a_setting(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    user(home, {"context": {"fileName": ["RULES.md", "MORE.md"]}})
    write(home / ".gemini" / "RULES.md", "rules of the user")
    for name in ("RULES.md", "MORE.md", "GEMINI.md"):
        write(project / name, f"words of {name}")
    request = json.dumps(sent(server, "--skip-trust", "-p", "hi"))
    for name in ("RULES.md", "MORE.md", "GEMINI.md"):
        assert f"words of {name}" in request
    assert "rules of the user" in request


def test_what_geminiignore_names_is_neither_read_nor_listed(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    write(project / ".geminiignore", "secret.txt\n")
    write(project / "secret.txt", "hidden words")
    write(project / "open.txt", "open words")
    calls = [call("read_file", {"file_path": name}) for name in ("secret.txt", "open.txt")]
    calls.append(call("list_directory", {"dir_path": "."}))
    server.reply(sse(chunk(*calls, finish="STOP")))
    sent(server, "-p", "hi")
    told = json.dumps(server.requests[-1].json["contents"][-1])
    assert "open words" in told
    assert "hidden words" not in told
    listed = json.loads(told)["parts"][2]["functionResponse"]["response"]["output"]
    assert "open.txt" in listed
    assert "secret.txt" not in listed


def test_custom_commands_and_extensions_of_the_home_are_used(
    home: Path, project: Path, tmp_path: Path, server: ScriptedServer
) -> None:
    write(home / ".gemini" / "commands" / "git" / "say.toml", 'prompt = "Say {{args}}."')
    write(tmp_path / "ext" / "gemini-extension.json", {"name": "ext", "version": "1.0.0"})
    write(tmp_path / "ext" / "GEMINI.md", "words of the extension")
    write(tmp_path / "ext" / "commands" / "more.toml", 'prompt = "More."')
    installed = alhena("extensions", "install", str(tmp_path / "ext"), "--consent")
    assert installed.code == 0, installed.err
    request = json.dumps(sent(server, "-p", "/git:say it"))
    assert "Say it." in request
    assert "words of the extension" in request
    assert '"More."' in json.dumps(sent(server, "-p", "/more"))
    assert "words of the extension" not in json.dumps(sent(server, "-e", "none", "-p", "hi"))
