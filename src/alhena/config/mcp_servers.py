"""The configured MCP servers: their entries, warnings, and disabled servers; and their description
for people, hooks and logs, without secrets.

An invalid entry affects only its own server.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec

from alhena.config.documents import read_limited, read_value, typed_value
from alhena.config.environment import (
    MIN_CREDENTIAL,
    REDACTED,
    has_secret_name,
    has_secret_value,
    is_choosing,
    without_secrets,
)
from alhena.config.home import config_home
from alhena.config.settings import Settings
from alhena.errors import ConfigError
from alhena.values import Value

FILE = "mcp-server-enablement.json"


class _Enablement(msgspec.Struct, frozen=True):
    enabled: bool = True


class Enablement(msgspec.Struct, frozen=True):
    """The disabled servers, by their keys in the file. With a `problem` that makes the file
    unusable, all servers count as disabled."""

    off: frozenset[str] = frozenset()
    problem: str = ""

    def why_off(self, name: str) -> str:
        """The reason why a server is disabled; "" when it is not."""
        if self.problem:
            return self.problem
        return f"alhena mcp enable {name} turns it on" if server_key(name) in self.off else ""


def enablement_path(environ: Mapping[str, str]) -> Path:
    """Path of the file."""
    return config_home(environ) / FILE


def server_key(name: str) -> str:
    """The key of a server in the file, in lower case."""
    return name.strip().lower()


def enablement(environ: Mapping[str, str]) -> Enablement:
    """Reads the file; a missing file disables nothing."""
    path = enablement_path(environ)
    try:
        data = read_limited(path)
    except (FileNotFoundError, NotADirectoryError):
        return Enablement()
    except OSError as error:
        return Enablement(problem=f"{path} cannot be read: {error.strerror or error}")
    try:
        entries = _enablements(path, data)
    except ConfigError as error:
        return Enablement(problem=str(error))
    return Enablement(frozenset(name for name, entry in entries.items() if not entry.enabled))


def with_server(path: Path, data: bytes, name: str, *, enabled: bool) -> bytes:
    """Returns new file content (`data` is the old) with one server enabled or disabled. Raises
    ConfigError for an invalid file."""
    _enablements(path, data)
    known: dict[str, Any] = msgspec.json.decode(data) if data.strip() else {}
    known.pop(server_key(name), None)
    if not enabled:
        known[server_key(name)] = {"enabled": False}
    return msgspec.json.format(msgspec.json.encode(known), indent=2) + b"\n"


def _enablements(path: Path, data: bytes) -> dict[str, _Enablement]:
    if not data.strip():
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, _Enablement])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{path} does not say which servers are turned off: {str(error).replace('`', '')}.",
            remedy='It is a JSON object of names, each with {"enabled": false}; correct it, or '
            "remove it to turn all of them on.",
            page="mcp",
        ) from error


COMMAND_SERVER = "mcp"
"""The name of the server from `mcp.serverCommand`."""
LACKING = "lacking"
"""Member of an entry of an extension: the settings without a value that its command or URL has."""
EVERY = "*"
"""Matches all servers in `mcp.allowed` and `mcp.excluded`."""
OF_WORKSPACE: Mapping[str, Any] = {"trust": False, "ofWorkspace": True}
"""Forced members of a server entry from a workspace."""
OF_GOOGLE = GOOGLE, IMPERSONATION = "google_credentials", "service_account_impersonation"
"""Values of `authProviderType` that authenticate with Google credentials."""


class _ServerTable(Value, frozen=True, kw_only=True, rename="camel"):
    """A table in a server entry."""


class McpOAuth(_ServerTable, frozen=True, kw_only=True):
    """`mcpServers.NAME.oauth.*`. `resource`: requests name the server (RFC 8707). The repr does not
    show the secret."""

    enabled: bool = False
    client_id: str | None = None
    client_secret: str | None = None
    authorization_url: str | None = None
    token_url: str | None = None
    issuer: str | None = None
    registration_url: str | None = None
    redirect_uri: str | None = None
    token_param_name: str | None = None
    resource: bool = True
    scopes: tuple[str, ...] = ()
    audiences: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"McpOAuth(enabled={self.enabled}, client_id={self.client_id!r})"


class McpTransport(StrEnum):
    """The transport of a server; HTTP_OR_SSE tries HTTP, then SSE."""

    STDIO = "stdio"
    SSE = "sse"
    HTTP = "http"
    HTTP_OR_SSE = "http or sse"


class McpServer(_ServerTable, frozen=True, kw_only=True):
    """`mcpServers.NAME.*`. `timeout` is in milliseconds, None for the default. Tools of a server
    with `trust` need no approval. `include_tools` None means all. `always_declare`: its tools, or
    those it names, are declared however many there are. `of_workspace`: the entry comes
    from a workspace; set when its layer is read. `skip_untyped` is `mcp.skipUntyped`. The repr
    shows no headers and no variables, which may be secret."""

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
    skip_untyped: bool = False
    description: str = ""
    include_tools: tuple[str, ...] | None = None
    exclude_tools: tuple[str, ...] = ()
    always_declare: bool | tuple[str, ...] = False
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
        """The URL under either key; None for a server started by a command."""
        return self.http_url or self.url or None

    @property
    def transport(self) -> McpTransport:
        """The transport, in the reference's order: httpUrl, url with its type, command."""
        if self.http_url:
            return McpTransport.HTTP
        if self.url:
            if self.type == "sse":
                return McpTransport.SSE
            return McpTransport.HTTP_OR_SSE if self.type in (None, "stdio") else McpTransport.HTTP
        return McpTransport.STDIO

    def always_declares(self, tool: str) -> bool:
        """True for a tool, by its own name, that is declared however many there are."""
        always = self.always_declare
        return always if isinstance(always, bool) else tool in always

    def takes(self, tool: str, others: Iterable[str] = ()) -> bool:
        """True when the tool is included: listed by its own name, and not excluded by that or one
        of its `others`. List entries may be written `name(…)`."""
        excluded = {each.partition("(")[0].strip() for each in self.exclude_tools}
        if not excluded.isdisjoint((tool, *others)):
            return False
        wanted = self.include_tools
        return wanted is None or any(each == tool or each.startswith(f"{tool}(") for each in wanted)


class ConfiguredServers(msgspec.Struct, frozen=True):
    """The servers in the order of the settings. `problems` maps unusable entries to the reasons,
    and `disabled` those that are turned off."""

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
    """Builds the servers from the settings. `turned` are the disabled servers; None: read the
    user's file. `held` maps blocked servers of a workspace to the reasons.

    Entries are used as they are: variables were expanded when the layer was read, with the
    environment of its author. `environ` locates the user's file.
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
        if entry is None:  # there is none
            continue
        why = _exclusion_reason(name, settings) or turned.why_off(name) or _why_lacking(entry)
        if why:
            disabled[name] = why
            continue
        made = server_of(name, entry)
        if isinstance(made, str):
            problems[name] = made
        else:
            untyped = settings.mcp.skip_untyped
            servers[name] = msgspec.structs.replace(made, skip_untyped=untyped)
    if held:
        disabled |= {name: why for name, why in held.items() if name not in servers}
    return ConfiguredServers(servers, problems, disabled)


def _why_lacking(entry: object) -> str:
    """The reason why a server whose settings have no values is not started; "" if they have."""
    fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else dict[str, Any]()
    lacking: Sequence[str] = fields.get(LACKING, ())
    names = ", ".join(lacking)
    return f"it needs a value for {names}. {_url_remedy(fields)}" if lacking else ""


def command_entry(line: str) -> dict[str, Any]:
    """Converts `mcp.serverCommand` to an entry of `mcpServers`. Raises ValueError for unclosed
    quotes."""
    command, *arguments = shlex.split(line) or [""]
    return {"command": command, "args": arguments}


def names_with_trust(entries: Mapping[str, Any], *, trust: bool) -> tuple[str, ...]:
    """The servers of `mcpServers` with this `"trust"`; false marks those of a workspace."""
    return tuple(
        name
        for name, entry in entries.items()
        if isinstance(entry, dict) and cast("dict[str, Any]", entry).get("trust") is trust
    )


def _exclusion_reason(name: str, settings: Settings) -> str:
    allowed, excluded = settings.mcp.allowed, settings.mcp.excluded
    if name in excluded or EVERY in excluded:
        return "mcp.excluded names it"
    if allowed and name not in allowed and EVERY not in allowed:
        return "mcp.allowed (or --allowed-mcp-server-names) does not name it"
    return ""


def typed_entries(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of `mcpServers` with values of the right types, as far as they can be read."""
    return {name: typed_value(entry, McpServer) for name, entry in entries.items()}


def server_of(name: str, entry: object) -> McpServer | str:
    """Builds a server from an entry of `mcpServers`, or returns the reason why it is invalid."""
    where = f"settings: mcpServers.{name}"
    try:
        server = read_value(entry, McpServer)
    except msgspec.ValidationError as error:
        from alhena.config.checking import explain_error

        place, told = explain_error(error)
        key = f"{where}.{place}" if place else where
        return f"{key}: {told}. Correct that value or remove the key."
    if not name.strip():
        return "settings: mcpServers: a server needs a name that is not empty."
    if server.tcp and not (server.command or server.address):
        return f"{where}: tcp is not supported. Give command, url or httpUrl."
    if not server.command and not server.address:
        if server.url is not None or server.http_url is not None:
            return f"{where}: its URL is empty (is that variable set?). {_url_remedy(entry)}"
        return f"{where}: names neither command nor url nor httpUrl. Give one of them."
    if server.address and not server.address.startswith(("http://", "https://")):
        unset = " (is that variable set?)" if "$" in server.address else ""
        # The value may come from a secret variable: do not quote it.
        return f"{where}: its URL begins with neither http:// nor https://{unset}. Correct it."
    if server.timeout is not None and not server.timeout > 0:
        return f"{where}: timeout is {server.timeout:g}. Give milliseconds above 0."
    env = {key: _word(value) for key, value in server.env.items()}
    return msgspec.structs.replace(server, env=env)


def _url_remedy(entry: object) -> str:
    extension = cast("dict[str, Any]", entry).get("extension") if isinstance(entry, dict) else None
    return f"Set it: alhena extensions config {extension}." if extension else "Correct it."


def _word(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"


SERVERS = "mcpServers"


Named = Callable[[tuple[str, ...], Any], Any]


def harmless_words(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line with secrets, detected by option name or pattern, redacted."""
    told: list[str] = []
    hidden = False
    for argument in words:
        flag, equals, value = argument.partition("=")
        secret = has_secret_name(flag.lstrip("-"))
        if hidden and not argument.startswith("-"):
            told.append(REDACTED)
        elif secret and equals and value:
            told.append(f"{flag}={REDACTED}")
        else:
            told.append(without_secrets(argument))
        hidden = secret and not equals and argument.startswith("-")
    return tuple(told)


def harmless_url(url: str) -> str:
    """A URL without user and query, which may contain tokens."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return REDACTED
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, place, without_secrets(parts.path), "", ""))


def server_words(server: McpServer) -> str:
    """The command line or URL of a server."""
    if server.address is not None:
        return harmless_url(server.address)
    command = without_secrets(server.command or "")
    return " ".join((command, *harmless_words(server.args)))


def server_more(server: McpServer) -> tuple[str, ...]:
    """Other identifying settings of a server: its directory, names of variables and headers, and
    the values of variables that determine the program."""
    if server.address is not None:
        return tuple(f"header {name}" for name in server.headers)
    place = () if server.cwd is None else (f"in {without_secrets(server.cwd)}",)
    return (*place, *_variables(server))


def describe_server(name: str, server: McpServer, named: Named | None) -> tuple[str, ...]:
    """The command line or URL of a server and its other identifying settings. `named` replaces
    secrets in the settings by names."""
    words: Any = [server_words(server), *server_more(server)]
    if named is not None:
        for path in (("mcpServers", name), ("mcp", "serverCommand")):
            words = named(path, words)
    return tuple(words)


def _variables(server: McpServer) -> Iterator[str]:
    for name, value in server.env.items():
        text = str(value)
        secret = has_secret_name(name) or has_secret_value(text)
        yield f"{name}={text}" if is_choosing(name) and not secret else name


Harmless = Callable[[str], str]


def harmless_of(name: str, server: McpServer, named: Named | None) -> Harmless:
    """Returns a function that redacts a server's secrets: values from secret variables are replaced
    by their names, as in `named`, and secrets detected by pattern are removed."""
    given = sorted(set(_credentials_of(server)), key=len, reverse=True)

    def harmless(text: str) -> str:
        if named is not None:
            for path in (("mcpServers", name), ("mcp", "serverCommand")):
                text = str(named(path, text))
        for secret in given:
            text = text.replace(secret, REDACTED)
        return without_secrets(text)

    return harmless


def _credentials_of(server: McpServer) -> Iterator[str]:
    for argument, told in zip(server.args, harmless_words(server.args), strict=True):
        flag, equals, value = argument.partition("=")
        secret = value if equals and told == f"{flag}={REDACTED}" else argument
        if REDACTED in told and len(secret) >= MIN_CREDENTIAL:
            yield secret
    values = {key: str(value) for key, value in server.env.items()}
    for key, value in {**values, **server.headers}.items():
        if len(value) >= MIN_CREDENTIAL and (has_secret_name(key) or has_secret_value(value)):
            yield value
