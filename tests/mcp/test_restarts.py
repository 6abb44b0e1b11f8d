"""Servers that restart, or forget their sessions: the call is made once more, and runs once."""

import asyncio
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.config.mcp_servers import configured_servers
from alhena.config.settings import settings_of
from alhena.mcp.server import ServerState
from tests.mcp.kit import QUICK, called, kitchen, odd, rigged, served, tool
from tests.support.ports import reserved_port

Loss = tuple[int, str]
JSON_RPC = '{{"jsonrpc": "2.0", "id": null, "error": {{"code": {0}, "message": "{1}"}}}}'
LOSSES: dict[str, Loss] = {
    "404 page": (404, "<html>gone</html>"),
    "404 empty": (404, ""),
    "404 of the TypeScript SDK": (404, JSON_RPC.format(-32001, "Session not found")),
    "404 of the Python SDK": (404, JSON_RPC.format(-32600, "Session terminated")),
    "400 of the TypeScript SDK": (
        400,
        JSON_RPC.format(-32000, "Bad Request: No valid session ID provided"),
    ),
    "400 not initialized": (400, JSON_RPC.format(-32000, "Bad Request: Server not initialized")),
    "400 text": (400, "Invalid or missing session ID"),
    "410": (410, "Gone"),
    "503": (503, "<html>restarting</html>"),
    "200 with an error": (200, JSON_RPC.format(-32001, "Session not found")),
}


class Forgetful:
    """A streamable HTTP server that knows only its latest session, and forgets that at each of
    `losses`."""

    def __init__(self, loss: Loss, losses: int, not_ready: int = 0) -> None:
        self.loss, self.losses, self.not_ready = loss, losses, not_ready
        self.seen: Counter[str] = Counter()
        self.ran = 0
        self.session = 0
        handler = type("Bound", (_Handler,), {"world": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}/mcp"

    def answer(self, request: dict[str, Any], session: str | None) -> tuple[int, str]:
        method = request["method"]
        if method == "initialize":
            if self.not_ready and self.session:
                self.not_ready -= 1
                return 503, "<html>restarting</html>"
            self.session += 1
            return self.result(
                request,
                protocolVersion=request["params"]["protocolVersion"],
                capabilities={"tools": {}},
                serverInfo={"name": "forgetful", "version": "1"},
            )
        if session != str(self.session):
            return self.told(request)
        if method == "tools/list":
            return self.result(request, tools=[tool("poke"), tool("refuse")])
        if self.losses:
            self.losses -= 1
            return self.told(request)
        self.ran += 1
        if request["params"]["name"] == "refuse":
            error = {"code": -32001, "message": "Ask the librarian first"}
            return 200, json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error})
        return self.result(request, content=[{"type": "text", "text": f"run {self.ran}"}])

    def told(self, request: dict[str, Any]) -> tuple[int, str]:
        status, body = self.loss
        return status, body.replace('"id": null', f'"id": {request["id"]}')

    def result(self, request: dict[str, Any], **fields: Any) -> tuple[int, str]:
        return 200, json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": fields})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world: Forgetful

    def do_GET(self) -> None:
        self.world.seen["GET"] += 1
        self.say(405, "")

    def do_DELETE(self) -> None:
        self.world.seen["DELETE"] += 1
        self.say(200, "")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.world.seen[request["method"]] += 1
        if "id" not in request:
            self.say(202, "")
            return
        self.say(*self.world.answer(request, self.headers.get("Mcp-Session-Id")))

    def say(self, status: int, body: str) -> None:
        data = body.encode()
        self.send_response(status)
        kind = "application/json" if body.startswith("{") else "text/html"
        self.send_header("Content-Type", kind)
        self.send_header("Mcp-Session-Id", str(self.world.session))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@contextmanager
def forgetful(loss: Loss, losses: int = 1, not_ready: int = 0) -> Iterator[Forgetful]:
    world = Forgetful(loss, losses, not_ready)
    thread = threading.Thread(target=world.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield world
    finally:
        world.http.shutdown()
        world.http.server_close()
        thread.join()


@pytest.mark.parametrize("key", ["httpUrl", "url"])
@pytest.mark.parametrize("loss", LOSSES)
async def test_a_server_that_forgot_the_session_gets_a_new_one_and_the_call_again(
    project: Path, loss: str, key: str
) -> None:
    with forgetful(LOSSES[loss]) as world:
        async with rigged({"k": {key: world.url}}, project) as rig:
            assert (await called(rig, "poke")).display == "run 1"
            assert rig.server("k").state is ServerState.CONNECTED
            assert (await called(rig, "poke")).display == "run 2"
        assert world.seen["initialize"] == 2
        assert world.seen["tools/call"] == 3
        assert world.ran == 2


async def test_calls_at_the_same_time_share_the_new_session(project: Path) -> None:
    with forgetful(LOSSES["404 page"]) as world:
        async with rigged({"k": {"httpUrl": world.url}}, project) as rig:
            world.session += 1  # restarted
            world.losses = 0
            results = await asyncio.gather(*(called(rig, "poke") for _ in range(5)))
        assert all(result.error is None for result in results)
        assert world.ran == 5
        assert world.seen["initialize"] == 2


async def test_a_server_that_is_not_ready_yet_is_waited_for(project: Path) -> None:
    with forgetful(LOSSES["503"], not_ready=3) as world:
        async with rigged({"k": {"httpUrl": world.url}}, project) as rig:
            assert (await called(rig, "poke")).display == "run 1"
        assert world.seen["initialize"] == 5


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_server_that_loses_every_session_is_asked_only_a_few_times(
    project: Path, loss: str
) -> None:
    with forgetful(LOSSES[loss], losses=1_000) as world:
        async with rigged({"k": {"url": world.url}}, project) as rig:
            result = await called(rig, "poke")
            assert result.error is not None
        assert world.ran == 0
        assert sum(world.seen.values()) < 25


async def test_an_error_of_the_server_with_the_code_of_a_timeout_is_its_own(project: Path) -> None:
    with forgetful(LOSSES["404 page"], losses=0) as world:
        async with rigged({"k": {"httpUrl": world.url}}, project) as rig:
            result = await called(rig, "refuse")
        assert result.error is not None
        assert "MCP error -32001: Ask the librarian first" in result.error.message
        assert world.ran == 1


async def test_a_real_server_that_restarts_is_called_again_at_once(project: Path) -> None:
    with ExitStack() as first, reserved_port() as port:
        url = first.enter_context(served("streamable-http", port))
        patient = msgspec.structs.replace(QUICK, restart=(0.1,) * 300)
        async with rigged({"k": {"httpUrl": f"{url}/mcp"}}, project, pace=patient) as rig:
            assert (await called(rig, "echo", {"text": "x"})).display == "echo: x"
            first.close()
            with served("streamable-http", port):
                assert (await called(rig, "echo", {"text": "y"})).display == "echo: y"
            waiting = asyncio.create_task(called(rig, "echo", {"text": "z"}))
            await rig.until(lambda: rig.server("k").state is ServerState.CONNECTING)
            with ExitStack() as third:
                await asyncio.to_thread(third.enter_context, served("streamable-http", port))
                assert (await waiting).display == "echo: z"


def children(of: int) -> list[int]:
    found: list[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        gone = fields[0] == "Z" and int(fields[17]) <= 1  # threads hold its pipes for longer
        if int(fields[1]) == of and not gone:
            found.append(int(stat.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="children are read from /proc")
async def test_a_real_process_that_was_killed_is_started_again_for_the_call(project: Path) -> None:
    async with rigged({"k": kitchen()}, project) as rig:
        for word in ("a", "b", "c"):
            assert (await called(rig, "echo", {"text": word})).display == f"echo: {word}"
            (server,) = [
                pid
                for pid in children(os.getpid())
                if b"kitchen.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
            os.kill(server, signal.SIGKILL)
            while server in children(os.getpid()):
                pass  # the loop must not notice before the call


BRIDGE = """\
import json, os, sys
marks = sys.argv[1]
def say(request, **more):
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **more}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    match request.get("method"):
        case "initialize":
            say(request, result={"protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "b", "version": "1"}})
        case "tools/list":
            say(request, result={"tools": [{"name": "poke", "inputSchema": {"type": "object"}}]})
        case "tools/call":
            with open(marks, "a+") as file:
                file.seek(0)
                first = not file.read()
                file.write("x")
            if first:
                say(request, error={"code": -32001, "message": "Session not found"})
            else:
                say(request, result={"content": [{"type": "text", "text": "ran"}]})
"""


async def test_a_bridge_that_lost_its_session_is_started_again(project: Path) -> None:
    script, marks = project / "bridge.py", project / "marks"
    script.write_text(BRIDGE, encoding="utf-8")
    entry = {"command": sys.executable, "args": [str(script), str(marks)]}
    async with rigged({"k": entry}, project) as rig:
        assert (await called(rig, "poke")).display == "ran"
    assert marks.read_text(encoding="utf-8") == "xx"


async def test_a_call_that_ended_its_server_is_not_made_again(project: Path) -> None:
    heard = project / "heard"
    does = {"die": {"do": "dies", "says": "", "code": 9}}
    script = {"tools": [tool("die")], "does": does, "heard": str(heard)}
    async with rigged({"odd": odd(project, script)}, project) as rig:
        assert (await called(rig, "die")).error is not None
    assert heard.read_text(encoding="utf-8").count("tools/call") == 1


@pytest.mark.parametrize("how", ["restart", "reconfigure"])
async def test_none_is_started_by_what_is_under_way_when_all_are_closed(
    project: Path, how: str
) -> None:
    entries = {name: odd(project, {"tools": [tool(name)]}, name) for name in ("one", "two")}
    other = settings_of({"mcpServers": {"two": entries.pop("two")}}, "test")
    async with rigged(entries, project) as rig:
        work = {
            "restart": rig.servers.restart,
            "reconfigure": partial(rig.servers.reconfigure, configured_servers(other, os.environ)),
        }
        under_way = asyncio.create_task(work[how]())
        await asyncio.sleep(0)  # the one is being closed
        await rig.servers.close()
        await rig.groups.close()
        await under_way
        assert rig.groups.members == ()
