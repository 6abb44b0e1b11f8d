"""Lists the tools of a toolset to an MCP client, runs its calls, asks its person."""

import asyncio
import itertools
import logging
import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, assert_never

import msgspec
from mcp.server.lowlevel.server import Server
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from alhena.agent.toolset.toolset import Toolset
from alhena.display_text import escaped, exact, one_line
from alhena.events import Event, ToolOutputEvent, WarningEvent
from alhena.scheduler.question import Answer, ConfirmationRequest
from alhena.scheduler.states import CompletedToolCall, SuccessfulToolCall
from alhena.tools.contract import (
    MUTATOR_KINDS,
    AskUserConfirmation,
    EditConfirmation,
    ExecConfirmation,
    ExitPlanModeConfirmation,
    InfoConfirmation,
    Kind,
    McpConfirmation,
    ToolConfirmationOutcome,
)
from alhena.tools.registry import SEARCH_PAIR
from alhena.tools.threads import Boundary
from alhena.version import __version__
from alhena.wire.content import Blob, Part, ToolCallRequestInfo

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import ClientCapabilities

INLINE = "alhena:inline"
"""The address of a document that a result holds, for MCP wants one."""


def call_result(done: CompletedToolCall) -> CallToolResult:
    """The text the model would get, then media in their order. A call that did not succeed is an
    error, and the text says why."""
    blocks: list[ContentBlock] = []
    for part in done.response.response_parts:
        blocks += _blocks(part)
    return CallToolResult(content=blocks, is_error=not isinstance(done, SuccessfulToolCall))


def _blocks(part: Part) -> list[ContentBlock]:
    if part.function_response is not None:
        values = part.function_response.response
        text = str(values.get("output", values.get("error", "")))
        blocks: list[ContentBlock] = [TextContent(type="text", text=text)]
        inner = (each.inline_data for each in part.function_response.parts or ())
        return [*blocks, *(_media(blob) for blob in inner if blob is not None)]
    if part.inline_data is not None:
        return [_media(part.inline_data)]
    return [] if part.text is None else [TextContent(type="text", text=part.text)]


def _media(blob: Blob) -> ContentBlock:
    data = blob.data
    kind = blob.mime_type.partition("/")[0]
    if kind == "image":
        return ImageContent(type="image", data=data, mime_type=blob.mime_type)
    if kind == "audio":
        return AudioContent(type="audio", data=data, mime_type=blob.mime_type)
    resource = BlobResourceContents(uri=INLINE, mime_type=blob.mime_type, blob=data)
    return EmbeddedResource(type="resource", resource=resource)


WORDS = {
    ToolConfirmationOutcome.PROCEED_ONCE: "Allow once",
    ToolConfirmationOutcome.PROCEED_ALWAYS: "Allow from now on",
    ToolConfirmationOutcome.PROCEED_ALWAYS_AND_SAVE: "Allow from now on, in later sessions too",
    ToolConfirmationOutcome.PROCEED_ALWAYS_TOOL: "Allow this tool from now on",
    ToolConfirmationOutcome.PROCEED_ALWAYS_SERVER: "Allow this server from now on",
    ToolConfirmationOutcome.CANCEL: "Do not allow",
}
FIELD = "answer"


class PendingQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits. `token` names it where the answer comes with another request."""

    request: ConfirmationRequest
    answer: "asyncio.Future[Answer]"
    token: str

    @classmethod
    def about(cls, request: ConfirmationRequest) -> "PendingQuestion":
        """A question whose answer is still open."""
        made: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        return cls(request=request, answer=made, token=secrets.token_urlsafe(18))

    def form(self) -> ElicitRequestFormParams:
        """The question as a form with one field: what may be answered."""
        choices = [WORDS[each] for each in _outcomes(self.request)]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {FIELD: {"type": "string", "title": "Allow it?", "enum": choices}},
            "required": [FIELD],
        }
        return ElicitRequestFormParams(message=_message(self.request), requested_schema=schema)

    def take(self, result: ElicitResult | None) -> None:
        """Takes the client's answer; anything but one of the offered choices is a rejection."""
        if self.answer.done():
            return
        said = (result.content or {}).get(FIELD) if result and result.action == "accept" else None
        outcomes = _outcomes(self.request)
        chosen = next((each for each in outcomes if WORDS[each] == said), None)
        self.answer.set_result(Answer(chosen or ToolConfirmationOutcome.CANCEL))


def _outcomes(request: ConfirmationRequest) -> list[ToolConfirmationOutcome]:
    given = (ToolConfirmationOutcome(each) for each in request.outcomes)
    return [each for each in given if each in WORDS]


def _message(request: ConfirmationRequest) -> str:
    details, offered = request.details, _outcomes(request)
    lines = [one_line(details.title), *_request_lines(request)]
    if request.reason:
        lines.append(f"Asked because {one_line(request.reason)}")
    lines += (f"Warning: {one_line(each)}" for each in getattr(details, "warnings", ()))
    rules = [one_line(rule.words) for rule in request.lasting if rule.outcome in offered]
    lines += (f"From now on: {each}" for each in dict.fromkeys(rules))
    return "\n".join(filter(None, lines))


def _request_lines(request: ConfirmationRequest) -> list[str]:
    """The call, with nothing in it hidden."""
    match request.details:
        case ExecConfirmation() as details:
            return [*_where(request), escaped(details.command_shown, block=True)]
        case EditConfirmation() as details:
            return [_inline(details.file_path), exact(details.file_diff)]
        case InfoConfirmation() as details:
            return [exact(details.prompt), *map(_inline, details.urls)]
        case McpConfirmation() as details:
            args = msgspec.json.encode(details.tool_args).decode("utf-8")
            called = exact(f"{details.server_name}: {details.tool_name}({args})")
            server = exact(", ".join(details.server))
            return [called, f"The server is: {server}"] if server else [called]
        case AskUserConfirmation() | ExitPlanModeConfirmation():
            return []
        case _:
            assert_never(request.details)


def _where(request: ConfirmationRequest) -> Iterator[str]:
    directory = request.args.get("directory")
    if isinstance(directory, str) and directory:
        yield f"In the directory {_inline(directory)}"
    if request.args.get("is_background"):
        yield "In the background"


def _inline(text: str) -> str:
    """All of a text on one line, nothing in it hidden."""
    return escaped(exact(text))


NOT_SERVED = frozenset({"ask_user", "enter_plan_mode", "exit_plan_mode"})
"""Tools that are about a conversation of our own."""
PATIENCE_S = 600.0
"""Time a question waits for a client that answers with another request."""
APPROVAL = "approval"

_READING = frozenset({Kind.READ, Kind.SEARCH, Kind.THINK, Kind.PLAN, Kind.FETCH})

# Without a handler of its own what the SDK logs, which may be a line for each request, would go to
# stderr.
logging.getLogger("mcp").addHandler(logging.NullHandler())

_NO_APPROVER = "approval is needed and the client cannot ask a person (no elicitation)"

Opened = Callable[[bool], Toolset]
"""Opens the toolset; True if a person can be asked."""


class ClientCall:
    """A call of a client from its request to its result."""

    def __init__(self, task: "asyncio.Task[CompletedToolCall]") -> None:
        self.task = task
        self.questions: asyncio.Queue[PendingQuestion] = asyncio.Queue()
        self.output: asyncio.Queue[str] = asyncio.Queue()

    async def next(self) -> "PendingQuestion | CompletedToolCall":
        """The next question, or what the call came to."""
        asked = asyncio.ensure_future(self.questions.get())
        try:
            await asyncio.wait({self.task, asked}, return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else self.task.result()
        finally:
            asked.cancel()


class ToolServer:
    """The MCP server. `opened` is called with the first request, when it is known whether the
    client can ask a person. `emit` takes the events of calls."""

    def __init__(self, opened: Opened, emit: Callable[[Event], None]) -> None:
        self._opened = opened
        self._emit = emit
        self._bench: Toolset | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[str, tuple[ClientCall, PendingQuestion]] = {}
        self._missing: dict[str, str] = {}

    def make(self) -> "Server[Any]":
        """The server, to be run over a transport."""
        return Server(
            "alhena",
            version=__version__,
            instructions=(
                "Tools for the files and the shell of one workspace. Each call is decided on by "
                "the workspace's policy; one that is denied says why. Tools that need approval are "
                "served if the client supports elicitation, or if the server was started with "
                "--allowed-tools or --approval-mode for them."
            ),
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    def _toolset(self, context: "ServerRequestContext[Any]") -> Toolset:
        if self._bench is None:
            able = _asks_by_form(context.session.client_capabilities)
            self._bench = self._opened(able)
            if not able:
                self._note_missing(self._bench)
            self._bench.hide_denied()
        return self._bench

    def _note_missing(self, bench: Toolset) -> None:
        """Notes and reports the tools that are left out because the client cannot ask a person."""
        names: list[str] = []
        for tool in bench.registry.all_tools:
            if tool.name in NOT_SERVED or not bench.needs_a_person(tool):
                continue
            names.append(tool.name)
            entry = bench.registry.find(tool.name)
            known = (tool.name,) if entry is None else entry.names
            self._missing |= dict.fromkeys((tool.name, *known), tool.name)
        if names:
            told = f"tools that are not served, as {_NO_APPROVER}: {', '.join(names)}."
            remedy = "To serve one: --allowed-tools NAME, or --approval-mode."
            self._emit(WarningEvent(message=f"{told} {remedy}"))

    async def _list(
        self, context: "ServerRequestContext[Any]", _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        bench = self._toolset(context)
        await bench.sources.gather()
        names = [name for name in bench.registry.names if name not in SEARCH_PAIR]
        declared = {each.name: each for each in bench.registry.function_declarations(names)}
        tools: list[Tool] = []
        for tool in bench.registry.all_tools:
            found = declared.get(tool.name)
            if found is None or tool.name in NOT_SERVED:
                continue
            tools.append(
                Tool(
                    name=found.name,
                    title=tool.display_name,
                    description=found.description,
                    input_schema=found.parameters_json_schema or {"type": "object"},
                    annotations=ToolAnnotations(
                        read_only_hint=tool.kind in _READING,
                        destructive_hint=tool.kind in MUTATOR_KINDS,
                        open_world_hint=tool.kind in {Kind.EXECUTE, Kind.FETCH},
                    ),
                )
            )
        return ListToolsResult(tools=tools)

    async def _call(
        self, context: "ServerRequestContext[Any]", params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        bench = self._toolset(context)
        await bench.sources.gather()
        if params.request_state is not None:
            found = self._waiting.pop(params.request_state, None)
            if found is None:
                return _error_result("The question that this answers is over; call the tool again.")
            running, question = found
            answer = (params.input_responses or {}).get(APPROVAL)
            question.take(answer if isinstance(answer, ElicitResult) else None)
        elif params.name in NOT_SERVED:
            return _error_result(f'Tool "{params.name}" is not served.')
        elif name := self._missing.get(params.name):
            return _error_result(
                f'Tool "{name}" is not served, as {_NO_APPROVER}. Start the server with '
                f"--allowed-tools {name}, or with an --approval-mode that allows it."
            )
        else:
            running = self._start(bench, params)
        return await self._carry(context, running)

    def _start(self, bench: Toolset, params: CallToolRequestParams) -> ClientCall:
        call_id = f"mcp-{next(self._numbers)}"

        def emit(event: Event) -> None:
            if isinstance(event, ToolOutputEvent):
                running.output.put_nowait(event.text)
            self._emit(event)

        async def ask(request: ConfirmationRequest) -> Answer:
            question = PendingQuestion.about(request)
            running.questions.put_nowait(question)
            return await question.answer

        scheduler = bench.scheduler(emit, ask if bench.authority.context.interactive else None)
        request = ToolCallRequestInfo(
            call_id=call_id,
            name=params.name,
            args=params.arguments or {},
            is_client_initiated=True,
        )

        async def carry() -> CompletedToolCall:
            return (await scheduler.schedule(request))[0]

        running = ClientCall(asyncio.ensure_future(carry()))
        return running

    async def _carry(
        self, context: "ServerRequestContext[Any]", running: ClientCall
    ) -> CallToolResult | InputRequiredResult:
        """The call's result, or a question that the client answers with another request."""
        telling = asyncio.ensure_future(_tell(context, running))
        kept = False
        try:
            while True:
                found = await running.next()
                if not isinstance(found, PendingQuestion):
                    return call_result(found)
                form = found.form()
                if context.session.can_send_request:
                    found.take(await _elicit_answer(context, form))
                    continue
                self._keep(running, found)
                kept = True
                return InputRequiredResult(
                    input_requests={APPROVAL: ElicitRequest(params=form)}, request_state=found.token
                )
        finally:
            telling.cancel()
            if not kept:
                running.task.cancel()

    def _keep(self, running: ClientCall, question: PendingQuestion) -> None:
        """Waits for the answer; not for ever."""
        self._waiting[question.token] = (running, question)

        def over() -> None:
            if self._waiting.pop(question.token, None) is not None:
                question.take(None)

        asyncio.get_running_loop().call_later(PATIENCE_S, over)


def _asks_by_form(capabilities: "ClientCapabilities | None") -> bool:
    """True for a client that can put a form to a person."""
    elicits = None if capabilities is None else capabilities.elicitation
    return elicits is not None and (elicits.form is not None or elicits.url is None)


async def _elicit_answer(
    context: "ServerRequestContext[Any]", form: ElicitRequestFormParams
) -> ElicitResult | None:
    """The client's answer; None if it is late or malformed."""
    boundary = Boundary()
    with boundary:
        async with asyncio.timeout(PATIENCE_S):
            return await context.session.elicit_form(form.message, form.requested_schema)
    return None


async def _tell(context: "ServerRequestContext[Any]", running: ClientCall) -> None:
    """Sends live output as progress, where the client wants that."""
    for number in itertools.count(1):
        text = await running.output.get()
        await context.session.report_progress(number, message=text)


def _error_result(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
