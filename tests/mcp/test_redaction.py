"""Messages about servers contain none of their secrets."""

import sys
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.toolset.mcp_review import server_context
from alhena.config.mcp_servers import McpServer, harmless_of, server_of
from tests.config.places import user
from tests.mcp.kit import odd, rigged, tool
from tests.support.command import alhena

SECRET = "hunter2-sekret-value"


def named(path: tuple[str, ...], value: Any) -> Any:
    return value.replace("by-variable", "${KEY}") if path == ("mcpServers", "s") else value


@pytest.mark.parametrize(
    "server",
    [
        McpServer(command="x", args=("--token", SECRET)),
        McpServer(command="x", args=(f"--api-key={SECRET}",)),
        McpServer(command="x", env={"SERVICE_PASSWORD": SECRET}),
        McpServer(url="https://a/", headers={"Authorization": SECRET}),
    ],
)
def test_what_looks_secret_in_an_entry_is_taken_out_of_what_is_said(server: McpServer) -> None:
    harmless = harmless_of("s", server, named)
    assert harmless(f"no {SECRET}, by-variable") == "no [redacted], ${KEY}"
    assert harmless_of("other", server, None)("by-variable") == "by-variable"


def test_a_url_that_is_none_is_not_repeated() -> None:
    why = server_of("s", {"url": f"mcp.example.com/{SECRET}"})
    assert isinstance(why, str)
    assert SECRET not in why


async def test_notes_losses_and_hooks_have_none_of_it(project: Path) -> None:
    script = "import sys\nprint(*sys.argv[1:])\nprint('x' * 100, *sys.argv[1:])\nsys.exit(3)"
    entry = {"command": sys.executable, "args": ["-S", "-c", script, "--token", SECRET]}
    nowhere = {"command": "true", "cwd": f"/nowhere/{SECRET}", "env": {"MY_TOKEN": SECRET}}
    known = odd(project, {"tools": [tool("a")]})
    known["args"] += ["--token", SECRET]
    async with rigged({"s": entry, "n": nowhere, "odd": known}, project) as rig:
        await rig.until(lambda: bool(rig.server("n").notes) and bool(rig.server("s").notes))
        told = [*rig.warnings, *map(str, rig.servers.reports())]
        assert any("[redacted]" in each for each in told)
        assert not any(SECRET[:9] in each for each in told)
        found = rig.registry.find("a")
        assert found is not None
        context = server_context(found)
        assert context is not None
        assert SECRET not in str(context)


def test_the_list_names_the_variable_whose_value_is_in_what_went_wrong(
    home: Path, project: Path
) -> None:
    entry = {"command": "true", "cwd": "/nowhere/$SEARCH_API_KEY"}
    user(home, {"mcpServers": {"x": entry}})
    ran = alhena("mcp", "list", SEARCH_API_KEY=SECRET)
    assert "Working directory is not there: /nowhere/${SEARCH_API_KEY}" in ran.out
    assert SECRET not in ran.out + ran.err
