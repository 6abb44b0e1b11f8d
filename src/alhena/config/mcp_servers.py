"""The MCP servers of the settings: `mcpServers`, `mcp.serverCommand`, which are allowed.

An entry that cannot be used is a problem of that one server; the others are there all the same.
"""

import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal, cast

import msgspec

from alhena.config.mcp_enablement import Enablement, enablement
from alhena.config.settings import Settings
from alhena.values import Value

COMMAND_SERVER = "mcp"
"""What the server of `mcp.serverCommand` is called."""
EVERY = "*"
"""Stands for all servers in `mcp.allowed` and `mcp.excluded`."""
OF_WORKSPACE: Mapping[str, Any] = {"trust": False, "ofWorkspace": True}
"""What the entry of a server says that a workspace has brought, whatever that wrote."""
OF_GOOGLE = GOOGLE, IMPERSONATION = "google_credentials", "service_account_impersonation"
"""Values of `authProviderType` by which a server is shown who somebody is at Google."""


class _Entry(Value, frozen=True, kw_only=True, rename="camel"):
    """A table of an entry."""


class McpOAuth(_Entry, frozen=True, kw_only=True):
    """`mcpServers.NAME.oauth.*`. The secret does not show in the repr."""

    enabled: bool = False
    client_id: str | None = None
    client_secret: str | None = None
    authorization_url: str | None = None
    token_url: str | None = None
    issuer: str | None = None
    registration_url: str | None = None
    redirect_uri: str | None = None
    token_param_name: str | None = None
    scopes: tuple[str, ...] = ()
    audiences: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"McpOAuth(enabled={self.enabled}, client_id={self.client_id!r})"


class Transport(StrEnum):
    """How a server is reached; HTTP_OR_SSE tries the first, then the second."""

    STDIO = "stdio"
    SSE = "sse"
    HTTP = "http"
    HTTP_OR_SSE = "http or sse"


class McpServer(_Entry, frozen=True, kw_only=True):
    """`mcpServers.NAME.*`. `timeout` is in milliseconds, None what is usual. Tools of a server with
    `trust` need no approval. `include_tools` None means all. `of_workspace`: a workspace has
    brought it, which is said when its layer is read. The repr shows no header and no variable, for
    both hold secrets."""

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str | int | float | bool] = msgspec.field(
        default_factory=dict[str, str | int | float | bool]
    )
    cwd: str | None = None
    url: str | None = None
    http_url: str | None = None
    tcp: str | None = None
    type: Literal["stdio", "sse", "http", "streamable-http", "streamableHttp"] | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    timeout: float | None = None
    trust: bool = False
    of_workspace: bool = False
    description: str = ""
    include_tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()
    oauth: McpOAuth | None = None
    auth_provider_type: (
        Literal["dynamic_discovery", "google_credentials", "service_account_impersonation"] | None
    ) = None
    target_audience: str | None = None
    target_service_account: str | None = None

    def __repr__(self) -> str:
        return f"McpServer(command={self.command!r}, url={self.address!r})"

    @property
    def address(self) -> str | None:
        """The URL, whichever key it stands under; None where it is reached by a command."""
        return self.http_url or self.url or None

    @property
    def transport(self) -> Transport:
        """How it is reached, by the reference's order: httpUrl, url with its type, command."""
        if self.http_url:
            return Transport.HTTP
        if self.url:
            if self.type == "sse":
                return Transport.SSE
            return Transport.HTTP_OR_SSE if self.type in (None, "stdio") else Transport.HTTP
        return Transport.STDIO

    def takes(self, tool: str) -> bool:
        """Whether a tool of this name is wanted. Of a list, `name(…)` means the name, too."""
        if tool in self.exclude_tools:
            return False
        wanted = self.include_tools
        return wanted is None or any(each == tool or each.startswith(f"{tool}(") for each in wanted)


class ConfiguredServers(msgspec.Struct, frozen=True):
    """The servers in the order of the settings. `problems` says of each entry that cannot be used
    why, and `disabled` of those that are not wanted."""

    servers: dict[str, McpServer]
    problems: dict[str, str]
    disabled: dict[str, str]


def configured_servers(
    settings: Settings,
    environ: Mapping[str, str],
    turned: Enablement | None = None,
    *,
    held: Mapping[str, str] | None = None,
) -> ConfiguredServers:
    """What the settings say of servers. `turned` says which are turned off; None: as the user's
    file of that says. `held` are those of a workspace that are held back, each with why.

    What stands there is taken as it is: the variables in a file of settings are put in when its
    layer is read, each with the environment of whoever wrote it. `environ` says where the user's
    file is.
    """
    entries = dict(settings.mcp_servers)
    problems: dict[str, str] = {}
    if settings.mcp.server_command and settings.mcp.server_command.strip():
        try:
            entries.setdefault(COMMAND_SERVER, command_entry(settings.mcp.server_command))
        except ValueError as error:
            problems[COMMAND_SERVER] = f"settings: mcp.serverCommand: {error}. Correct the quotes."
    servers: dict[str, McpServer] = {}
    disabled: dict[str, str] = {}
    if turned is None:
        turned = enablement(environ) if entries else Enablement()
    for name, entry in entries.items():
        why = _unwanted(name, settings) or turned.why_off(name)
        if why:
            disabled[name] = why
            continue
        made = server_of(name, entry)
        if isinstance(made, str):
            problems[name] = made
        else:
            servers[name] = made
    if held:
        disabled |= {name: why for name, why in held.items() if name not in servers}
    return ConfiguredServers(servers, problems, disabled)


def command_entry(line: str) -> dict[str, Any]:
    """What `mcp.serverCommand` is as an entry of `mcpServers`. Raises ValueError where quotes are
    missing."""
    command, *arguments = shlex.split(line) or [""]
    return {"command": command, "args": arguments}


def trusted_names(entries: Mapping[str, Any]) -> tuple[str, ...]:
    """The servers of `mcpServers` whose entries say `"trust": true`."""
    return tuple(
        name
        for name, entry in entries.items()
        if isinstance(entry, dict) and cast("dict[str, Any]", entry).get("trust") is True
    )


def untrusted_names(entries: Mapping[str, Any]) -> tuple[str, ...]:
    """Those whose entries say `"trust": false`, as those of a workspace do."""
    return tuple(
        name
        for name, entry in entries.items()
        if isinstance(entry, dict) and cast("dict[str, Any]", entry).get("trust") is False
    )


def _unwanted(name: str, settings: Settings) -> str:
    allowed, excluded = settings.mcp.allowed, settings.mcp.excluded
    if name in excluded or EVERY in excluded:
        return "mcp.excluded names it"
    if allowed is not None and name not in allowed and EVERY not in allowed:
        return "mcp.allowed (or --allowed-mcp-server-names) does not name it"
    return ""


def server_of(name: str, entry: object) -> McpServer | str:
    """The server of an entry of `mcpServers`, or why there is none."""
    where = f"settings: mcpServers.{name}"
    try:
        server = msgspec.convert(entry, McpServer)
    except msgspec.ValidationError as error:
        from alhena.config.checking import plain_message

        said, _, place = str(error).partition(" - at `$")
        told = plain_message(said)
        return f"{where}{place.rstrip('`')}: {told}. Correct that value or remove the key."
    if not name.strip():
        return "settings: mcpServers: a server needs a name that is not empty."
    if server.tcp and not (server.command or server.address):
        return f"{where}: tcp is not supported. Give command, url or httpUrl."
    if not server.command and not server.address:
        return f"{where}: names neither command nor url nor httpUrl. Give one of them."
    if server.address and not server.address.startswith(("http://", "https://")):
        unset = " (is that variable set?)" if "$" in server.address else ""
        # What it says instead may be what a secret variable holds.
        return f"{where}: its URL begins with neither http:// nor https://{unset}. Correct it."
    if server.timeout is not None and not server.timeout > 0:
        return f"{where}: timeout is {server.timeout:g}. Give milliseconds above 0."
    env = {key: _word(value) for key, value in server.env.items()}
    return msgspec.structs.replace(server, env=env)


def _word(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"
