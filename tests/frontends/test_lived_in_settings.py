"""The settings.json of somebody who comes from Gemini CLI, through the real command, unchanged."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.kit import SERVED, tool
from tests.support.command import alhena
from tests.support.server import ScriptedServer, call, chunk, sse, text

SETTINGS = Path(__file__).parent / "data" / "lived_in_settings.json"
LIST = 'print(\'[{"name": "greet", "description": "Greets.", "parameters": {"type": "object"}}]\')'
CALL = 'import sys; print("hello,", sys.argv[1], sys.stdin.read())'


@pytest.fixture
def place(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The settings in their place, the variables in them, and where what they name stands."""
    (home / ".gemini").mkdir()
    text = SETTINGS.read_text(encoding="utf-8")
    (home / ".gemini" / "settings.json").write_text(text, encoding="utf-8")
    place = tmp_path / "lived-in"
    place.mkdir()
    (place / "list_tools.py").write_text(LIST, encoding="utf-8")
    (place / "call_tool.py").write_text(CALL, encoding="utf-8")
    script = {"tools": [tool("look", where={"type": "string"}), tool("remove")]}
    (place / "files.script.json").write_text(json.dumps(script), encoding="utf-8")
    variables = {
        "LIVED_IN": str(place),
        "LIVED_IN_PYTHON": sys.executable,
        "LIVED_IN_SERVED": str(SERVED),
        "TICKETS_TOKEN": "tok-of-the-tickets",
        "GEMINI_API_KEY": "x",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return place


def declared(request: Any) -> set[str]:
    return {each["name"] for group in request["tools"] for each in group["functionDeclarations"]}


def test_a_run_has_its_servers_hooks_tools_and_telemetry(
    server: ScriptedServer, place: Path, project: Path
) -> None:
    calls = (call("look", {"where": "here"}, id="c1"), call("discovered_tool_greet", {}, id="c2"))
    server.reply(sse(chunk(*calls, finish="STOP")), sse(text("all done")))
    rule = project / "rule.toml"
    rule.write_text(
        '[[rule]]\ntoolName = "discovered_tool_greet"\ndecision = "allow"\npriority = 100\n',
        encoding="utf-8",
    )
    ran = alhena(
        *("-p", "look", "--skip-trust", "--policy", str(rule)),
        GOOGLE_GEMINI_BASE_URL=server.url,
    )
    assert (ran.code, ran.out) == (0, "all done\n"), ran.err
    first, second = (request.json for request in server.requests)
    assert server.requests[0].path.startswith("/v1beta/models/gemini-2.5-flash:")
    assert {"look", "read_file", "discovered_tool_greet"} <= declared(first)
    assert not {"remove", "google_web_search", "web_fetch", "files__remove"} & declared(first)
    results = [part["functionResponse"] for part in second["contents"][-1]["parts"]]
    assert [each["id"] for each in results] == ["c1", "c2"]
    assert results[0]["response"] == {"output": '{"where": "here"}'}
    assert "hello, greet" in results[1]["response"]["output"]

    assert (project / "started").exists()
    assert not (project / "never").exists()
    heard = (project / "hooks.log").read_text(encoding="utf-8")
    assert '"tool_name":"look"' in heard.replace(" ", "")
    assert "discovered_tool_greet" in heard
    recorded = (place / "telemetry.log").read_text(encoding="utf-8")
    assert recorded.count('"gemini_cli.tool_call"') == 2
    assert "tok-of-the-tickets" not in recorded + heard + ran.err

    about_servers = [line for line in ran.err.splitlines() if "MCP server" in line]
    assert len(about_servers) == 1, ran.err
    assert "'tickets'" in about_servers[0]
    assert "unknown settings" not in ran.err


@pytest.mark.usefixtures("place")
def test_the_demo_model_works_as_well() -> None:
    ran = alhena("-p", "hi", "-m", "demo")
    assert ran.code == 0, ran.err
    assert ran.out.strip()


@pytest.mark.usefixtures("place")
def test_the_settings_can_be_used_as_they_are(home: Path) -> None:
    checked = alhena("settings", "check", "--json")
    assert checked.json["warnings"] == []
    shown = alhena("settings", "show", "--origin")
    assert shown.code == 0
    file = home / ".gemini" / "settings.json"
    lines = shown.out.splitlines()
    assert len(lines) > 50
    assert all(f"# user ({file}:" in line for line in lines)
    assert any(line.startswith('model.name = "gemini-2.5-flash"') for line in lines)
    assert "tok-of-the-tickets" not in shown.out


@pytest.mark.usefixtures("place")
def test_its_servers_are_listed_as_they_are() -> None:
    ran = alhena("mcp", "list", "--json")
    assert ran.code == 0, ran.err
    found = {each["name"]: each for each in ran.json}
    assert list(found) == ["files", "tickets", "retired"]
    assert [each["state"] for each in found.values()] == ["connected", "disconnected", "disabled"]
    assert "tok-of-the-tickets" not in ran.out + ran.err
    listed = alhena("mcp", "list")
    assert len([each for each in listed.out.splitlines() if each[0] != " "]) == 3
