"""`alhena mcp import`: servers of other tools."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.memory.kit import put
from tests.support.command import alhena

FILES = {
    ".mcp.json": ("project", {"mcpServers": {"one": {"command": "npx", "args": ["-y", "$A"]}}}),
    ".agents/mcp_config.json": (
        "project",
        {"mcpServers": {"two": {"serverUrl": "https://two.example/mcp", "headers": {"X": "1"}}}},
    ),
    ".vscode/mcp.json": (
        "project",
        {"servers": {"three": {"type": "http", "url": "https://three.example", "gallery": True}}},
    ),
    "~/.gemini/config/mcp_config.json": (
        "user",
        {"mcpServers": {"four": {"httpUrl": "https://four.example/mcp"}}},
    ),
    "~/.claude.json": (
        "user",
        {"mcpServers": {"six": {"type": "stdio", "command": "six", "env": {"API_KEY": "k-12345"}}}},
    ),
}
CODEX = """
[mcp_servers.five]
command = "uvx"
args = ["five"]
env = { MODE = "fast" }
env_vars = ["TOKEN_OF_FIVE"]

[mcp_servers.far]
url = "https://far.example/mcp"
bearer_token_env_var = "FAR_TOKEN"
http_headers = { Team = "core" }
tool_timeout_sec = 1.5
enabled_tools = ["a"]
"""
PROJECT = {
    "one": {"command": "npx", "args": ["-y", "$A"]},
    "two": {"url": "https://two.example/mcp", "headers": {"X": "1"}},
    "three": {"type": "http", "url": "https://three.example"},
}
USER = {
    "four": {"httpUrl": "https://four.example/mcp"},
    "five": {
        "command": "uvx",
        "args": ["five"],
        "env": {"TOKEN_OF_FIVE": "${TOKEN_OF_FIVE}", "MODE": "fast"},
    },
    "far": {
        "url": "https://far.example/mcp",
        "headers": {"Team": "core", "Authorization": "Bearer ${FAR_TOKEN}"},
        "timeout": 1500,
        "includeTools": ["a"],
    },
    "six": {"type": "stdio", "command": "six", "env": {"API_KEY": "k-12345"}},
}


@pytest.fixture
def six(home: Path, project: Path) -> None:
    for name, (_, content) in FILES.items():
        base = home if name.startswith("~/") else project
        put(base, name.removeprefix("~/"), json.dumps(content))
    put(home, ".codex/config.toml", CODEX)


def servers(folder: Path) -> Any:
    file = folder / ".gemini" / "settings.json"
    return json.loads(file.read_text()).get("mcpServers", {}) if file.exists() else {}


@pytest.mark.requirement("TODAY-07")
def test_all_servers_of_the_six_places_are_added_as_they_are(six: None, home: Path, project: Path):
    done = alhena("mcp", "import", "--all")
    assert (done.code, done.err) == (0, "")
    assert servers(project) == PROJECT
    assert servers(home) == USER
    assert "left out: gallery" in done.out
    again = alhena("mcp", "import", "--all")
    assert again.code == 0
    assert again.out.count("already") == len(PROJECT) + len(USER)


@pytest.mark.requirement("TODAY-07")
@pytest.mark.parametrize("words", [[], ["--dry-run"], ["--all", "--dry-run"], ["six", "--dry-run"]])
def test_servers_are_printed_with_all_they_get_and_none_is_added(
    six: None, home: Path, project: Path, words: list[str]
):
    done = alhena("mcp", "import", *words)
    assert (done.code, done.err) == (0, "")
    assert servers(project) == servers(home) == {}
    for line in (
        "one from .mcp.json, for the project settings",
        "command npx -y $A",
        "six from ~/.claude.json, for the user settings",
        "env API_KEY=[redacted]",
        "env MODE=fast",
        "header Authorization=Bearer ${FAR_TOKEN}",
        "url https://three.example (http)",
    ):
        assert f"{line}\n" in done.out
    assert "k-12345" not in done.out


@pytest.mark.requirement("TODAY-07")
@pytest.mark.parametrize("scope", ["user", "project"])
def test_the_scope_says_where_named_servers_go(six: None, home: Path, project: Path, scope: str):
    assert alhena("mcp", "import", "one", "six", "--scope", scope).code == 0
    there, elsewhere = (home, project) if scope == "user" else (project, home)
    assert set(servers(there)) == {"one", "six"}
    assert servers(elsewhere) == {}


def test_a_file_with_comments_is_read_alone(six: None, home: Path, project: Path):
    put(
        project,
        "x/list.json",
        """{ // of an editor
        "servers": {"ed it": {
            "command": "run", "env": {"A": "${env:B}", "C": "${input:key}"}, "envFile": ".env",
            "trust": true,
        },},}""",
    )
    done = alhena("mcp", "import", "x/list.json", "--all")
    assert (done.code, done.err) == (0, "")
    entry = {"command": "run", "env": {"A": "${B}", "C": "${input:key}"}}
    assert servers(project) == {"ed-it": entry}
    assert servers(home) == {}
    for words in ("left out: envFile, trust", "'ed it'", "only an editor fills in ${input:key}"):
        assert words in done.out


def test_what_cannot_be_used_is_named_and_the_rest_is_added(home: Path, project: Path):
    put(home, ".gemini/settings.json", '{"mcpServers": {"mine": {"command": "own"}}}')
    put(home, ".codex/config.toml", "[mcp_servers\nsecret-text")
    entries = {
        "mine": {"command": "another"},
        "good": {"command": "good", "disabled": False},
        "off": {"command": "off", "disabled": True},
        "bad": {"type": "ws", "url": "ws://x"},
        "empty": {},
        "text": "npx",
    }
    put(home, ".claude.json", json.dumps({"mcpServers": entries}))
    put(project, ".mcp.json", json.dumps({"mcpServers": {"good": {"command": "first"}}}))
    done = alhena("mcp", "import", "--all", "--scope", "user")
    assert done.code == 0
    assert servers(home) == {"mine": {"command": "own"}, "good": {"command": "first"}}
    assert done.out.count("cannot be used: ") == 3
    assert "~/.codex/config.toml is not read: " in done.err
    assert "secret-text" not in done.err
    assert "another MCP server 'mine', which stays" in done.err
    assert "'good' of ~/.claude.json differs from that of .mcp.json" in done.err
    assert alhena("mcp", "import", "off").code == 0
    assert servers(home)["off"] == {"command": "off"}
    for name, words in (("bad", "cannot be used"), ("none", "there is no MCP server")):
        refused = alhena("mcp", "import", name)
        assert (refused.code, words in refused.err) == (42, True)


@pytest.mark.parametrize("name", ["missing.json", "x"])
def test_a_file_that_is_not_there_is_an_error(project: Path, name: str):
    done = alhena("mcp", "import", name, "--all")
    assert done.code == 42
    assert f"{project / name}: No such file" in done.err


def test_a_server_of_claude_code_for_this_folder_alone_is_the_users(home: Path, project: Path):
    own = {str(project): {"mcpServers": {"a": {"command": "a"}}}, "/else": {"mcpServers": {"b": 1}}}
    put(home, ".claude.json", json.dumps({"projects": own}))
    done = alhena("mcp", "import", "--all")
    assert "a from ~/.claude.json (this folder), for the user settings" in done.out
    assert servers(home) == {"a": {"command": "a"}}


def test_an_added_server_of_a_trusted_folder_is_used(home: Path, project: Path):
    assert alhena("trust").code == 0
    put(project, ".mcp.json", json.dumps({"mcpServers": {"a": {"command": "false"}}}))
    assert alhena("mcp", "import", "a").code == 0
    listed = alhena("mcp", "list")
    assert "a: false (stdio)" in listed.out
    assert "held" not in listed.out + listed.err
