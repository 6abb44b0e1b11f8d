"""The connection to an MCP server over any transport: lists, calls, errors and missing scopes.

A server answers a call that lacks scopes with HTTP 403 and insufficient_scope (RFC 6750, 3.1), the
step-up of the MCP specification. The SDK hides HTTP statuses, so a JSON-RPC error carries the
scopes through it.

AlhenaError
└── McpError                  kind mcp_tool_error
    ├── McpConnectError       unreachable, or violates the protocol
    │   ├── McpAuthError      requires authentication
    │   └── McpAwayError      not there now; it may be restarting
    ├── McpLostError          the connection ended
    │   └── McpForgottenError   before the server took the request
    ├── McpTimeoutError       no answer in time
    ├── McpRefusedError       answered with a JSON-RPC error
    └── McpScopeError         requires more permissions than granted
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.config.mcp_servers import McpServer
from alhena.errors import AlhenaError

if TYPE_CHECKING:
    from alhena.mcp.elicitation import ServerQuestions

MAX_ENTRIES = 5_000
"""Maximum entries of one list; the rest is ignored with a warning."""

SCOPES_REFUSED = -32_403
"""JSON-RPC code that carries such an answer through the SDK, which hides HTTP statuses."""
_MARK = "alhena/scopes"
MAX_SCOPES = 50
MAX_SCOPE = 200
_SCOPE = re.compile(r'(?<![\w-])scope\s*=\s*(?:"([^"]*)"|([^\s,"]+))', re.IGNORECASE)
_ERROR = re.compile(r'(?<![\w-])error\s*=\s*"?insufficient_scope"?(?![\w-])', re.IGNORECASE)
_TOKEN = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


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


class ListPages(msgspec.Struct, frozen=True):
    """The unchecked entries of a list, and problems with its pages."""

    entries: tuple[object, ...] = ()
    problems: tuple[str, ...] = ()


class ServerEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Callbacks for what a server reports by itself. None may block or raise.

    `loaded`: the imports a connection needs are done (they can take seconds); time from now on is
    the server's. `changed`: a list has changed. `note`: a diagnostic message. `lost`: the
    connection has ended, with the reason. `harmless` redacts a text before it is truncated. `heard`
    gets method and parameters of every notification, also of those that MCP does not know.
    """

    loaded: Callable[[], None]
    changed: Callable[[Subject], None]
    note: Callable[[str], None]
    lost: Callable[[str], None]
    harmless: Callable[[str], str] = str
    heard: Callable[[str, Mapping[str, Any]], None] | None = None


class SessionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Client information for a server, and the timeout of an answer; each progress report restarts
    the timeout of a call, up to `longest_s`. `roots` are directories; `questions` puts the
    server's to a person."""

    roots: tuple[str, ...]
    timeout_s: float
    longest_s: float
    questions: "ServerQuestions"


Progress = Callable[[str], None]
"""Receives progress messages of a call, a line at a time."""


class McpError(AlhenaError):
    """A server or its transport failed. `message` is for people and for the model."""

    kind = "mcp_tool_error"
    page = "mcp"


class McpConnectError(McpError):
    """A server cannot be started or reached, or does not speak the protocol."""


class McpAuthError(McpConnectError):
    """A server requires authentication. `challenge` is its WWW-Authenticate header, if any."""

    def __init__(self, message: str, *, challenge: str) -> None:
        super().__init__(message)
        self.challenge = challenge


class McpLostError(McpError):
    """The connection ended before the answer came."""


class McpAwayError(McpConnectError):
    """A server cannot be reached at its URL, or is not ready (HTTP 503)."""


class McpForgottenError(McpLostError):
    """The server no longer knows the session, or reads no more: it has not taken the request, which
    can be sent to a new session."""


class McpTimeoutError(McpError):
    """The answer timed out; the server was sent a cancellation."""


class McpRefusedError(McpError):
    """The server answered with a JSON-RPC error with this code and data."""

    def __init__(self, message: str, code: int, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


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


def wanted_scopes(status: int, challenge: str) -> tuple[str, ...] | None:
    """The scopes an answer requires, possibly unnamed; None for any other answer."""
    if status != 403 or _ERROR.search(challenge) is None:
        return None
    found = _SCOPE.search(challenge)
    return valid_scopes((found[1] or found[2] or "").split()) if found else ()


def valid_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
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
    error = {"code": SCOPES_REFUSED, "message": scope_words(scopes), "data": {_MARK: list(scopes)}}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})


SESSION_LOST = -32_404
"""JSON-RPC code that carries through the SDK that a server does not know the session."""
_NO_SESSION = re.compile(r"session|not (?:yet )?initiali[sz]ed", re.IGNORECASE)
_SESSION_WORDS = re.compile(
    r"(?:(?:bad request|error|not found)\s*:\s*)?"
    r"(?:no (?:valid )?session(?: id)?(?: provided| found)?"
    r"|(?:missing|invalid|unknown|expired|invalid or missing)(?: mcp-)?\s?session(?:[ -]id)?"
    r"|session(?: id)?(?: has)?(?: been)?(?: was)?"
    r"\s*(?:not found|expired|terminated|lost|unknown|invalid)"
    r"|server not initialized)\W*",
    re.IGNORECASE,
)
METHOD_NOT_FOUND, INVALID_PARAMS = -32_601, -32_602


def says_session_lost(message: str) -> bool:
    """True for an error message that only says that there is no such session."""
    return _SESSION_WORDS.fullmatch(message.strip()) is not None


def lost_session(status: int, body: bytes, *, in_session: bool) -> str:
    """The reason why an answer to a request means that the server has no such session; "" for any
    other answer. `in_session`: the request named one."""
    if status not in {400, 404, 410, 503}:
        return ""
    code, message = _json_rpc_error(body)
    if status == 503:
        return "it is not ready (HTTP 503)"
    if code in {METHOD_NOT_FOUND, INVALID_PARAMS}:
        return ""
    if status == 400:
        text = message if code else body.decode("utf-8", "replace")
        found = _NO_SESSION.search(text) is not None
    else:
        found = in_session or not code or says_session_lost(message)
    return f"it does not know the session (HTTP {status})" if found else ""


def _json_rpc_error(body: bytes) -> tuple[int, str]:
    """Code and message of an error; 0 and "" for anything else."""
    try:
        error = msgspec.json.decode(body, type=_Failed).error
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return 0, ""
    return error.code, error.message


class _Failure(msgspec.Struct):
    code: int
    message: str = ""


class _Failed(msgspec.Struct):
    error: _Failure


def lost_body(why: str) -> bytes:
    """A JSON-RPC error that replaces such an answer."""
    error = {"code": SESSION_LOST, "message": why}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})


def refused_scopes(code: int, data: object) -> tuple[str, ...] | None:
    """The scopes of such an error; None for any other error."""
    if code != SCOPES_REFUSED:
        return None
    try:
        return tuple(msgspec.convert(data, dict[str, list[str]])[_MARK])
    except (msgspec.ValidationError, KeyError):
        return None
