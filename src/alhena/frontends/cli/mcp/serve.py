"""`alhena mcp serve`: the tools of this workspace as an MCP server on standard input and output."""

import argparse
import asyncio
import signal
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from alhena.agent.toolset.factory import open_toolset
from alhena.agent.toolset.options import People
from alhena.agent.toolset.toolset import SessionLinks, Toolset
from alhena.errors import AlhenaError
from alhena.frontends.cli.tools import (
    add_toolset_arguments,
    open_agents,
    open_model,
    toolset_options,
    warn,
)
from alhena.frontends.shared.arguments import Parser
from alhena.frontends.shared.current_settings import tell
from alhena.session.records import new_session_id

if TYPE_CHECKING:
    from alhena.system.processes import ProcessGroups

DESCRIPTION = "The tools of this workspace as an MCP server on standard input and output."
LAST_WORD_S = 3.0
"""Time a client that sends no more has to read the last answers."""


def run(argv: list[str]) -> int:
    """Carries out `alhena mcp serve ARGV`; returns the exit code when the client has gone or a
    signal has ended it."""
    parser = Parser(prog="alhena mcp serve", description=DESCRIPTION)
    parser.add_argument("-m", "--model", metavar="NAME", help="for tools that ask a model")
    add_toolset_arguments(parser)
    serving = ServerRun(parser.parse_args(argv))
    serving.check()
    asyncio.run(serving.serve())
    return 0


class ServerRun:
    """One run of the server."""

    def __init__(self, found: argparse.Namespace) -> None:
        # It may well be among the servers of the settings itself, and would start itself.
        options = toolset_options(found)
        self._options = replace(options, tools=replace(options.tools, servers=False))
        self._links = SessionLinks(
            session_id=new_session_id(),
            answering=open_model(self._options, found.model),
            delegate=open_agents,
            emit=warn,
        )
        self._bench: Toolset | None = None
        self._answering: asyncio.Task[None] | None = None
        self._ending = False
        self._failure: AlhenaError | None = None

    def check(self) -> None:
        """Raises what would keep a client from being served, before it waits for that."""
        from alhena.distribution import require_mcp
        from alhena.frontends.shared.pipes import check_streams

        require_mcp()
        check_streams()
        open_toolset(self._options, self._links)

    async def serve(self) -> None:
        """Answers the client until it goes, or a signal comes. Raises what went wrong with the way
        to it: InputError, OutputError."""
        from alhena.system.processes import ProcessGroups

        groups = ProcessGroups()
        answering = self._answering = asyncio.create_task(self._answer(groups))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end)
        try:
            await asyncio.wait({answering})
            if not answering.cancelled():
                answering.result()
            if self._failure is not None:
                raise self._failure
        finally:
            for leave in () if self._bench is None else self._bench.when_closed:
                leave()
            await groups.close()

    def _end(self) -> None:
        """Answers no more; what is under way is stopped."""
        if self._answering is not None:
            self._ending = True
            self._answering.cancel()

    def _end_output(self, failure: AlhenaError | None) -> None:
        """There is no telling the client anything."""
        self._failure = self._failure or failure
        self._end()

    def _end_input(self, failure: AlhenaError | None) -> None:
        """The client says nothing more, and may still read what it was told."""
        self._failure = self._failure or failure
        asyncio.get_running_loop().call_later(LAST_WORD_S, self._end)

    async def _answer(self, groups: "ProcessGroups") -> None:
        from anyio import BrokenResourceError, ClosedResourceError
        from mcp.server.stdio import stdio_server

        from alhena.frontends.mcp_server.server import ToolServer
        from alhena.frontends.shared.pipes import open_incoming, open_outgoing

        def open_bench(able: bool) -> Toolset:
            options = replace(self._options, people=People(interactive=able))
            self._bench = open_toolset(options, self._links, groups)
            tell(self._bench.warnings)
            return self._bench

        server = ToolServer(open_bench, warn).make()
        with (
            closing(open_incoming(self._end_input)) as reading_from,
            closing(open_outgoing(self._end_output)) as writing_to,
        ):
            streams = stdio_server(cast("Any", reading_from), cast("Any", writing_to))
            try:
                async with streams as (reading, writing):
                    await server.run(reading, writing, server.create_initialization_options())
            except* (BrokenResourceError, ClosedResourceError):
                # What the SDK's tasks have still to say to each other when they are ended.
                if not self._ending:
                    raise
