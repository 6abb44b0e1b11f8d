"""MCP servers in code."""

from collections.abc import Mapping
from typing import Any, cast

from alhena.config.errors import ConfigError
from alhena.values import Value

HERE = "(in this process)"
"""The command of an in-process server as people are shown it; it is never run."""


class StdioServer(Value, frozen=True):
    """An MCP server that a command starts; it speaks over its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.command.strip():
            raise ConfigError("StdioServer.command is empty.", remedy="Name the program to start.")
        _require_texts("StdioServer.env", self.env)


class HttpServer(Value, frozen=True):
    """An MCP server at a URL (streamable HTTP)."""

    url: str
    headers: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(
                f"HttpServer.url cannot be {self.url!r:.100}.", remedy="It begins with https://."
            )
        _require_texts("HttpServer.headers", self.headers)

    def __repr__(self) -> str:
        return f"HttpServer({self.url!r})"


class InProcessServer(Value, frozen=True):
    """A server object of the MCP SDK, which runs in this process."""

    server: Any

    def __post_init__(self) -> None:
        if not hasattr(self.server, "run"):
            kind = type(self.server).__name__
            raise TypeError(f"InProcessServer takes a server of the MCP SDK, not {kind}")


Server = StdioServer | HttpServer | InProcessServer


def _require_texts(where: str, texts: Any) -> None:
    items: list[Any] = list(cast("Any", texts).items()) if isinstance(texts, Mapping) else [(0, 0)]
    for name, text in items:
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(f"{where} has to be a mapping of texts to texts, not {texts!r:.60}")


def entries_of(servers: Mapping[str, Server]) -> dict[str, Any]:
    """The servers as entries of `mcpServers` in settings. Raises ConfigError, TypeError."""
    found: dict[str, Any] = {}
    for name, server in servers.items():
        match server:
            case StdioServer():
                entry: dict[str, Any] = {
                    "command": server.command,
                    "args": list(server.args),
                    "env": dict(server.env),
                }
                found[name] = entry | ({} if server.cwd is None else {"cwd": server.cwd})
            case HttpServer():
                found[name] = {"httpUrl": server.url, "headers": dict(server.headers)}
            case InProcessServer():
                found[name] = {"command": HERE}
            case _:
                raise TypeError(
                    f"servers[{name!r}] has to be a StdioServer, HttpServer or InProcessServer, "
                    f"not {type(server).__name__}"
                )
    return found
