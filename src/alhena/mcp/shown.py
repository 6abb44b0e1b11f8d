"""Describes servers to people, hooks and logs without secrets, and identifies them by content."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from alhena.config.environment import (
    MIN_CREDENTIAL,
    REDACTED,
    has_secret_name,
    has_secret_value,
    without_secrets,
)
from alhena.config.hijackable_environment import is_choosing
from alhena.config.mcp_servers import McpServer
from alhena.display_text import escaped
from alhena.mcp.server import Offer

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


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A hash that identifies a server, and a redacted description."""

    hash: str = ""
    words: str = ""


UNKNOWN = Source()


def source_of(server: McpServer, directory: str) -> Source:
    """Identifies a server started in `directory`. For a workspace's server the directory is
    included: the same command (`python -m server`, `make serve`) runs another program elsewhere.
    For a user's server it is included if the command has relative paths. Secret variables and
    headers count by name only, because their values are rotated."""
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
    """The directory that is part of a server's identity; "" if it does not matter."""
    if server.of_workspace:
        return directory
    place = os.path.join(directory, server.cwd or "")
    return place if server.address is None and any(_files(server, place)) else ""


def _files(server: McpServer, place: str) -> Iterator[str]:
    """The words of a command line that are files relative to its directory."""
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


MAX_NAMED = 3
"""Maximum number of tools named in one line, and of lines on one subject."""


def offer_lines(offer: Offer) -> Iterator[str]:
    """The problems of a server's lists, one line each."""
    if offer.is_empty and not offer.left_out and not offer.problems:
        yield "No prompts, tools, or resources found on the server."
    yield from some(tuple(_left_out(offer.left_out)), "reasons to leave out tools")
    for problem in offer.problems:
        yield f"{problem}."


def some(lines: Sequence[str], what: str) -> Iterator[str]:
    """The first of these lines, and the number of further `what`."""
    yield from lines[:MAX_NAMED]
    if len(lines) > MAX_NAMED:
        yield f"there are {len(lines) - MAX_NAMED:,} more {what}."


def _left_out(left_out: Mapping[str, str]) -> Iterator[str]:
    """One line for each reason."""
    tools: dict[str, list[str]] = {}
    for tool, reason in left_out.items():
        tools.setdefault(reason, []).append(f"'{escaped(tool[:100])}'")
    for reason, names in tools.items():
        more = len(names) - MAX_NAMED
        named = ", ".join(names[:MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")
        subject = "the tool" if len(names) == 1 else "the tools"
        verb = "is" if len(names) == 1 else "are"
        yield f"{subject} {named} {verb} left out: {reason}."
