"""Servers as people, hooks and logs may see them: nothing secret."""

from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from alhena.config.environment import REDACTED, has_secret_name, without_secrets
from alhena.config.mcp_servers import McpServer


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
