"""Lists the tools of a workbench to an MCP client, and runs its calls."""

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel.server import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from alhena.agent.workbench import Workbench
from alhena.events import Event, ToolOutputEvent
from alhena.frontends.mcp_server.answers import call_result
from alhena.frontends.mcp_server.asking import Question
from alhena.scheduler.confirmation import Answer, ConfirmationRequest
from alhena.scheduler.states import CompletedToolCall
from alhena.tools.contract import MUTATOR_KINDS, Kind
from alhena.tools.threads import Boundary
from alhena.version import __version__
from alhena.wire.calls import ToolCallRequestInfo

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

NOT_SERVED = frozenset({"ask_user", "enter_plan_mode", "exit_plan_mode"})
"""Tools that are about a conversation of our own."""
PATIENCE_S = 600.0
"""How long a question waits for a client that answers with another request."""
APPROVAL = "approval"

_READING = frozenset({Kind.READ, Kind.SEARCH, Kind.THINK, Kind.PLAN, Kind.FETCH})

# Without a handler of its own what the SDK logs, which may be a line for each request, would go to
# stderr.
logging.getLogger("mcp").addHandler(logging.NullHandler())

Opened = Callable[[bool], Workbench]
"""Opens the workbench; whether somebody can be asked."""


class Running:
    """A call of a client from its request to its result."""

    def __init__(self, task: "asyncio.Task[CompletedToolCall]") -> None:
        self.task = task
        self.questions: asyncio.Queue[Question] = asyncio.Queue()
        self.output: asyncio.Queue[str] = asyncio.Queue()

    async def next(self) -> "Question | CompletedToolCall":
        """The next question, or what the call came to."""
        asked = asyncio.ensure_future(self.questions.get())
        try:
            await asyncio.wait({self.task, asked}, return_when=asyncio.FIRST_COMPLETED)
            return asked.result() if asked.done() else self.task.result()
        finally:
            asked.cancel()


class ToolServer:
    """What answers an MCP client. `opened` is called with the first request, when it is known
    whether the client can ask a person. `emit` takes the events of calls."""

    def __init__(self, opened: Opened, emit: Callable[[Event], None]) -> None:
        self._opened = opened
        self._emit = emit
        self._bench: Workbench | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[str, tuple[Running, Question]] = {}

    def make(self) -> "Server[Any]":
        """The server, to be run over a transport."""
        return Server(
            "alhena",
            version=__version__,
            instructions=(
                "Tools for the files and the shell of one workspace. Each call is decided on by "
                "the workspace's policy; one that is denied says why."
            ),
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    def _served(self, context: "ServerRequestContext[Any]") -> Workbench:
        if self._bench is None:
            capabilities = context.session.client_capabilities
            able = capabilities is not None and capabilities.elicitation is not None
            self._bench = self._opened(able)
            self._bench.hide_denied()
        return self._bench

    async def _list(
        self, context: "ServerRequestContext[Any]", _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        bench = self._served(context)
        await bench.sources.gather()
        declared = {each.name: each for each in bench.registry.function_declarations()}
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
        bench = self._served(context)
        await bench.sources.gather()
        if params.request_state is not None:
            found = self._waiting.pop(params.request_state, None)
            if found is None:
                return _failed("The question that this answers is over; call the tool again.")
            running, question = found
            answer = (params.input_responses or {}).get(APPROVAL)
            question.take(answer if isinstance(answer, ElicitResult) else None)
        elif params.name in NOT_SERVED:
            return _failed(f'Tool "{params.name}" is not served.')
        else:
            running = self._start(bench, params)
        return await self._carry(context, running)

    def _start(self, bench: Workbench, params: CallToolRequestParams) -> Running:
        call_id = f"mcp-{next(self._numbers)}"

        def emit(event: Event) -> None:
            if isinstance(event, ToolOutputEvent):
                running.output.put_nowait(event.text)
            self._emit(event)

        async def ask(request: ConfirmationRequest) -> Answer:
            question = Question.about(request)
            running.questions.put_nowait(question)
            return await question.answer

        scheduler = bench.scheduler(emit, ask if bench.context.interactive else None)
        request = ToolCallRequestInfo(
            call_id=call_id,
            name=params.name,
            args=params.arguments or {},
            is_client_initiated=True,
        )

        async def carry() -> CompletedToolCall:
            return (await scheduler.schedule(request))[0]

        running = Running(asyncio.ensure_future(carry()))
        return running

    async def _carry(
        self, context: "ServerRequestContext[Any]", running: Running
    ) -> CallToolResult | InputRequiredResult:
        """The call's result, or a question that the client answers with another request."""
        telling = asyncio.ensure_future(_tell(context, running))
        kept = False
        try:
            while True:
                found = await running.next()
                if not isinstance(found, Question):
                    return call_result(found)
                form = found.form()
                if context.session.can_send_request:
                    found.take(await _answered(context, form))
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

    def _keep(self, running: Running, question: Question) -> None:
        """Waits for the answer; not for ever."""
        self._waiting[question.token] = (running, question)

        def over() -> None:
            if self._waiting.pop(question.token, None) is not None:
                question.take(None)

        asyncio.get_running_loop().call_later(PATIENCE_S, over)


async def _answered(
    context: "ServerRequestContext[Any]", form: ElicitRequestFormParams
) -> ElicitResult | None:
    """What the client answers; None where it does not in time, or not as it should."""
    boundary = Boundary()
    with boundary:
        async with asyncio.timeout(PATIENCE_S):
            return await context.session.elicit_form(form.message, form.requested_schema)
    return None


async def _tell(context: "ServerRequestContext[Any]", running: Running) -> None:
    """Sends live output as progress, where the client wants that."""
    for number in itertools.count(1):
        text = await running.output.get()
        await context.session.report_progress(number, message=text)


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)
