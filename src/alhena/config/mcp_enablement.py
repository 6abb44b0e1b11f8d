"""Which MCP servers somebody has turned off: `~/.gemini/mcp-server-enablement.json`, in the
reference's form."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from alhena.config.errors import ConfigError
from alhena.config.files import read_limited
from alhena.config.home import config_home

FILE = "mcp-server-enablement.json"


class _Entry(msgspec.Struct, frozen=True):
    enabled: bool = True


class Enablement(msgspec.Struct, frozen=True):
    """The servers that are turned off, by the keys of the file. `problem` says why it cannot be
    used: then all count as turned off, for nobody knows which are."""

    off: frozenset[str] = frozenset()
    problem: str = ""

    def why_off(self, name: str) -> str:
        """Why a server is turned off; "" when it is not."""
        if self.problem:
            return self.problem
        return f"alhena mcp enable {name} turns it on" if server_key(name) in self.off else ""


def enablement_path(environ: Mapping[str, str]) -> Path:
    """The file."""
    return config_home(environ) / FILE


def server_key(name: str) -> str:
    """What a server is called in the file, whose names know no upper case."""
    return name.strip().lower()


def enablement(environ: Mapping[str, str]) -> Enablement:
    """What the file says; a file that is not there turns nothing off."""
    path = enablement_path(environ)
    try:
        data = read_limited(path)
    except (FileNotFoundError, NotADirectoryError):
        return Enablement()
    except OSError as error:
        return Enablement(problem=f"{path} cannot be read: {error.strerror or error}")
    try:
        entries = _entries(path, data)
    except ConfigError as error:
        return Enablement(problem=str(error))
    return Enablement(frozenset(name for name, entry in entries.items() if not entry.enabled))


def with_server(path: Path, data: bytes, name: str, *, enabled: bool) -> bytes:
    """The bytes of the file, of which `data` were, with one server turned on or off. Raises
    ConfigError for a file that holds something else."""
    _entries(path, data)
    known: dict[str, Any] = msgspec.json.decode(data) if data.strip() else {}
    known.pop(server_key(name), None)
    if not enabled:
        known[server_key(name)] = {"enabled": False}
    return msgspec.json.format(msgspec.json.encode(known), indent=2) + b"\n"


def _entries(path: Path, data: bytes) -> dict[str, _Entry]:
    if not data.strip():
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, _Entry])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{path} does not say which servers are turned off: {str(error).replace('`', '')}.",
            remedy='It is a JSON object of names, each with {"enabled": false}; correct it, or '
            "remove it to turn all of them on.",
        ) from error
