"""What can go wrong with an MCP server.

AlhenaError
└── McpError                  kind mcp_tool_error
    ├── McpConnectError       it cannot be reached, or does not speak the protocol
    │   └── McpAuthError      it wants to know who asks
    ├── McpLostError          the connection ended
    ├── McpTimeoutError       no answer in time
    ├── McpRefusedError       it answered with an error of the protocol
    └── McpScopeError         it wants more permissions than it was given
"""

from typing import cast

from alhena.errors import AlhenaError


class McpError(AlhenaError):
    """A server, or the way to it, failed. `message` is for people and for the model."""

    kind = "mcp_tool_error"


class McpConnectError(McpError):
    """A server cannot be started or reached, or does not speak the protocol."""


class McpAuthError(McpConnectError):
    """A server wants to know who asks. `challenge` is its WWW-Authenticate header, if any."""

    def __init__(self, message: str, *, remedy: str | None = None, challenge: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.challenge = challenge


class McpLostError(McpError):
    """The connection ended before the answer came."""


class McpTimeoutError(McpError):
    """No answer came in time; the server was told that nobody waits for it any more."""


class McpRefusedError(McpError):
    """The server answered with an error of the protocol, of this JSON-RPC code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class McpScopeError(McpError):
    """The server wants more permissions than a sign-in gave: `scopes`, as far as it names them."""

    def __init__(self, message: str, *, scopes: tuple[str, ...], remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.scopes = scopes


def root_cause(error: BaseException) -> BaseException:
    """The first error within groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("tuple[BaseException, ...]", error.exceptions)[0]
    return error
