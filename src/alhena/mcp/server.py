"""One server of a session: connects in the background, tracks its offer, makes calls, reconnects.

A dedicated task owns the connection. Calls may come from anywhere: they use the connection, or make
the task open a new one.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from alhena.config.mcp_servers import McpServer
from alhena.display_text import one_line as shown_line
from alhena.mcp.connection import (
    ListedPrompt,
    ListedResource,
    ListedTool,
    McpAuthError,
    McpAwayError,
    McpError,
    McpForgottenError,
    McpLostError,
    McpScopeError,
    McpTimeoutError,
    Progress,
    ServerEvents,
    Subject,
    root_cause,
    scope_remedy,
)
from alhena.mcp.listing import (
    names_to_refuse,
    parse_prompts,
    parse_resources,
    parse_templates,
    parse_tools,
)
from alhena.mcp.opening import Open
from alhena.tools.threads import Boundary, one_line

if TYPE_CHECKING:
    from alhena.mcp.sdk import SdkConnection

CLOSING_S = 2.0
"""Seconds after which closing a connection is tried again."""

CLOSING_ROUNDS = 4
"""Number of attempts before it is abandoned; its child ends with the session's process groups."""

CLOSED = "it was closed"
MAX_NOTES = 20
MAX_NOTE = 300
MAX_KEPT_NOTE = 4_000
MAX_WHY = 600
"""Maximum characters of the reason."""

T = TypeVar("T")


class ServerState(StrEnum):
    """The connection state of a server."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    NEEDS_AUTH = "needs_auth"
    DISABLED = "disabled"


class ServerOffer(msgspec.Struct, frozen=True, kw_only=True):
    """The lists of a server. `left_out` maps unusable tools to the reasons, `problems` are those of
    its lists. A template has the pattern of its URIs. `instructions` are for models.
    `changes_tools`: the server announces that its tools may change."""

    tools: tuple[ListedTool, ...] = ()
    prompts: tuple[ListedPrompt, ...] = ()
    resources: tuple[ListedResource, ...] = ()
    templates: tuple[ListedResource, ...] = ()
    left_out: dict[str, str] = {}
    problems: tuple[str, ...] = ()
    instructions: str = ""
    changes_tools: bool = False

    @property
    def is_empty(self) -> bool:
        """True without tools, prompts, resources and templates of them."""
        return not (self.tools or self.prompts or self.resources or self.templates)


class ServerPace(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: `connect` is the timeout of a connection with its lists; changed lists are read at
    most every `relist` seconds. A server that was there and is away is tried again after each of
    `restart`."""

    connect: float = 60.0
    relist: float = 1.0
    restart: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)


class Server:
    """`changed` is called in the loop whenever state or offer change. `notes` are the latest
    diagnostics, `last_loss` is the reason the last connection ended, and `refusal` names the
    permissions a call lacked. `harmless` redacts diagnostics."""

    def __init__(
        self,
        name: str,
        config: McpServer,
        open_: Open,
        changed: Callable[["Server"], None],
        pace: ServerPace | None = None,
    ) -> None:
        self.name = name
        self.config = config
        self.state = ServerState.DISCONNECTED
        self.why = "not connected yet"
        self.challenge = ""
        self.refusal = ""
        self.last_loss = ""
        self.offer = ServerOffer()
        self.harmless: Callable[[str], str] = str
        self._notes: list[str] = []
        self.loaded = asyncio.Event()
        self.settled = asyncio.Event()
        self._open = open_
        self._changed = changed
        self.pace = pace or ServerPace()
        self._connection: SdkConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._state_news = asyncio.Event()
        self._dirty: set[Subject] = set()
        self._lost = ""
        self._wanted = False
        self._attempts = 0
        self._known = False  # it was connected to
        self._uses: Counter[SdkConnection] = Counter()  # requests on their way

    @property
    def notes(self) -> tuple[str, ...]:
        """The latest diagnostics."""
        return tuple(shown_line(self.harmless(note), MAX_NOTE) for note in self._notes)

    def start(self) -> None:
        """Starts connecting. Calling it again makes a disconnected server retry at once."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=f"mcp-{self.name}")
        elif self._connection is None and self.state is not ServerState.CONNECTING:
            self._wanted = True
            self._news.set()

    async def close(self) -> None:
        """Closes the connection, and kills the child with its process tree."""
        task, self._task = self._task, None
        for _ in range(CLOSING_ROUNDS):
            if task is None or task.done():
                return
            task.cancel()  # a server may keep the connection open
            await asyncio.wait({task}, timeout=CLOSING_S)

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        progress: Progress | None = None,
        traceparent: str = "",
    ) -> dict[str, Any]:
        """Calls a tool and returns the raw result. Raises McpError."""
        return await self._with(lambda each: each.call_tool(name, arguments, progress, traceparent))

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        """Returns a prompt with its arguments filled in. Raises McpError."""
        return await self._with(lambda each: each.get_prompt(name, arguments))

    async def read_resource(self, uri: str) -> dict[str, Any]:
        """Returns the raw contents of a resource. Raises McpError."""
        return await self._with(lambda each: each.read_resource(uri))

    async def _with(self, use: "Callable[[SdkConnection], Awaitable[T]]") -> T:
        connection = await self._require_connection()
        try:
            try:
                return await self._count_use(connection, use)
            except McpForgottenError as error:
                if self._connection is connection:
                    self._note_loss(str(error))
                return await self._count_use(await self._require_connection(), use)
        except McpLostError as error:
            why = self.last_loss
            known = why and why not in str(error)
            raise McpLostError(f"{error}: {why}" if known else str(error)) from error
        except McpScopeError as error:
            self.refusal = error.message
            self.note(error.message)
            self._changed(self)
            remedy = scope_remedy(self.name, self.config)
            raise McpScopeError(error.message, scopes=error.scopes, remedy=remedy) from error

    async def _count_use(
        self, connection: "SdkConnection", use: "Callable[[SdkConnection], Awaitable[T]]"
    ) -> T:
        self._uses[connection] += 1
        try:
            return await use(connection)
        finally:
            self._uses[connection] -= 1
            self._news.set()

    async def _require_connection(self) -> "SdkConnection":
        """Returns the connection, a new one if needed. Raises McpLostError."""
        connecting = self.state is ServerState.CONNECTING
        before = self._attempts - connecting  # an attempt under way is good enough
        while self._connection is None:
            if self._task is None or self._task.done():
                raise McpLostError(f"it is not connected ({self.why})")
            ended = self.state in {ServerState.DISCONNECTED, ServerState.NEEDS_AUTH}
            if ended and self._attempts > before:
                raise McpLostError(f"it cannot be connected to ({self.why})")
            if self.state is not ServerState.CONNECTING:
                self._wanted = True
                self._news.set()
            self._state_news.clear()
            await self._state_news.wait()
        return self._connection

    async def _run(self) -> None:
        """Connects at the start, and again when a call needs it."""
        try:
            while True:
                patience = self.pace.restart if self._known and self._wanted else ()
                for wait in (*patience, None):
                    if await self._attempt(last=wait is None) or wait is None:
                        break
                    await asyncio.sleep(wait)
                await self._until(None, lambda: self._wanted)
        finally:
            self._connection = None
            self._enter(ServerState.DISCONNECTED, CLOSED)

    async def _until(self, end: float | None, done: Callable[[], bool]) -> None:
        """Waits until `done` or until the loop time `end`."""
        while not done():
            self._news.clear()
            try:
                async with asyncio.timeout_at(end):
                    await self._news.wait()
            except TimeoutError:
                return

    async def _attempt(self, *, last: bool = True) -> bool:
        """Runs one connection from start to end. Returns False for a server that is away, which is
        tried again unless this was the `last` attempt."""
        self._lost = self.refusal = ""
        self._wanted = False
        self._attempts += 1
        self._dirty.clear()
        self._news.clear()
        self._enter(ServerState.CONNECTING, "")
        boundary = Boundary()
        reached = False
        with boundary:
            async with asyncio.timeout(None) as deadline:
                events = self._events(deadline)
                async with self._open(self.name, self.config, events) as connection:
                    offer = await self._reload_lists(connection, frozenset(Subject))
                    deadline.reschedule(None)
                    reached = self._known = True
                    self._connection = connection
                    self.offer = offer
                    self._enter(ServerState.CONNECTED, "")
                    await self._attend(connection)
                    # Others may be told just now that the server has no such session.
                    end = asyncio.get_running_loop().time() + CLOSING_S
                    await self._until(end, lambda: not self._uses[connection])
                    del self._uses[connection]
        self._connection = None
        failure = boundary.failure
        if not last and not reached and isinstance(failure, McpAwayError):
            return False
        why = self._lost or self._reason(failure, reached=reached)
        why = shown_line(self.harmless(why), MAX_WHY)
        auth = isinstance(failure, McpAuthError)
        self.challenge = failure.challenge if isinstance(failure, McpAuthError) else ""
        self.note(why)
        self._enter(ServerState.NEEDS_AUTH if auth else ServerState.DISCONNECTED, why)
        return True

    def _reason(self, failure: Exception | None, *, reached: bool) -> str:
        if failure is None:
            return "the connection was closed"
        leaf = root_cause(failure)
        if isinstance(leaf, TimeoutError | McpTimeoutError) and not reached:
            return late(self.pace.connect)
        return str(leaf) if isinstance(leaf, McpError) else one_line(leaf)

    async def _attend(self, connection: "SdkConnection") -> None:
        """Reloads changed lists until the connection is lost."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        while not self._lost:
            await self._news.wait()
            self._news.clear()
            if self._lost or not self._dirty:
                continue
            # More changes may arrive while waiting; only a loss ends the wait.
            await self._until(last + self.pace.relist, lambda: bool(self._lost))
            if self._lost:
                return
            subjects, last = frozenset(self._dirty), loop.time()
            self._dirty.clear()
            try:
                self.offer = await self._reload_lists(connection, subjects)
            except McpLostError:
                return
            except McpError as error:
                self.note(f"its changed lists could not be read: {error}")
            self._changed(self)

    async def _reload_lists(
        self, connection: "SdkConnection", subjects: frozenset[Subject]
    ) -> ServerOffer:
        """The offer with these lists reloaded."""
        offer = msgspec.structs.replace(
            self.offer,
            problems=(),
            instructions=connection.instructions,
            changes_tools=connection.changes_tools,
        )
        for subject in Subject:
            if subject not in subjects:
                continue
            if subject not in connection.subjects:
                offer = _with_list(offer, subject, (), self.name, self.config)
                continue
            pages = await connection.pages(subject)
            offer = _with_list(offer, subject, pages.entries, self.name, self.config)
            problems = (*offer.problems, *pages.problems)
            if subject is Subject.RESOURCES:
                pages = await connection.template_pages()
                offer = msgspec.structs.replace(offer, templates=parse_templates(pages.entries))
                problems = (*problems, *pages.problems)
            offer = msgspec.structs.replace(offer, problems=problems)
        return offer

    def _events(self, deadline: asyncio.Timeout) -> ServerEvents:
        def mark_loaded() -> None:
            deadline.reschedule(asyncio.get_running_loop().time() + self.pace.connect)
            self.loaded.set()

        return ServerEvents(
            loaded=mark_loaded,
            changed=self._note_list_change,
            note=self.note,
            lost=self._note_loss,
            harmless=self.harmless,
        )

    def _note_list_change(self, subject: Subject) -> None:
        self._dirty.add(subject)
        self._news.set()

    def _note_loss(self, why: str) -> None:
        if not self._lost:
            self._lost = why
            self.last_loss = shown_line(self.harmless(why), MAX_WHY)
            self._connection = None
            self._news.set()

    @property
    def reason_so_far(self) -> str:
        """Why it is not connected, also while the remains of a lost connection are removed; "" if
        that is not known yet."""
        return self.last_loss if self._lost else ""

    def note(self, text: str) -> None:
        """Records a diagnostic message."""
        self._notes.append(shown_line(text, MAX_KEPT_NOTE))
        del self._notes[:-MAX_NOTES]

    def _enter(self, state: ServerState, why: str) -> None:
        self.state = state
        self.why = why
        if state is not ServerState.CONNECTING:
            self.loaded.set()
            self.settled.set()
        self._state_news.set()
        self._changed(self)


def late(seconds: float) -> str:
    """The message for a server that did not connect in time."""
    return f"it did not answer within {seconds:g} s"


def _with_list(
    offer: ServerOffer,
    subject: Subject,
    entries: tuple[object, ...],
    server: str,
    config: McpServer,
) -> ServerOffer:
    replace = msgspec.structs.replace
    match subject:
        case Subject.TOOLS:
            taken = parse_tools(
                entries,
                lambda tool: config.takes(tool, names_to_refuse((server, tool))),
                skip_untyped=config.skip_untyped,
            )
            return replace(offer, tools=taken.tools, left_out=taken.left_out)
        case Subject.PROMPTS:
            return replace(offer, prompts=parse_prompts(entries))
        case Subject.RESOURCES:
            return replace(offer, resources=parse_resources(entries), templates=())
