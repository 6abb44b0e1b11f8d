"""The MCP servers of the settings."""

from typing import Any

import pytest

from alhena.config.mcp_servers import Transport, configured_servers, expanded
from alhena.config.settings import settings_of


def configured(entries: dict[str, Any], environ: dict[str, str] | None = None, **mcp: Any) -> Any:
    return configured_servers(
        settings_of({"mcpServers": entries, "mcp": mcp}, "test"), environ or {}
    )


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"command": "x"}, Transport.STDIO),
        ({"command": "x", "type": "stdio"}, Transport.STDIO),
        ({"httpUrl": "http://a/", "url": "http://b/"}, Transport.HTTP),
        ({"url": "http://a/", "command": "x"}, Transport.HTTP_OR_SSE),
        ({"url": "http://a/", "type": "http"}, Transport.HTTP),
        ({"url": "http://a/", "type": "streamable-http"}, Transport.HTTP),
        ({"url": "http://a/", "type": "sse"}, Transport.SSE),
    ],
)
def test_the_keys_choose_the_transport(entry: dict[str, Any], transport: Transport) -> None:
    assert configured({"s": entry}).servers["s"].transport is transport


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({}, "mcpServers.s: names neither command nor url nor httpUrl."),
        ({"tcp": "localhost:1"}, "mcpServers.s: tcp is not supported."),
        ({"url": "ftp://x"}, "mcpServers.s: the URL 'ftp://x' is no http(s) URL."),
        ({"command": "x", "timeout": 0}, "mcpServers.s: timeout is 0."),
        ({"command": "x", "args": "y"}, "mcpServers.s.args: Expected array, got str."),
        ({"command": "x", "env": {"A": []}}, "mcpServers.s.env"),
        (5, "mcpServers.s: Expected object, got int."),
    ],
)
def test_an_entry_that_cannot_be_used_is_told_and_costs_no_other(entry: Any, said: str) -> None:
    found = configured({"s": entry, "good": {"command": "x"}})
    assert list(found.servers) == ["good"]
    assert said in found.problems["s"]


def test_variables_are_filled_in_where_they_may_stand() -> None:
    entry = {
        "command": "${BIN}/x",
        "args": ["$A", "${B:-b}", "$NONE", "${NONE}", "a$"],
        "env": {"K": "$A", "N": 5, "T": True, "F": 1.5},
        "cwd": "$A/w",
        "httpUrl": "http://$A/",
        "headers": {"H": "Bearer $A"},
    }
    server = configured({"s": entry}, {"A": "va", "BIN": "/bin"}).servers["s"]
    assert server.command == "/bin/x"
    assert server.args == ("va", "b", "$NONE", "${NONE}", "a$")
    assert server.env == {"K": "va", "N": "5", "T": "true", "F": "1.5"}
    assert (server.cwd, server.http_url, server.headers) == (
        "va/w",
        "http://va/",
        {"H": "Bearer va"},
    )
    assert "va" not in repr(server).replace("http://va/", "")
    assert expanded("$A$A ${A}", {"A": "$A"}) == "$A$A $A"


def test_servers_that_are_not_wanted_are_not_there() -> None:
    entries = {name: {"command": "x"} for name in ("a", "b", "c")}
    found = configured(entries, allowed=["a", "b"], excluded=["b"])
    assert list(found.servers) == ["a"]
    assert found.disabled == {
        "b": "mcp.excluded names it",
        "c": "mcp.allowed (or --allowed-mcp-server-names) does not name it",
    }


def test_the_server_command_is_one_more_server() -> None:
    found = configured({}, serverCommand="node 'my server.js' --x")
    assert found.servers["mcp"].command == "node"
    assert found.servers["mcp"].args == ("my server.js", "--x")
    assert "No closing quotation" in configured({}, serverCommand="a 'b").problems["mcp"]


def test_tools_are_chosen_by_name() -> None:
    entry = {"command": "x", "includeTools": ["a", "b(c)", "d"], "excludeTools": ["d"]}
    server = configured({"s": entry}).servers["s"]
    assert [name for name in "abcd" if server.takes(name)] == ["a", "b"]


def test_an_oauth_secret_shows_nowhere() -> None:
    entry = {"httpUrl": "http://a/", "oauth": {"clientId": "id", "clientSecret": "s3cret"}}
    server = configured({"s": entry}).servers["s"]
    assert server.oauth.client_secret == "s3cret"
    assert "s3cret" not in repr(server) + repr(server.oauth)
