"""A connection through the official SDK: its session on a pair of streams."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.abc import TaskStatus
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    URL_ELICITATION_REQUIRED,
    CallToolRequest,
    CallToolRequestParams,
    ElicitRequestParams,
    ErrorData,
    GetPromptRequest,
    GetPromptRequestParams,
    Implementation,
    ListPromptsRequest,
    ListResourcesRequest,
    ListResourceTemplatesRequest,
    ListRootsResult,
    ListToolsRequest,
    LoggingMessageNotificationParams,
    PaginatedRequestParams,
    ReadResourceRequest,
    ReadResourceRequestParams,
    Request,
    Result,
    Root,
)
from pydantic import FileUrl, ValidationError

from alhena.display_text import one_line
from alhena.mcp.connection import (
    MAX_ENTRIES,
    SESSION_LOST,
    ListPages,
    McpConnectError,
    McpForgottenError,
    McpLostError,
    McpRefusedError,
    McpScopeError,
    McpTimeoutError,
    Progress,
    ServerEvents,
    SessionFacts,
    Subject,
    refused_scopes,
    says_session_lost,
)
from alhena.mcp.elicitation import (
    CREATE,
    MAX_WAITING,
    ConnectionQuestions,
    OpenCall,
    without_values,
)
from alhena.mcp.message_guard import NO_ANSWER
from alhena.version import __version__
from alhena.wire.json_values import as_array, as_object

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_PAGES = 100
TEMPLATES_S = 5.0
"""Seconds for the list of resource templates, which many servers do not have."""

MAX_ROUNDS = 20
"""Times that one call is sent, with what the server asks for in between."""

MAX_SAID = 500
"""Maximum characters of a server's error message."""

_LISTS = {
    Subject.TOOLS: ListToolsRequest,
    Subject.PROMPTS: ListPromptsRequest,
    Subject.RESOURCES: ListResourcesRequest,
}
_CHANGED = {
    "notifications/tools/list_changed": Subject.TOOLS,
    "notifications/prompts/list_changed": Subject.PROMPTS,
    "notifications/resources/list_changed": Subject.RESOURCES,
}
_EMPTY: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": []},
    "prompts/list": {"prompts": []},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "tools/call": {"content": []},
    "prompts/get": {"messages": []},
    "resources/read": {"contents": []},
}
_BESIDE = ("resultType", "ttlMs", "cacheScope")
"""Fields that later protocol revisions require beside the result."""

_REAL = "alhena/result"
_CLOSED = "Connection closed"
_STREAM = "SSE stream "
"""Prefix of the SDK's own error messages about lost streams."""

T = TypeVar("T")

for _name in ("mcp", "client"):
    # Without a handler their log records would go to stderr.
    logging.getLogger(_name).addHandler(logging.NullHandler())


@asynccontextmanager
async def open_session(
    transport: "AbstractAsyncContextManager[TransportStreams]",
    facts: SessionFacts,
    events: ServerEvents,
) -> AsyncGenerator["SdkConnection"]:
    """Initializes a session over a transport. Raises McpError and the errors of the transport."""

    async def unreadable(error: Exception) -> None:
        events.note(one_line(str(error), MAX_SAID))

    async def heard(message: IncomingMessage) -> None:
        if not isinstance(message, Exception):
            subject = _CHANGED.get(message.method)
            if subject is not None:
                events.changed(subject)

    async def note_log(params: LoggingMessageNotificationParams) -> None:
        text = params.data if isinstance(params.data, str) else repr(params.data)
        events.note(one_line(f"{params.level}: {text[:MAX_SAID]}", MAX_SAID))

    async def roots(context: ClientRequestContext) -> ListRootsResult:
        del context
        return ListRootsResult(roots=[Root(uri=FileUrl(_uri(path))) for path in facts.roots])

    async def declare_elicitation(
        context: ClientRequestContext, params: ElicitRequestParams
    ) -> ErrorData:
        """Declares that there is someone to ask; the dispatcher takes the questions."""
        raise NotImplementedError(context, params)

    async with transport as (reading, writing):
        asking = ConnectionQuestions(facts.questions)
        inline = EveryMethod()
        inline.asking = asking
        dispatcher = RawDispatcher(
            reading, writing, inline_methods=inline, on_stream_exception=unreadable
        )
        dispatcher.asking = asking
        dispatcher.ended = lambda: events.lost("the connection was closed")
        dispatcher.heard = events.heard
        session = ClientSession(
            dispatcher=dispatcher,
            message_handler=heard,
            logging_callback=note_log,
            list_roots_callback=roots,
            elicitation_callback=declare_elicitation if facts.questions.answerable else None,
            client_info=Implementation(name="alhena", version=__version__),
        )
        async with session:
            await _shake_hands(session)
            yield SdkConnection(session, facts, events, asking)


class EveryMethod(frozenset[str]):
    """All methods: a server that asks without reading the answers has to wait. Messages are read on
    while a person is asked."""

    asking: ConnectionQuestions

    def __contains__(self, method: object) -> bool:
        return method != CREATE or self.asking.crowded


class RawDispatcher(JSONRPCDispatcher):
    """Passes results by the SDK's validation, to which one invalid tool or block would be reason to
    drop the whole result: the SDK gets an empty result with the real one in its `_meta`. Calls
    `ended` at the end of the messages."""

    ended: Callable[[], None]
    asking: ConnectionQuestions
    heard: Callable[[str, Mapping[str, Any]], None] | None = None

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Sends a request and returns its result, possibly as `_meta` of an empty one. Raises
        McpTimeoutError: of the SDK's own error it has no telling whether the server sent it."""
        given: Any = dict(opts or {})
        limit = given.pop("timeout", None)
        try:
            async with asyncio.timeout(limit):
                result = await super().send_raw_request(method, params, given, **more)
        except TimeoutError as error:
            raise _late(limit or 0) from error
        if method not in _EMPTY:
            return result
        beside = {key: result[key] for key in _BESIDE if key in result}
        if result.get("resultType", "complete") != "complete":  # read by `SdkConnection`
            beside = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return _EMPTY[method] | {"_meta": {_REAL: result}} | beside

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Reads messages until their end."""

        async def handle_notification(
            context: Any, method: str, params: Mapping[str, Any] | None
        ) -> None:
            if self.heard is not None:
                self.heard(method, params or {})
            await on_notify(context, method, params)

        async def handle_request(
            context: Any, method: str, params: Mapping[str, Any] | None
        ) -> dict[str, Any]:
            if method == CREATE:
                return await self.asking.answer_unsolicited(params or {})
            return await on_request(context, method, params)

        await super().run(
            handle_request, handle_notification, on_notify_intercept, task_status=task_status
        )
        self.ended()


class SdkConnection:
    """An initialized connection to a server. Methods raise McpError; cancelling a call notifies
    the server."""

    def __init__(
        self,
        session: ClientSession,
        facts: SessionFacts,
        events: ServerEvents,
        asking: ConnectionQuestions,
    ) -> None:
        self._session = session
        self._asking = asking
        self._roots = facts.roots
        self._timeout_s = facts.timeout_s
        self._longest_s = max(facts.timeout_s, facts.longest_s)
        self._events = events

    @property
    def instructions(self) -> str:
        """The server's instructions for models."""
        return self._session.instructions or ""

    @property
    def changes_tools(self) -> bool:
        """True when the server announces that its tools may change."""
        told = self._session.server_capabilities
        tools = None if told is None else told.tools
        return bool(tools and tools.list_changed)

    @property
    def subjects(self) -> frozenset[Subject]:
        """The lists that the server announces."""
        told = self._session.server_capabilities
        return frozenset(each for each in Subject if getattr(told, each, None) is not None)

    async def pages(self, subject: Subject) -> ListPages:
        """Fetches all entries of a list, page by page."""
        return await self._pages(_LISTS[subject], subject)

    async def template_pages(self) -> ListPages:
        """Fetches all resource templates; none where the server gives none, whatever it says."""
        try:
            async with asyncio.timeout(TEMPLATES_S):
                return await self._pages(ListResourceTemplatesRequest, "resourceTemplates")
        except (McpRefusedError, TimeoutError) as error:
            said = str(error) or f"it did not answer within {TEMPLATES_S:g} s"
            self._events.note(f"its resource templates cannot be listed: {said}")
            return ListPages()

    async def _pages(self, request: Any, key: str) -> ListPages:
        entries: list[object] = []
        problems: list[str] = []
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
            try:
                page = await self._ask(request(params=params))
            except McpRefusedError as error:
                if error.code == METHOD_NOT_FOUND:
                    break
                raise
            found: object = page.get(key)
            if not isinstance(found, list):
                problems.append(f"a page of its {key} contains no list of them")
                break
            entries += found
            cursor = _next(page)
            if cursor is None:
                break
            if cursor in seen:
                problems.append(f"its list of {key} leads back to a page that was there before")
                break
            seen.add(cursor)
            if len(entries) >= MAX_ENTRIES:
                break
        if (cursor is not None or len(entries) > MAX_ENTRIES) and not problems:
            problems.append(f"it has more {key} than are taken ({min(len(entries), MAX_ENTRIES)})")
        return ListPages(tuple(entries[:MAX_ENTRIES]), tuple(problems))

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        progress: Progress | None = None,
        traceparent: str = "",
    ) -> dict[str, Any]:
        """Calls a tool and returns the raw result; behind it, as text, the questions of the server
        that no one could answer."""
        call = OpenCall(self._timeout_s)
        meta: Any = {"traceparent": traceparent} if traceparent else None

        async def send(more: dict[str, Any]) -> dict[str, Any]:
            params = CallToolRequestParams(name=name, arguments=arguments, _meta=meta, **more)
            return await self._call(CallToolRequest(params=params), call, progress)

        server = self._asking.questions.server
        try:
            result = await self._send_until_complete(send, call)
        except McpRefusedError as error:
            said = without_values(error.message, self._asking.secrets)
            note = call.note(server)
            message = f"{said} {note}" if note else said
            raise McpRefusedError(message, error.code, error.data) from error
        if note := call.note(server):
            blocks = as_array(result.get("content")) or []
            result = result | {"content": [*blocks, {"type": "text", "text": note}]}
        return result

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        """Returns a prompt with its arguments filled in, as the server sent it."""

        async def send(more: dict[str, Any]) -> dict[str, Any]:
            params = GetPromptRequestParams(name=name, arguments=arguments, **more)
            return await self._ask(GetPromptRequest(params=params))

        return await self._send_until_complete(send, OpenCall(self._timeout_s))

    async def read_resource(self, uri: str) -> dict[str, Any]:
        """Returns the raw contents of a resource."""

        async def send(more: dict[str, Any]) -> dict[str, Any]:
            params = ReadResourceRequestParams(uri=uri, **more)
            return await self._ask(ReadResourceRequest(params=params))

        return await self._send_until_complete(send, OpenCall(self._timeout_s))

    async def _send_until_complete(
        self, send: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]], call: OpenCall
    ) -> dict[str, Any]:
        """Sends a request again with what the server asks for, until it has a result."""
        more: dict[str, Any] = {}
        with self._asking.during(call):
            for _ in range(MAX_ROUNDS):
                try:
                    result = await send(more)
                except McpRefusedError as error:
                    if error.code != URL_ELICITATION_REQUIRED:
                        raise
                    if not await self._open_links(error, call):
                        raise
                    continue
                match result.get("resultType", "complete"):
                    case "complete":
                        return without_values(result, self._asking.secrets)
                    case "input_required":
                        more = await self._input(result, call)
                    case other:
                        kind = one_line(repr(other), MAX_SAID)
                        raise McpRefusedError(f"it gave a result of the unknown kind {kind}", 0)
        raise McpRefusedError(f"it asked for more input {MAX_ROUNDS} times in one call", 0)

    async def _input(self, result: dict[str, Any], call: OpenCall) -> dict[str, Any]:
        """The parameters that answer a result which requires input."""
        requests = as_object(result.get("inputRequests")) or {}
        state: object = result.get("requestState")
        if not requests and state is None:
            raise McpRefusedError("it requires input, but does not say what for", 0)
        more: dict[str, Any] = {} if state is None else {"request_state": state}
        responses: dict[str, Any] = {}
        for key, request in requests.items():
            given = as_object(request) or {}
            match given.get("method"):
                case "elicitation/create":
                    params = as_object(given.get("params")) or {}
                    responses[key] = await self._asking.put(params, (call,))
                case "roots/list":
                    responses[key] = {"roots": [{"uri": _uri(path)} for path in self._roots]}
                case other:
                    kind = one_line(repr(other), MAX_SAID)
                    raise McpRefusedError(f"it requires {kind}, which is not supported", 0)
        return more | {"input_responses": responses} if responses else more

    async def _open_links(self, error: McpRefusedError, call: OpenCall) -> bool:
        """Asks to open the links that a server requires first; False when one is not opened."""
        links = as_array((as_object(error.data) or {}).get("elicitations")) or []
        for link in links[:MAX_WAITING]:
            reply = await self._asking.put((as_object(link) or {}) | {"mode": "url"}, (call,))
            if reply["action"] != "accept":
                return False
        return bool(links)

    async def _call(
        self, request: CallToolRequest, call: OpenCall, progress: Progress | None
    ) -> dict[str, Any]:
        """Sends a call; each progress report restarts its timeout."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._longest_s
        patience = call.patience = asyncio.timeout(self._timeout_s)

        async def report_progress(done: float, total: float | None, message: str | None) -> None:
            if call.patience is patience and not patience.expired() and not self._asking.waits:
                patience.reschedule(min(loop.time() + self._timeout_s, end))
            if progress is not None:
                line = _progress_line(done, total, message)
                progress(without_values(line, self._asking.secrets))

        try:
            async with patience:
                return await self._ask(request, report_progress, self._longest_s)
        except TimeoutError as error:
            over = loop.time() >= end
            raise _late(self._longest_s if over else self._timeout_s) from error
        finally:
            call.patience = None

    async def _ask(
        self, request: Request[Any, Any], progress: Any = None, longest_s: float | None = None
    ) -> dict[str, Any]:
        timeout_s = self._timeout_s if longest_s is None else longest_s
        sending = self._session.send_request(
            request,
            Result,
            request_read_timeout_seconds=timeout_s,
            progress_callback=progress,
        )
        try:
            result = await _answer(sending)
        except McpLostError as error:
            self._events.lost(error.message)
            raise
        return (result.meta or {}).get(_REAL, {})


async def _shake_hands(session: ClientSession) -> None:
    """Performs the common handshake, or the newer one for servers that require it."""
    try:
        try:
            await session.initialize()
        except MCPError as error:
            if error.code not in (UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND):
                raise
            await session.discover()
    except MCPError as error:
        raise McpConnectError(f"it refused the handshake: {_describe_error(error)}") from error
    except (ValidationError, RuntimeError) as error:
        first = _first_problem(error)
        raise McpConnectError(f"its handshake cannot be understood: {first}") from error


async def _answer(sending: Awaitable[T]) -> T:
    try:
        return await sending
    except MCPError as error:
        if error.code == SESSION_LOST or says_session_lost(error.message):
            raise McpForgottenError(one_line(error.message, MAX_SAID)) from error
        scopes = refused_scopes(error.code, error.data)
        if scopes is not None:
            raise McpScopeError(error.message, scopes=scopes) from error
        if _is_loss(error):
            raise McpLostError("the connection was closed before it answered") from error
        raise McpRefusedError(_describe_error(error), error.code, error.data) from error
    except ValidationError as error:
        raise McpRefusedError(NO_ANSWER, 0) from error
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError) as error:
        raise McpLostError("the connection is closed") from error


def _late(timeout_s: float) -> McpTimeoutError:
    return McpTimeoutError(f"it did not answer within {timeout_s:g} s")


def _is_loss(error: MCPError) -> bool:
    """True when the connection has ended. Servers use the SDK's code for other errors too."""
    known = error.message == _CLOSED or error.message.startswith(_STREAM)
    return error.code == CONNECTION_CLOSED and known


def _describe_error(error: MCPError) -> str:
    if error.code == PARSE_ERROR and "validation error" in error.message:
        return NO_ANSWER
    return f"MCP error {error.code}: {one_line(error.message, MAX_SAID)}"


def _first_problem(error: ValidationError | RuntimeError) -> str:
    """The first problem of a message, in a few words."""
    if isinstance(error, RuntimeError):
        return one_line(str(error), MAX_SAID)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(each) for each in first["loc"])
    return one_line(f"{place}: {first['msg']}", MAX_SAID)


def _next(page: dict[str, Any]) -> str | None:
    cursor: object = page.get("nextCursor")
    return cursor if isinstance(cursor, str) and cursor else None


def _progress_line(done: float, total: float | None, message: str | None) -> str:
    counted = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return f"{counted}: {message[:MAX_SAID]}\n" if message else f"{counted}\n"


def _uri(path: str) -> str:
    from pathlib import Path

    return Path(path).as_uri()
