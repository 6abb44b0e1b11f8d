"""A connection to an MCP server, whatever carries it: its lists, calls and errors.

AlhenaError
└── McpError                  kind mcp_tool_error
    ├── McpConnectError       it cannot be reached, or does not speak the protocol
    │   └── McpAuthError      it wants to know who asks
    ├── McpLostError          the connection ended
    ├── McpTimeoutError       no answer in time
    ├── McpRefusedError       it answered with an error of the protocol
    └── McpScopeError         it wants more permissions than it was given
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol, cast

import msgspec

from alhena.errors import AlhenaError

MAX_ENTRIES = 5_000
"""Of one list. A server with more is told of, and goes without the rest."""


class ListedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server lists it. `schema` is of an object."""

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
    """What lists a server has, by the words of its capabilities."""

    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"


class Pages(msgspec.Struct, frozen=True):
    """The entries of a list, not looked at yet, and what was wrong with its pages."""

    entries: tuple[object, ...] = ()
    problems: tuple[str, ...] = ()


class ServerEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Who hears of what a server says by itself. Nothing of it may block or raise.

    `loaded`: all is imported that a connection needs, which can take seconds; from now on it is the
    server that takes its time. `changed`: a list is another. `note`: what may help to find out what
    is wrong with a server. `lost`: the connection has ended, for the reason given. `harmless` takes
    out of a text what nobody else is to know, for what is cut before it is told.
    """

    loaded: Callable[[], None]
    changed: Callable[[Subject], None]
    note: Callable[[str], None]
    lost: Callable[[str], None]
    harmless: Callable[[str], str] = str


class SessionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is told of us, and how long an answer may take; a call that reports progress
    gets that time anew with each report, up to `longest_s`. `roots` are directories."""

    roots: tuple[str, ...]
    timeout_s: float
    longest_s: float


Progress = Callable[[str], None]
"""Takes what a server says of the progress of a call, a line at a time."""


class Connection(Protocol):
    """A server that has shaken hands. Every method raises McpError. A cancelled call tells the
    server that nobody waits for it."""

    @property
    def instructions(self) -> str:
        """What the server wants models to know of it; "" for nothing."""
        ...

    @property
    def subjects(self) -> frozenset[Subject]:
        """What it says it has."""
        ...

    async def pages(self, subject: Subject) -> Pages:
        """All entries of a list, page by page."""
        ...

    async def call_tool(
        self, name: str, arguments: dict[str, Any], progress: Progress | None = None
    ) -> dict[str, Any]:
        """The result of a call as the server gave it."""
        ...

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        """A prompt filled in, as the server gave it."""
        ...

    async def read_resource(self, uri: str) -> dict[str, Any]:
        """The contents of a resource, as the server gave them."""
        ...


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
