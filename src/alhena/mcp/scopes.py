"""Handles servers that require more scopes: HTTP 403 with insufficient_scope (RFC 6750, 3.1), the
step-up of the MCP specification."""

import re
from collections.abc import Collection, Iterable

import msgspec

from alhena.config.mcp_servers import McpServer

REFUSED = -32_403
"""JSON-RPC code that carries such an answer through the SDK, which hides HTTP statuses."""
MARK = "alhena/scopes"
MAX_SCOPES = 50
MAX_SCOPE = 200
_SCOPE = re.compile(r'(?<![\w-])scope\s*=\s*(?:"([^"]*)"|([^\s,"]+))', re.IGNORECASE)
_ERROR = re.compile(r'(?<![\w-])error\s*=\s*"?insufficient_scope"?(?![\w-])', re.IGNORECASE)
_TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def wanted_scopes(status: int, challenge: str) -> tuple[str, ...] | None:
    """The scopes an answer requires, possibly unnamed; None for any other answer."""
    if status != 403 or _ERROR.search(challenge) is None:
        return None
    found = _SCOPE.search(challenge)
    return joined((found[1] or found[2] or "").split()) if found else ()


def joined(scopes: Iterable[str]) -> tuple[str, ...]:
    """The valid scopes, without duplicates."""
    usable = (each for each in scopes if len(each) <= MAX_SCOPE and _TOKEN.fullmatch(each))
    return tuple(dict.fromkeys(usable))[:MAX_SCOPES]


def scope_words(scopes: Collection[str]) -> str:
    """Describes the missing permissions."""
    named = f": {', '.join(scopes)}" if scopes else ""
    return f"it needs permissions that it was not given{named} (HTTP 403, insufficient_scope)"


def scope_remedy(name: str, server: McpServer) -> str:
    """The remedy for missing permissions."""
    oauth = server.oauth
    if any(key.lower() == "authorization" for key in server.headers) and not (
        oauth is not None and oauth.enabled
    ):
        return f"Put a token that has them into mcpServers.{name}.headers."
    again = f"Sign in again: alhena mcp auth {name} (or /mcp auth {name})."
    if oauth is not None and oauth.scopes:
        return f"Add them to mcpServers.{name}.oauth.scopes. {again}"
    return again


def refusal_body(scopes: Collection[str]) -> bytes:
    """A JSON-RPC error that replaces the server's answer."""
    error = {"code": REFUSED, "message": scope_words(scopes), "data": {MARK: list(scopes)}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})


def refused_scopes(code: int, data: object) -> tuple[str, ...] | None:
    """The scopes of such an error; None for any other error."""
    if code != REFUSED:
        return None
    try:
        return tuple(msgspec.convert(data, dict[str, list[str]])[MARK])
    except (msgspec.ValidationError, KeyError):
        return None
