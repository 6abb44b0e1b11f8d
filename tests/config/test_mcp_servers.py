"""The MCP servers of the settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from alhena.config.effective_settings import open_place
from alhena.config.mcp_servers import McpServer, McpTransport, configured_servers
from alhena.config.settings import settings_of
from alhena.mcp.listing import add_name_hash, names_to_refuse, valid_name


def configure_servers(
    entries: dict[str, Any], environ: dict[str, str] | None = None, **mcp: Any
) -> Any:
    return configured_servers(
        settings_of({"mcpServers": entries, "mcp": mcp}, "test"), environ or {}
    )


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"command": "x"}, McpTransport.STDIO),
        ({"command": "x", "type": "stdio"}, McpTransport.STDIO),
        ({"httpUrl": "http://a/", "url": "http://b/"}, McpTransport.HTTP),
        ({"url": "http://a/", "command": "x"}, McpTransport.HTTP_OR_SSE),
        ({"url": "http://a/", "type": "http"}, McpTransport.HTTP),
        ({"url": "http://a/", "type": "streamable-http"}, McpTransport.HTTP),
        ({"url": "http://a/", "type": "sse"}, McpTransport.SSE),
    ],
)
def test_the_keys_choose_the_transport(entry: dict[str, Any], transport: McpTransport) -> None:
    assert configure_servers({"s": entry}).servers["s"].transport is transport


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({}, "mcpServers.s: names neither command nor url nor httpUrl."),
        ({"tcp": "localhost:1"}, "mcpServers.s: tcp is not supported."),
        ({"url": "ftp://x"}, "mcpServers.s: its URL begins with neither http:// nor https://."),
        ({"url": "$UNSET"}, "neither http:// nor https:// (is that variable set?). Correct it."),
        ({"command": "x", "timeout": 0}, "mcpServers.s: timeout is 0."),
        ({"command": "x", "args": "y '"}, "mcpServers.s.args: it has to be a list, not a text."),
        ({"command": "x", "env": {"A": []}}, "mcpServers.s.env"),
        (5, "mcpServers.s: it has to be an object, not a whole number."),
    ],
)
def test_an_entry_that_cannot_be_used_is_told_and_costs_no_other(entry: Any, said: str) -> None:
    found = configure_servers({"s": entry, "good": {"command": "x"}})
    assert list(found.servers) == ["good"]
    assert said in found.problems["s"]


ENTRY = {
    "command": "${BIN}/x",
    "args": ["$A", "${B:-b}", "$NONE", "${NONE}", "a$"],
    "env": {"K": "$A", "N": 5, "T": True, "F": 1.5},
    "cwd": "$A/w",
    "httpUrl": "http://$A/",
    "headers": {"H": "Bearer $A"},
}


def from_files(home: Path, cwd: Path, environ: dict[str, str]) -> dict[str, McpServer]:
    place = open_place(cwd, {"HOME": str(home), **environ}, env_files=True)
    return configured_servers(place.settings, place.environ).servers


def write(directory: Path, entries: dict[str, Any], dotenv: str = "") -> None:
    folder = directory / ".gemini"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    if dotenv:
        (directory / ".env").write_text(dotenv, encoding="utf-8")


def test_variables_are_filled_in_where_they_may_stand(home: Path, project: Path) -> None:
    write(home, {"s": ENTRY})
    server = from_files(home, project, {"A": "va", "BIN": "/bin"})["s"]
    assert server.command == "/bin/x"
    assert server.args == ("va", "b", "$NONE", "${NONE}", "a$")
    assert server.env == {"K": "va", "N": "5", "T": "true", "F": "1.5"}
    assert (server.cwd, server.http_url, server.headers) == (
        "va/w",
        "http://va/",
        {"H": "Bearer va"},
    )
    assert "va" not in repr(server).replace("http://va/", "")


def test_what_a_variable_holds_is_no_text_with_variables(home: Path, project: Path) -> None:
    write(home, {"s": {"command": "x", "args": ["$A"]}})
    assert from_files(home, project, {"A": "$B", "B": "vb"})["s"].args == ("$B",)


@pytest.mark.parametrize("name", ["UNSET", "PATHS_OF_MINE"])
def test_a_project_fills_in_no_variable_of_a_server_of_the_users(
    home: Path, project: Path, name: str
) -> None:
    write(home, {"mine": {"httpUrl": "http://a/", "headers": {"H": f"${name}"}}})
    write(project, {"theirs": {"command": "x", "args": [f"${name}"]}}, f"{name}=planted\n")
    servers = from_files(home, project, {"GEMINI_CLI_TRUST_WORKSPACE": "true"})
    assert servers["mine"].headers == {"H": ""}
    assert servers["theirs"].args == ("planted",)


@pytest.mark.parametrize("text", ["$GEMINI_API_KEY", "${GOOGLE_API_KEY:-none}"])
def test_a_server_of_a_project_gets_no_credential_by_its_name(
    home: Path, project: Path, text: str
) -> None:
    write(project, {"theirs": {"command": "x", "args": [text]}})
    keys = {"GEMINI_API_KEY": "k1", "GOOGLE_API_KEY": "k2"}
    servers = from_files(home, project, {"GEMINI_CLI_TRUST_WORKSPACE": "true", **keys})
    assert all(server.args == (text,) for server in servers.values())


def test_settings_of_a_program_are_taken_as_they_are() -> None:
    server = configure_servers({"s": ENTRY}, {"A": "va", "BIN": "/bin", "B": "b"}).servers["s"]
    assert server.command == "${BIN}/x"
    assert server.args == ("$A", "${B:-b}", "$NONE", "${NONE}", "a$")
    assert server.env == {"K": "$A", "N": "5", "T": "true", "F": "1.5"}
    assert server.headers == {"H": "Bearer $A"}


def test_servers_that_are_not_wanted_are_not_there() -> None:
    entries = {name: {"command": "x"} for name in ("a", "b", "c")}
    found = configure_servers(entries, allowed=["a", "b"], excluded=["b"])
    assert list(found.servers) == ["a"]
    assert found.disabled == {
        "b": "mcp.excluded names it",
        "c": "mcp.allowed (or --allowed-mcp-server-names) does not name it",
    }


def test_a_star_names_all_servers() -> None:
    entries = {name: {"command": "x"} for name in ("a", "b")}
    assert list(configure_servers(entries, allowed=["*"]).servers) == ["a", "b"]
    assert configure_servers(entries, excluded=["*"]).servers == {}


def test_the_server_command_is_one_more_server() -> None:
    found = configure_servers({}, serverCommand="node 'my server.js' --x")
    assert found.servers["mcp"].command == "node"
    assert found.servers["mcp"].args == ("my server.js", "--x")
    assert configure_servers({}, serverCommand="  ").servers == {}
    assert "names neither command" in configure_servers({}, serverCommand="''").problems["mcp"]
    assert "No closing quotation" in configure_servers({}, serverCommand="a 'b").problems["mcp"]


def test_tools_are_chosen_by_name() -> None:
    entry = {"command": "x", "includeTools": ["a", "b(c)", "d"], "excludeTools": ["d"]}
    server = configure_servers({"s": entry}).servers["s"]
    assert [name for name in "abcd" if server.takes(name)] == ["a", "b"]


def test_a_tool_is_excluded_by_every_name_that_it_may_be_called_by() -> None:
    long = "x" * 80
    for tool, name in (
        ("a", "a(b)"), ("a", "s__a"), ("a", "mcp_s_a"), ("a/b", "a_b"), ("a/b", "s__a_b"),
        ("9a", "_9a"), (long, valid_name(long)), (long, f"s__{long}"),
        ("a", add_name_hash("s__a", ("s", "a"))),
    ):  # fmt: skip
        server = configure_servers({"s": {"command": "x", "excludeTools": [name]}}).servers["s"]
        assert not server.takes(tool, names_to_refuse(("s", tool))), name
        assert server.takes("other", names_to_refuse(("s", "other"))), name


def test_an_oauth_secret_shows_nowhere() -> None:
    entry = {"httpUrl": "http://a/", "oauth": {"clientId": "id", "clientSecret": "s3cret"}}
    server = configure_servers({"s": entry}).servers["s"]
    assert server.oauth.client_secret == "s3cret"
    assert "s3cret" not in repr(server) + repr(server.oauth)
