"""A remote agent of the official A2A package on loopback, played by a function."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Play = Callable[["Stage"], Awaitable[None]]


@dataclass
class Stage:
    """One message to the agent, and what it may do about it."""

    said: str
    task: TaskUpdater
    queue: EventQueue
    is_new: bool

    async def begin(self) -> None:
        """The task exists from now on."""
        if self.is_new:
            status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            await self.queue.enqueue_event(
                Task(id=self.task.task_id, context_id=self.task.context_id, status=status)
            )

    def words(self, text: str) -> Message:
        return self.task.new_agent_message([Part(text=text)])

    async def answer(self, text: str) -> None:
        """Answers with a message, without a task."""
        message = Message(
            message_id="m",
            role=Role.ROLE_AGENT,
            parts=[Part(text=text)],
            context_id=self.task.context_id,
        )
        await self.queue.enqueue_event(message)


@dataclass
class Remote(AgentExecutor):
    """The agent; records what it is asked and cancelled."""

    play: Play
    url: str = ""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """The text, the id of the task and that of the context."""
    cancelled: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    """The headers of each request, the card's included."""
    paths: list[str] = field(default_factory=list)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task_id, context_id = context.task_id or "", context.context_id or ""
        self.asked.append((context.get_user_input(), task_id, context_id))
        updater = TaskUpdater(event_queue, task_id, context_id)
        is_new = context.current_task is None
        await self.play(Stage(context.get_user_input(), updater, event_queue, is_new))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.append(context.task_id or "")
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


Answer = Callable[[Request], Awaitable[Response | None]]


async def passes(_request: Request) -> Response | None:
    return None


@contextlib.asynccontextmanager
async def serving(
    play: Play,
    *,
    streaming: bool = True,
    binding: str = "JSONRPC",
    version: str = "1.0",
    place: str | None = None,
    first: Answer = passes,
) -> AsyncIterator[Remote]:
    """Serves the agent for a block. `first` may answer a request instead of it; `place` is where
    the card says that the agent is."""
    remote = Remote(play)
    with listening() as sock:
        remote.url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        card = AgentCard(
            name="There",
            description="Helps.",
            version="1",
            supported_interfaces=[
                AgentInterface(
                    url=place or f"{remote.url}/a2a",
                    protocol_binding=binding,
                    protocol_version=version,
                )
            ],
            capabilities=AgentCapabilities(streaming=streaming),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[AgentSkill(id="s", name="Counts", description="Counts.", tags=["x"])],
        )
        handler = DefaultRequestHandler(remote, InMemoryTaskStore(), card)
        agent = (
            create_jsonrpc_routes(handler, "/a2a", enable_v0_3_compat=True)
            if binding == "JSONRPC"
            else create_rest_routes(handler, path_prefix="/a2a")
        )
        app = Starlette(routes=[*create_agent_card_routes(card), *agent])

        async def record_request(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            request = Request(scope, receive)
            remote.headers.append(dict(request.headers))
            remote.paths.append(request.url.path)
            response = await first(request)
            await (response or app)(scope, receive, send)

        async with running(record_request, sock):
            yield remote


@contextlib.asynccontextmanager
async def answering(
    routes: dict[str, Callable[[Request], Awaitable[Response]]],
) -> AsyncIterator[str]:
    """Serves functions by path; yields the address."""
    listed: Iterable[Route] = (
        Route(path, answer, methods=["GET", "POST"]) for path, answer in routes.items()
    )
    with listening() as sock:
        async with running(Starlette(routes=list(listed)), sock):
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"


@contextlib.contextmanager
def listening() -> Any:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock


@contextlib.asynccontextmanager
async def running(app: Any, sock: socket.socket) -> AsyncIterator[None]:
    config = uvicorn.Config(
        app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1, ws="none"
    )
    server = uvicorn.Server(config)
    with contextlib.ExitStack() as stack:
        task = asyncio.create_task(server._serve([sock]))
        stack.callback(task.cancel)
        while not server.started:
            await asyncio.sleep(0.001)
        try:
            yield
        finally:
            server.should_exit = True
            await task
