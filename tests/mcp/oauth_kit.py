"""Signing in to the loopback server, for tests."""

import json
import os
from pathlib import Path
from typing import Any

from alhena.agent.toolset.mcp_sign_in import signed_in
from alhena.config.mcp_servers import McpServer, configured_servers
from alhena.config.settings import settings_of
from alhena.mcp.oauth.tokens import StoredToken
from tests.mcp.oauth_server import OAuthServer
from tests.models.auth.kit import ScriptedPerson, get


def environ(**more: str) -> dict[str, str]:
    """An environment in which browsers can be opened."""
    return {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], "DISPLAY": ":0"} | more


def entry(guarded: OAuthServer, **more: Any) -> dict[str, Any]:
    """The settings of the server."""
    return {"httpUrl": guarded.mcp, **more}


def server_of(settings: dict[str, Any]) -> McpServer:
    """The server of an entry of the settings."""
    made = configured_servers(settings_of({"mcpServers": {"g": settings}}, "test"), {})
    return made.servers["g"]


async def sign(
    guarded: OAuthServer,
    person: ScriptedPerson | None = None,
    around: dict[str, str] | None = None,
    **more: Any,
) -> StoredToken:
    """Signs in to the server called g, with these more settings."""
    someone = person or ScriptedPerson(get)
    try:
        return await signed_in("g", server_of(entry(guarded, **more)), someone, around or environ())
    finally:
        someone.done()


def kept(home: Path) -> Any:
    """Content of the token file."""
    return json.loads((home / ".gemini" / "mcp-oauth-tokens.json").read_text(encoding="utf-8"))
