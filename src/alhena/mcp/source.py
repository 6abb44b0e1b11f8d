"""What a server is, whatever it is called: its program with what that is given, or its URL."""

import os
from collections.abc import Iterator, Mapping

import msgspec

from alhena.config.environment import has_secret_name, has_secret_value
from alhena.config.mcp_servers import McpServer
from alhena.mcp.shown import server_more, server_words


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A hash of what a server is, and the same in words that hold nothing secret."""

    hash: str = ""
    words: str = ""


UNKNOWN = Source()


def source_of(server: McpServer, directory: str) -> Source:
    """What a server is that is started in `directory`. Of one that a workspace has brought the
    directory is a part: the same words (`python -m server`, `make serve`) mean another program
    elsewhere. Of one of the user's own it is where the command names files by how they lie to it.
    Of variables and headers that look secret only the names count, for what is in them is
    renewed."""
    from hashlib import sha256

    parts = (
        server.transport,
        server.address,
        server.command,
        server.args,
        server.cwd,
        _home(server, directory),
        _harmless({name: str(value) for name, value in server.env.items()}),
        _harmless(server.headers),
    )
    data = msgspec.json.encode(parts, order="deterministic")
    more = server_more(server)
    words = server_words(server) + (f" ({', '.join(more)})" if more else "")
    return Source(hash=sha256(data).hexdigest(), words=words)


def _home(server: McpServer, directory: str) -> str:
    """The directory without which a server is another one; "" where it is the same anywhere."""
    if server.of_workspace:
        return directory
    place = os.path.join(directory, server.cwd or "")
    return place if server.address is None and any(_files(server, place)) else ""


def _files(server: McpServer, place: str) -> Iterator[str]:
    """The words of a command line that mean files beside which it is started."""
    if server.cwd is not None and not os.path.isabs(server.cwd):
        yield server.cwd
    command = server.command or ""
    if os.sep in command and not os.path.isabs(command):
        yield command
    for word in server.args:
        value = word.partition("=")[2] if word.startswith("-") else word
        if value and not os.path.isabs(value) and os.path.isfile(os.path.join(place, value)):
            yield word


def _harmless(values: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (name, "" if has_secret_name(name) or has_secret_value(value) else value)
        for name, value in sorted(values.items())
    ]
