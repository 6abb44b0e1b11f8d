"""Asks for the token of a server, as a session does: `python renew.py URL`. Prints it."""

import asyncio
import os
import sys

from alhena.config.mcp_servers import McpServer
from alhena.mcp.oauth.renewal import Renewal
from alhena.mcp.oauth.tokens import token_file


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def main() -> None:
    """Says when it begins, for the test to know."""
    renewal = Renewal("g", McpServer(http_url=sys.argv[1]), token_file(os.environ), _tell)
    _tell("ready")
    print(await renewal.token())


asyncio.run(main())
