"""The connection to an MCP server over any transport: lists, calls and errors.

AlhenaError
└── McpError                  kind mcp_tool_error
    ├── McpConnectError       unreachable, or violates the protocol
    │   └── McpAuthError      requires authentication
    ├── McpLostError          the connection ended
    ├── McpTimeoutError       no answer in time
    ├── McpRefusedError       answered with a JSON-RPC error
    └── McpScopeError         requires more permissions than granted
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol, cast

import msgspec

from alhena.errors import AlhenaError

MAX_ENTRIES = 5_000
"""Maximum entries of one list; the rest is ignored with a warning."""


class ListedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server lists it. `schema` describes an object."""

    name: str
    title: str = ""
    description: str = ""
    schema: dict[str, Any]


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True):
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


class ListedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt as its server lists it."""

    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ListedResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource as its server lists it."""

    uri: str
    name: str = ""
    title: str = ""
    description: str = ""
    mime_type: str = ""


class Subject(StrEnum):
    """The kinds of lists a server has, named as in its capabilities."""

    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"


class Pages(msgspec.Struct, frozen=True):
    """The unchecked entries of a list, and problems with its pages."""

    entries: tuple[object, ...] = ()
    problems: tuple[str, ...] = ()


class ServerEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Callbacks for what a server reports by itself. None may block or raise.

    `loaded`: the imports a connection needs are done (they can take seconds); time from now on is
    the server's. `changed`: a list has changed. `note`: a diagnostic message. `lost`: the
    connection has ended, with the reason. `harmless` redacts a text before it is truncated.
    """

    loaded: Callable[[], None]
    changed: Callable[[Subject], None]
    note: Callable[[str], None]
    lost: Callable[[str], None]
    harmless: Callable[[str], str] = str


class SessionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Client information for a server, and the timeout of an answer; each progress report restarts
    the timeout of a call, up to `longest_s`. `roots` are directories."""

    roots: tuple[str, ...]
    timeout_s: float
    longest_s: float


Progress = Callable[[str], None]
"""Receives progress messages of a call, a line at a time."""


class Connection(Protocol):
    """An initialized connection to a server. Every method raises McpError. Cancelling a call
    notifies the server."""

    @property
    def instructions(self) -> str:
        """The server's instructions for models; "" for none."""
        ...

    @property
    def subjects(self) -> frozenset[Subject]:
        """The lists that the server announces."""
        ...

    async def pages(self, subject: Subject) -> Pages:
        """Fetches all entries of a list, page by page."""
        ...

    async def call_tool(
        self, name: str, arguments: dict[str, Any], progress: Progress | None = None
    ) -> dict[str, Any]:
        """Calls a tool and returns the raw result."""
        ...

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        """Returns a prompt with its arguments filled in, as the server sent it."""
        ...

    async def read_resource(self, uri: str) -> dict[str, Any]:
        """Returns the raw contents of a resource."""
        ...


class McpError(AlhenaError):
    """A server or its transport failed. `message` is for people and for the model."""

    kind = "mcp_tool_error"


class McpConnectError(McpError):
    """A server cannot be started or reached, or does not speak the protocol."""


class McpAuthError(McpConnectError):
    """A server requires authentication. `challenge` is its WWW-Authenticate header, if any."""

    def __init__(self, message: str, *, remedy: str | None = None, challenge: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.challenge = challenge


class McpLostError(McpError):
    """The connection ended before the answer came."""


class McpTimeoutError(McpError):
    """The answer timed out; the server was sent a cancellation."""


class McpRefusedError(McpError):
    """The server answered with a JSON-RPC error with this code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class McpScopeError(McpError):
    """The server requires more permissions than the sign-in granted: `scopes`, if it names them."""

    def __init__(self, message: str, *, scopes: tuple[str, ...], remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.scopes = scopes


def root_cause(error: BaseException) -> BaseException:
    """The first error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("tuple[BaseException, ...]", error.exceptions)[0]
    return error
