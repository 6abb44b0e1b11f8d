"""Without servers nothing of MCP is imported, whatever is done."""

import json
from pathlib import Path

import pytest

from tests.frontends.terminal.session import ENTER, PLACEHOLDER, leave
from tests.mcp.kit import odd, tool
from tests.support.command import alhena_process
from tests.support.terminal import Terminal

PROBE = """
import atexit, os, sys
def tell():
    with open(os.environ["MODULES"], "a", encoding="utf-8") as file:
        file.write("\\n".join(sys.modules) + "\\n")
atexit.register(tell)
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory in which each exiting Python process lists its loaded modules."""
    (tmp_path / "probe").mkdir()
    (tmp_path / "probe" / "sitecustomize.py").write_text(PROBE, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "probe"))
    monkeypatch.setenv("MODULES", str(tmp_path / "modules"))
    return tmp_path / "modules"


def of_mcp(modules: Path) -> set[str]:
    """Loaded modules that belong to MCP, ours and others'."""
    loaded = set(modules.read_text(encoding="utf-8").splitlines())
    assert "alhena.frontends" in loaded
    others = {"mcp", "mcp_types", "anyio", "httpx2", "pydantic"}
    return {
        name
        for name in loaded
        if name.partition(".")[0] in others
        or name.startswith(("alhena.mcp", "alhena.agent.toolset.mcp", "alhena.agent.mcp_"))
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("-p", "list this folder", "-m", "demo"),
        ("-p", "hi", "-m", "demo", "-o", "stream-json"),
        ("tools", "list", "--json"),
        ("tools", "call", "list_directory", '{"path": "."}', "--json"),
        ("settings", "show"),
        ("policy", "explain", "--tool", "read_file", "--args", "{}"),
    ],
)
def test_a_command(modules: Path, arguments: tuple[str, ...]) -> None:
    ran = alhena_process(*arguments)
    assert ran.code == 0, ran.err
    assert of_mcp(modules) == set()


def test_a_sitting_at_the_terminal(modules: Path) -> None:
    with Terminal("-m", "demo") as terminal:
        talk(terminal)
    assert of_mcp(modules) == set()


def talk(terminal: Terminal) -> None:
    terminal.until(PLACEHOLDER)
    terminal.send("hi" + ENTER)
    terminal.until("No rule covers")
    leave(terminal)


def test_servers_that_are_not_wanted_cost_nothing_but_a_look_at_the_settings(
    home: Path, project: Path, modules: Path
) -> None:
    heard = project / "heard"
    entry = odd(project, {"tools": [tool("a")], "heard": str(heard)})
    document = {"mcpServers": {"s": entry}, "mcp": {"excluded": ["s"]}}
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(document), encoding="utf-8")
    ran = alhena_process("-p", "hi", "-m", "demo")
    assert (ran.code, ran.err) == (0, "")
    assert not heard.exists()
    foreign = {name for name in of_mcp(modules) if not name.startswith("alhena.")}
    assert foreign == set()


def test_the_probe_sees_what_a_server_costs(home: Path, project: Path, modules: Path) -> None:
    (home / ".gemini").mkdir()
    document = {"mcpServers": {"s": odd(project, {"tools": [tool("a")]})}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(document), encoding="utf-8")
    ran = alhena_process("-p", "hi", "-m", "demo")
    assert ran.code == 0, ran.err
    assert {"mcp", "alhena.mcp.sdk", "pydantic"} <= of_mcp(modules)
