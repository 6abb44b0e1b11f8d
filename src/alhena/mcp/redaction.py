"""Describes servers to people, hooks and logs without secrets."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from alhena.config.environment import (
    MIN_CREDENTIAL,
    REDACTED,
    has_secret_name,
    has_secret_value,
    is_choosing,
    without_secrets,
)
from alhena.config.mcp_servers import McpServer

Named = Callable[[tuple[str, ...], Any], Any]


def harmless_arguments(server: McpServer) -> tuple[str, ...]:
    """The arguments with secrets, detected by name or pattern, redacted."""
    return harmless_words(server.args)


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
    return " ".join((command, *harmless_arguments(server)))


def server_more(server: McpServer) -> tuple[str, ...]:
    """Other identifying settings of a server: its directory, names of variables and headers, and
    the values of variables that determine the program."""
    if server.address is not None:
        return tuple(f"header {name}" for name in server.headers)
    place = () if server.cwd is None else (f"in {without_secrets(server.cwd)}",)
    return (*place, *_variables(server))


def shown_server(name: str, server: McpServer, named: Named | None) -> tuple[str, ...]:
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
    given = sorted(set(_given(server)), key=len, reverse=True)

    def harmless(text: str) -> str:
        if named is not None:
            for path in (("mcpServers", name), ("mcp", "serverCommand")):
                text = str(named(path, text))
        for secret in given:
            text = text.replace(secret, REDACTED)
        return without_secrets(text)

    return harmless


def _given(server: McpServer) -> Iterator[str]:
    for argument, told in zip(server.args, harmless_arguments(server), strict=True):
        flag, equals, value = argument.partition("=")
        secret = value if equals and told == f"{flag}={REDACTED}" else argument
        if REDACTED in told and len(secret) >= MIN_CREDENTIAL:
            yield secret
    values = {key: str(value) for key, value in server.env.items()}
    for key, value in {**values, **server.headers}.items():
        if len(value) >= MIN_CREDENTIAL and (has_secret_name(key) or has_secret_value(value)):
            yield value
