"""Servers as people, hooks and logs may see them: nothing secret."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from alhena.config.choosing import is_choosing
from alhena.config.environment import REDACTED, has_secret_name, has_secret_value, without_secrets
from alhena.config.mcp_servers import McpServer

Named = Callable[[tuple[str, ...], Any], Any]


def harmless_arguments(server: McpServer) -> tuple[str, ...]:
    """The arguments without what their names, or their looks, say is secret."""
    return harmless_words(server.args)


def harmless_words(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line without what the words before them, or their looks, say is
    secret."""
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
    """A URL without the user it names and without its query, where tokens stand."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return REDACTED
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, place, without_secrets(parts.path), "", ""))


def server_words(server: McpServer) -> str:
    """What a server is: its command line, or its URL."""
    if server.address is not None:
        return harmless_url(server.address)
    command = without_secrets(server.command or "")
    return " ".join((command, *harmless_arguments(server)))


def server_more(server: McpServer) -> tuple[str, ...]:
    """What else decides what a server is: its directory, its variables and headers by their names.
    Of variables that choose what runs, or where it comes from, what they say, too."""
    if server.address is not None:
        return tuple(f"header {name}" for name in server.headers)
    place = () if server.cwd is None else (f"in {without_secrets(server.cwd)}",)
    return (*place, *_variables(server))


def shown_server(name: str, server: McpServer, named: Named | None) -> tuple[str, ...]:
    """What a server of this name is, and what else decides that. `named` puts names in the place of
    secrets in what stands at a path of the settings."""
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
