"""What is said of a server, by itself or by the system, without the secrets it was given."""

from collections.abc import Callable, Iterator

from alhena.config.environment import (
    MIN_CREDENTIAL,
    REDACTED,
    has_secret_name,
    has_secret_value,
    without_secrets,
)
from alhena.config.mcp_servers import McpServer
from alhena.mcp.shown import Named, harmless_arguments

Harmless = Callable[[str], str]


def harmless_of(name: str, server: McpServer, named: Named | None) -> Harmless:
    """What takes out of a text what nobody else is to know: for what a secret variable has put into
    the server's entry its name, as `named` has it, and nothing for what looks secret there."""
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
