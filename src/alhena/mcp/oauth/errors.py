"""What can go wrong with signing in to an MCP server.

McpConnectError
└── SignInError           exit 41   nobody could be signed in
    └── RefusedError                an authorization server said no, and will say so again
TokenFileError            exit 41   the file of the tokens cannot be used
"""

from alhena.mcp.errors import McpConnectError, McpError


class SignInError(McpConnectError):
    """Nobody could be signed in, or a token could not be renewed. No message quotes a secret."""

    exit_code = 41


class RefusedError(SignInError):
    """An authorization server refuses. `code` is OAuth's word for the reason."""

    def __init__(self, message: str, *, code: str, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.code = code


class TokenFileError(McpError):
    """The file of the tokens holds something else, or cannot be changed now. It is left alone."""

    exit_code = 41
