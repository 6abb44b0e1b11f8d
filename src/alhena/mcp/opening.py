"""Opens the connection to a server from its settings."""

import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from alhena.config.environment import without_secrets
from alhena.config.mcp_servers import McpServer, McpTransport
from alhena.config.settings import EnvironmentRedaction
from alhena.mcp.connection import (
    McpAuthError,
    McpAwayError,
    McpConnectError,
    McpError,
    ServerEvents,
    SessionFacts,
    root_cause,
    scope_words,
    wanted_scopes,
)
from alhena.system.environment import child_environment
from alhena.system.processes import ProcessCommand, ProcessGroups
from alhena.tools.threads import Boundary, one_line

if TYPE_CHECKING:
    import httpx2

    from alhena.mcp.http import Answers
    from alhena.mcp.sdk import SdkConnection
    from alhena.tools.builtin.ask_user import Ask

WhyHeld = Callable[[str], str]
"""Returns the reason why the named server may no longer start; "" if it may. Reads files."""

TIMEOUT_S = 600.0
"""Default timeout of an answer in seconds."""

LONGEST_S = 3_600.0
"""Maximum seconds of a call, including progress extensions."""

Open = Callable[[str, McpServer, ServerEvents], "AbstractAsyncContextManager[SdkConnection]"]
"""Server name, settings, event callbacks -> the connection."""

Auth = Callable[[str, McpServer], "httpx2.Auth | None"]
"""Builds the authentication for an HTTP server; None for none."""


class ServerEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """The environment servers start in. `cwd` is the default working directory; `roots` are the
    workspace directories. `why_held` is checked right before each start; None: no check. `ask`
    puts questions of servers to a person; None: there is no one."""

    environ: Mapping[str, str]
    redaction: EnvironmentRedaction
    cwd: str
    roots: tuple[str, ...]
    groups: ProcessGroups
    auth: Auth | None = None
    why_held: WhyHeld | None = None
    longest_s: float = LONGEST_S
    in_process: Mapping[str, Any] = {}
    ask: "Ask | None" = None


def opener(around: ServerEnvironment) -> Open:
    """Returns a function that opens connections; the first call imports the SDK in a thread."""

    @asynccontextmanager
    async def open_connection(
        name: str, server: McpServer, events: ServerEvents
    ) -> AsyncGenerator["SdkConnection"]:
        await _require_accepted(name, around.why_held)
        timeout_s = TIMEOUT_S if server.timeout is None else server.timeout / 1000
        from alhena.mcp.elicitation import ServerQuestions

        facts = SessionFacts(
            roots=around.roots,
            timeout_s=timeout_s,
            longest_s=around.longest_s,
            questions=ServerQuestions(name, around.ask),
        )
        if name in around.in_process:
            opening = _in_process(around.in_process[name], facts, events)
        elif server.transport is McpTransport.STDIO:
            opening = _over_stdio(name, server, around, facts, events)
        else:
            auth = None if around.auth is None else around.auth(name, server)
            opening = over_http(server, auth, facts, events)
        async with opening as connection:
            yield connection

    return open_connection


async def _import_sdk() -> None:
    """Imports the SDK in a thread: it takes most of a second."""
    from alhena.threads import in_daemon_thread

    await in_daemon_thread(_import_client)


def _import_client() -> None:
    """Imports the client part of the SDK. Imports by its packages of the server part are deferred
    until one of their names is used."""
    import gc
    import importlib
    import sys
    from importlib.util import find_spec, module_from_spec

    for name in ("mcp", "mcp.client"):
        if name not in sys.modules and (spec := find_spec(name)) is not None:
            package = module_from_spec(spec)
            package.__class__ = LatePackage
            sys.modules[name] = package
    collects = gc.isenabled()
    gc.disable()  # thousands of new classes, no garbage
    try:
        importlib.import_module("alhena.mcp.sdk")
    except ImportError as error:
        from alhena.distribution import require_mcp
        from alhena.errors import ConfigError

        try:
            require_mcp()
        except ConfigError as problem:
            raise McpConnectError(problem.message, remedy=problem.remedy) from error
        raise
    finally:
        if collects:
            gc.enable()


async def _require_accepted(name: str, why_held: WhyHeld | None) -> None:
    """Raises McpConnectError for a server that differs from the accepted one."""
    if why_held is None:
        return
    from alhena.threads import in_daemon_thread

    why = await in_daemon_thread(lambda: why_held(name))
    if why:
        raise McpConnectError(why)


@asynccontextmanager
async def _in_process(
    server: Any, facts: SessionFacts, events: ServerEvents
) -> AsyncGenerator["SdkConnection"]:
    await _import_sdk()
    events.loaded()
    from mcp.client._memory import InMemoryTransport

    from alhena.mcp.sdk import open_session

    async with open_session(InMemoryTransport(server), facts, events) as connection:
        yield connection


@asynccontextmanager
async def _over_stdio(
    name: str,
    server: McpServer,
    around: ServerEnvironment,
    facts: SessionFacts,
    events: ServerEvents,
) -> AsyncGenerator["SdkConnection"]:
    from alhena.mcp.stdio import stdio_transport

    # A secret reaches a server only through the server's own entry, whatever applies to commands.
    rules = msgspec.structs.replace(around.redaction, enabled=True)
    wanted = {key: str(value) for key, value in server.env.items()}
    env = child_environment(around.environ, rules, extra=wanted, defaults={})
    refused = [each for each in wanted if each not in env.variables]
    if refused:
        events.note(
            f"of its variables {', '.join(refused)} are left out: they make programs run code"
        )
    cwd = server.cwd or around.cwd
    command = ProcessCommand(
        argv=(server.command or "", *server.args),
        cwd=cwd if cwd.startswith("/") else f"{around.cwd}/{cwd}",
        env=env.variables,
        label=f"MCP server {name}",
    )

    async def load() -> None:
        await _import_sdk()
        events.loaded()

    async with stdio_transport(
        command, around.groups, events.lost, events.harmless, load
    ) as streams:
        from alhena.mcp.sdk import open_session

        async with open_session(nullcontext(streams), facts, events) as connection:
            yield connection


@asynccontextmanager
async def over_http(
    server: McpServer, auth: "httpx2.Auth | None", facts: SessionFacts, events: ServerEvents
) -> AsyncGenerator["SdkConnection"]:
    """Opens a connection to a URL. Raises McpError."""
    await _import_sdk()
    events.loaded()
    from alhena.mcp.http import Answers, HttpAccess, http_transport, sse_transport
    from alhena.mcp.sdk import open_session

    access = HttpAccess(url=server.address or "", headers=server.headers, auth=auth)
    match server.transport:
        case McpTransport.SSE:
            kinds = (McpTransport.SSE,)
        case McpTransport.HTTP:
            kinds = (McpTransport.HTTP,)
        case McpTransport.HTTP_OR_SSE:  # the older one if the server rejects the newer
            kinds = (McpTransport.HTTP, McpTransport.SSE)
        case McpTransport.STDIO:
            raise McpConnectError("it has no URL")
        case _:
            assert_never(server.transport)
    for kind in kinds:
        heard = _Heard(events, open=kind is kinds[-1])
        older = kind is McpTransport.SSE
        answers = Answers(events.lost if older else None)
        transport = sse_transport(access, answers) if older else http_transport(access, answers)
        opened = False
        boundary = Boundary()
        with boundary:
            async with open_session(transport, facts, heard.events) as connection:
                opened = heard.open = True
                yield connection
        failure = boundary.failure
        if failure is None:
            return
        rejected = 400 <= answers.status < 500 and answers.status not in (401, 403)
        if opened or kind is kinds[-1] or not rejected:
            raise _explain_failure(failure, answers, opened=opened) from failure


class _Heard:
    """The events of an attempt, which are passed on once it is `open`."""

    def __init__(self, events: ServerEvents, *, open: bool) -> None:
        self.open = open
        self._all = events
        self.events = msgspec.structs.replace(events, lost=self._pass_loss, note=self._pass_note)

    def _pass_loss(self, why: str) -> None:
        if self.open:
            self._all.lost(why)

    def _pass_note(self, text: str) -> None:
        if self.open:
            self._all.note(text)


def _explain_failure(failure: Exception, answers: "Answers", *, opened: bool) -> McpError:
    """Converts a connection failure to an error for people."""
    if answers.status == 401:
        return McpAuthError("it wants to know who asks (HTTP 401)", challenge=answers.challenge)
    scopes = wanted_scopes(answers.status, answers.challenge)
    if scopes is not None and not opened:
        return McpAuthError(scope_words(scopes), challenge=answers.challenge)
    leaf = root_cause(failure)
    if isinstance(leaf, McpError) and not answers.status:
        return leaf
    if answers.status and not opened:
        kind = McpAwayError if answers.status in _AWAY else McpConnectError
        return kind(f"it answered with HTTP {answers.status}")
    said = leaf.message if isinstance(leaf, McpError) else without_secrets(one_line(leaf))
    if type(leaf).__name__ in _UNCONNECTED:
        said = f"it cannot be reached: {without_secrets(str(leaf)) or 'no connection'}"
    away = isinstance(leaf, ConnectionError) or type(leaf).__name__ in _UNREACHED
    return McpAwayError(said) if away and not opened else McpConnectError(said)


_AWAY = frozenset({502, 503, 504})
_UNCONNECTED = frozenset({"ConnectError", "ConnectTimeout"})
_UNREACHED = _UNCONNECTED | {"RemoteProtocolError", "ReadError"}


_BEGUN = "_late_begun"
_LOCK = threading.RLock()


class LatePackage(ModuleType):
    """A package whose modules can be imported without running the package's own imports."""

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        if not name.startswith("__") and spec is not None and spec.loader is not None:
            with _LOCK:
                if _BEGUN not in self.__dict__:
                    self.__dict__[_BEGUN] = True
                    spec.loader.exec_module(self)
                if name in self.__dict__:
                    return self.__dict__[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
