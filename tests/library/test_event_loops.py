"""Agents and models in event loops of other makes, in several threads, and after a fork."""

import asyncio
import gc
import multiprocessing
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from alhena import Agent, Rule, StdioServer
from alhena.agent.limits import BusyError
from alhena.errors import InterruptedRunError
from alhena.http import connect
from alhena.library.blocking import wait_for
from alhena.models import Gemini
from alhena.testing import Call, TestModel
from tests.gateway.kit import client, gateway
from tests.support.patience import PATIENCE_S
from tests.support.ports import reserved_port
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, call, chunk, sse, text

pytestmark = pytest.mark.requirement("LIB-16")

uvloop: Any = pytest.importorskip("uvloop", reason="uvloop is not made for this system")
KITCHEN = Path(__file__).parents[1] / "mcp/served/kitchen.py"


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def model_at(server: ScriptedServer) -> Gemini:
    return Gemini("gemini-2.5-flash", api_key="x", base_url=server.url)


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [
        ("run_shell_command", {"command": "echo one; sleep 0.05; echo two"}, "one\\ntwo"),
        ("k__echo", {"text": "hi"}, "echo: hi"),
    ],
)
def test_an_agent_works_under_uvloop(
    server: ScriptedServer, project: Path, name: str, args: dict[str, Any], said: str
):
    server.reply(sse(chunk(call(name, args), finish="STOP")))
    server.reply(sse(text("done")))
    servers = {"k": StdioServer(sys.executable, (str(KITCHEN), "stdio"))}

    async def whole() -> str:
        async with Agent(
            model_at(server), servers=servers, policy=[Rule.allow("*")], cwd=project
        ) as agent:
            return await agent.ask("go")

    assert uvloop.run(whole()) == "done"
    assert said in server.requests[1].body.decode()


def test_a_hundred_agents_share_a_model_and_its_connections(server: ScriptedServer):
    agents, rounds = 100, 2
    server.reply(*[sse(text("done"))] * (agents * rounds))
    model = model_at(server)

    async def ask() -> str:
        return await Agent(model, isolated=True, builtin_tools=()).ask("go")

    async def whole() -> None:
        for _ in range(rounds):
            answers = await asyncio.gather(*(ask() for _ in range(agents)))
            assert answers == ["done"] * agents

    uvloop.run(whole())
    assert server.connections <= agents


def test_the_gateway_works_under_uvloop():
    async def whole() -> Any:
        async with gateway(ScriptedGenerator([text("hello")])) as running, client(running) as http:
            path = "/v1/chat/completions"
            messages = [{"role": "user", "content": "hi"}]
            return await http.post(path, json={"model": "m", "messages": messages})

    answer = uvloop.run(whole())
    assert answer.json()["choices"][0]["message"]["content"] == "hello"


@pytest.mark.parametrize("silent", [False, True])
def test_under_uvloop_the_first_address_that_answers_is_taken(
    monkeypatch: pytest.MonkeyPatch, server: ScriptedServer, silent: bool
):
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    async def whole() -> None:
        channel = await connect.open_channel("two.test", port, None, PATIENCE_S)
        await channel.aclose()

    monkeypatch.setattr(connect, "resolve_addresses", resolve)
    port = int(server.url.rpartition(":")[2])
    with socket.socket() as other:
        other.bind(("127.0.0.2", port))
        if silent:
            monkeypatch.setattr(connect, "HEAD_START", 0.02)
        with full_backlog(other) if silent else nullcontext():
            uvloop.run(whole())


def test_under_uvloop_an_error_of_the_first_address_is_told():
    async def whole() -> None:
        await connect.open_channel("localhost", port, None, PATIENCE_S)

    with reserved_port() as port, pytest.raises(ConnectionRefusedError):
        uvloop.run(whole())


@contextmanager
def full_backlog(listener: socket.socket) -> Iterator[None]:
    """Lets a listener leave every further connection without an answer."""
    listener.listen(0)
    waiting = [socket.socket() for _ in range(4)]
    for each in waiting:
        each.setblocking(False)
        each.connect_ex(listener.getsockname())
    yield
    for each in waiting:
        each.close()


def test_a_model_is_shared_by_threads(server: ScriptedServer):
    """Each loop has connections of its own, which are closed when it ends."""
    threads, prompts = 6, 5
    server.reply(*[sse(text("done"))] * (threads * prompts))
    model = model_at(server)
    faults: list[BaseException] = []

    async def ask_often() -> None:
        for _ in range(prompts):
            async with Agent(model, isolated=True) as agent:
                assert await agent.ask("go") == "done"

    def work() -> None:
        try:
            asyncio.run(ask_often())
        except Exception as error:  # noqa: BLE001  they are looked at in the other thread
            faults.append(error)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    assert not faults
    assert len(server.requests) == threads * prompts
    assert server.connections <= threads
    for _ in range(server.connections):
        assert server.closed.acquire(timeout=PATIENCE_S)


def test_an_agent_in_two_threads_is_busy(project: Path):
    release = threading.Event()
    begun = threading.Event()

    def wait() -> str:
        """Waits."""
        begun.set()
        release.wait(PATIENCE_S)
        return "waited"

    agent = Agent(TestModel(Call("wait"), "done"), tools=[wait], cwd=project)
    answers: list[str] = []
    first = threading.Thread(target=lambda: answers.append(agent.ask_sync("go")))
    first.start()
    assert begun.wait(PATIENCE_S)
    with pytest.raises(BusyError):
        agent.ask_sync("and?")
    release.set()
    first.join()
    assert answers == ["done"]


def test_threads_that_share_an_agent_get_an_answer_or_are_busy(project: Path):
    async def rest() -> str:
        """Lets other threads run."""
        await asyncio.sleep(0.003)
        return "rested"

    given = [Call("rest"), "done"] * 61
    agent = Agent(TestModel(*given), tools=[rest], isolated=True, builtin_tools=(), cwd=project)
    answers: list[str] = []

    def work() -> None:
        for _ in range(10):
            try:
                answers.append(agent.ask_sync("go"))
            except BusyError:
                answers.append("busy")

    threads = [threading.Thread(target=work, daemon=True) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(answers) == 60
    assert "done" in answers
    assert set(answers) <= {"done", "busy"}
    assert agent.ask_sync("and now?") == "done"


def test_a_loop_that_is_closed_ends_the_waiting_of_other_threads():
    loop = asyncio.new_event_loop()
    serving = threading.Thread(target=loop.run_forever)
    serving.start()
    begun = threading.Event()
    raised: list[BusyError] = []

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    def work() -> None:
        try:
            wait_for(loop, wait)
        except BusyError as error:
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert begun.wait(PATIENCE_S)
    loop.call_soon_threadsafe(loop.stop)
    serving.join(PATIENCE_S)
    loop.close()
    thread.join(PATIENCE_S)
    assert "has been closed" in str(raised[0])


class Frame:
    """Refers to itself, as the frames of a traceback that is kept do."""

    def __init__(self, events: Any) -> None:
        self.events = events
        self.me = self


@pytest.mark.parametrize("opened", [True, False])
def test_events_that_are_collected_in_the_loop_of_their_agent_do_not_stop_it(
    project: Path, *, opened: bool
):
    left, collected = threading.Event(), threading.Event()

    async def collect() -> str:
        """Collects garbage in this loop."""
        await asyncio.to_thread(left.wait, PATIENCE_S)
        gc.collect()
        collected.set()
        return "done"

    def leave(agent: Agent) -> None:
        frame = Frame(agent.stream_sync("go"))
        next(frame.events)

    model = TestModel(Call("collect"), *["done"] * 3)
    gc.disable()
    try:
        with (
            nullcontext()
            if not opened
            else Agent(
                model, tools=[collect], isolated=True, builtin_tools=(), cwd=project
            ) as agent
        ):
            leave(agent or Agent(model, tools=[collect], isolated=True, cwd=project))
            left.set()
            assert collected.wait(PATIENCE_S)
            if agent is not None:
                asked = threading.Thread(target=lambda: agent.ask_sync("and?"), daemon=True)
                asked.start()
                asked.join(PATIENCE_S)
                assert not asked.is_alive()
    finally:
        gc.enable()
    for thread in threading.enumerate():
        if thread.name == "alhena":
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def test_interrupt_from_another_thread_ends_a_run_that_waits(project: Path):
    begun = threading.Event()

    async def wait() -> str:
        """Waits for ever."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    agent = Agent(TestModel(Call("wait"), "done"), tools=[wait], cwd=project)
    ended: list[str] = []

    def work() -> None:
        with agent:
            try:
                agent.run_sync("go")
            except InterruptedRunError as error:
                ended.append(error.kind)

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(PATIENCE_S)
    agent.interrupt()
    thread.join(PATIENCE_S)
    assert ended


def test_the_loop_of_an_open_agent_that_does_not_run_is_no_hang(project: Path):
    loop = asyncio.new_event_loop()
    agent = Agent(TestModel("done"), cwd=project)
    loop.run_until_complete(agent.__aenter__())
    with pytest.raises(BusyError, match="does not run"):
        agent.ask_sync("go")
    loop.run_until_complete(agent.__aexit__())
    loop.close()


def ask_in_child(agent: Agent, model: Gemini, answers: Any) -> None:
    answers.put((agent.ask_sync("go"), Agent(model, isolated=True).ask_sync("go")))


def test_a_model_and_an_unopened_agent_work_after_a_fork(server: ScriptedServer):
    server.reply(*[sse(text("done"))] * 4)
    model = model_at(server)
    assert Agent(model, isolated=True).ask_sync("go") == "done"
    agent = Agent(model, isolated=True)
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    child = fork.Process(target=ask_in_child, args=(agent, model, answers))
    child.start()
    child.join(PATIENCE_S)
    assert child.exitcode == 0
    assert answers.get() == ("done", "done")
    assert agent.ask_sync("go") == "done"
