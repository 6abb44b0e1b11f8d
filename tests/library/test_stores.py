"""Conversations in a store: continued, forked, held by one writer, whole after a kill."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from alhena import Agent, AlhenaError, Answer, ConfigError, FileStore, SQLiteStore, Store, tool
from alhena.errors import InputError
from alhena.session.stores import StoreError
from alhena.testing import Call, TestModel
from tests.support.each import for_each

pytestmark = pytest.mark.requirement("LIB-13")

ALONE: dict[str, Any] = {"isolated": True, "builtin_tools": (), "environment": True}


class Memory:
    """A store of the program's own."""

    def __init__(self) -> None:
        self.kept: dict[str, list[bytes]] = {}
        self.full = False

    async def create(self, id: str, /) -> bool:
        if id in self.kept:
            return False
        self.kept[id] = []
        return True

    async def load(self, id: str, /) -> Sequence[bytes]:
        return tuple(self.kept.get(id, ()))

    async def append(self, id: str, entries: Sequence[bytes], /) -> None:
        if self.full:
            raise OSError("no room")
        self.kept.setdefault(id, []).extend(entries)

    async def list(self) -> Sequence[str]:
        return [each for each in self.kept if not each.startswith(".")]

    async def delete(self, id: str, /) -> None:
        self.kept.pop(id, None)


def open_store(kind: str, project: Path) -> Store:
    """A store of this kind, over what another one of the place has written."""
    if kind == "sqlite":
        return SQLiteStore(project / "chats.db")
    return (
        FileStore(project / "chats") if kind == "files" else _MEMORY.setdefault(project, Memory())
    )


_MEMORY: dict[Path, Memory] = {}
KINDS = ["sqlite", "files", "own"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_store_creates_appends_lists_and_deletes(kind: str, project: Path):
    store = open_store(kind, project / kind if kind == "own" else project)
    assert await store.load("a/b") == ()
    assert [await store.create("a/b"), await store.create("a/b")] == [True, False]
    await store.append("a/b", [b'{"n":1}', b'{"n":2}'])
    await store.append("a/b", [b'{"n":3}'])
    await store.create(".mark")
    assert [json.loads(each)["n"] for each in await store.load("a/b")] == [1, 2, 3]
    await store.append("c", [b"{}"])
    assert sorted(await store.list()) == ["a/b", "c"]
    await store.delete("a/b")
    await store.delete("nobody")
    assert list(await store.list()) == ["c"]
    assert await store.create("a/b")


@for_each("kind", KINDS)
def test_a_conversation_goes_on_with_another_agent_and_branches(kind: str, project: Path):
    where = project / f"of-{kind}"
    where.mkdir()
    first = Agent(
        TestModel("one", "two"), store=open_store(kind, where), conversation="ada", **ALONE
    )
    assert [first.ask_sync("a"), first.ask_sync("b")] == ["one", "two"]
    model = TestModel("three", "in between", "four")
    second = Agent(model, store=open_store(kind, where), conversation="ada", **ALONE)
    branch = second.fork(at=4, conversation="ada-2")
    assert second.ask_sync("c") == "three"
    texts = [part["text"] for each in model.requests[0]["contents"] for part in each["parts"]]
    assert texts[2:] == ["a", "one", "b", "two", "c"]
    assert branch.ask_sync("other") == "in between"
    assert [each.parts[0].text for each in branch.history[2:]] == [
        "a",
        "one",
        "other",
        "in between",
    ]
    alone = second.fork()
    assert alone.ask_sync("more") == "four"
    store = open_store(kind, where)
    assert sorted(asyncio.run(_list(store))) == ["ada", "ada-2"]
    again = Agent(TestModel("x"), store=store, conversation="ada-2", **ALONE)
    again.ask_sync("y")
    assert len(again.history) == 8
    assert len(second.history) == 8


async def _list(store: Store) -> Sequence[str]:
    return await store.list()


def test_a_fork_is_refused_where_there_is_no_place_or_a_taken_name(project: Path):
    @tool
    def look(x: int) -> str:
        """Looks."""
        return "seen"

    store = SQLiteStore(project / "chats.db")
    agent = Agent(
        TestModel(Call("look", x=1), "done"), tools=[look], store=store, conversation="ada", **ALONE
    )
    agent.ask_sync("go")
    for at in (-1, 99, 4):
        with pytest.raises(ConfigError, match=str(at)):
            agent.fork(at=at)
    with pytest.raises(ConfigError, match="'ada' is there already"):
        agent.fork(conversation="ada").ask_sync("x")
    with pytest.raises(ConfigError, match="no store"):
        Agent(TestModel(), **ALONE).fork(conversation="b")
    with pytest.raises(ConfigError, match="needs a store"):
        Agent(TestModel(), conversation="b", **ALONE)
    with pytest.raises(TypeError, match="store"):
        Agent(TestModel(), store="chats.db", conversation="b", **ALONE)  # pyright: ignore[reportArgumentType,reportCallIssue]


@pytest.mark.parametrize("kind", KINDS)
async def test_two_agents_cannot_have_one_conversation_open(kind: str, project: Path):
    where = project / f"two-{kind}"
    where.mkdir()
    store = open_store(kind, where)
    async with Agent(TestModel(), store=store, conversation="ada", **ALONE):
        with pytest.raises(AlhenaError, match="'ada' is in use"):
            await Agent(
                TestModel(), store=open_store(kind, where), conversation="ada", **ALONE
            ).ask("x")
        other = Agent(TestModel("ok"), store=store, conversation="bob", **ALONE)
        assert await other.ask("x") == "ok"
    after = Agent(TestModel("now"), store=open_store(kind, where), conversation="ada", **ALONE)
    assert await after.ask("x") == "now"


SCRIPT = """
import sys, os
from alhena import Agent, FileStore, Kind, SQLiteStore, tool
from alhena.testing import Call, TestModel

@tool(kind=Kind.EDIT)
def write(n: int) -> str:
    "Writes."
    print("writing", flush=True)
    sys.stdin.readline()
    return "written"

store = (SQLiteStore if sys.argv[1] == "sqlite" else FileStore)(sys.argv[2])
agent = Agent(TestModel("one", Call("write", n=1)), tools=[write], store=store,
              conversation="ada", isolated=True, builtin_tools=(), environment=True)
with agent:
    agent.ask_sync("a")
    agent.ask_sync("b")
"""


@for_each("kind", ["sqlite", "files"])
def test_a_killed_writer_holds_nothing_and_loses_nothing(kind: str, project: Path):
    place = str(project / f"kept-{kind}")
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, kind, place],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=project,
        env=dict(os.environ),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        store = (SQLiteStore if kind == "sqlite" else FileStore)(place)
        model = TestModel("after")
        agent = Agent(model, store=store, conversation="ada", **ALONE)
        with pytest.raises(AlhenaError, match="'ada' is in use"):
            agent.ask_sync("x")
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert agent.ask_sync("c") == "after"
    parts = [part for each in model.requests[0]["contents"] for part in each["parts"]]
    assert [part["text"] for part in parts if "text" in part][2:5] == ["a", "one", "b"]
    (answer,) = [part["functionResponse"] for part in parts if "functionResponse" in part]
    assert "may have" in json.dumps(answer) or "unknown" in json.dumps(answer)


async def test_the_torn_end_of_a_file_is_left_out(project: Path):
    store = FileStore(project / "chats")
    await store.append("ada", [b'{"n":1}', b'{"n":2}'])
    (file,) = (project / "chats").glob("*.jsonl")
    file.write_bytes(file.read_bytes() + b'{"n":3')
    assert len(await store.load("ada")) == 2
    await store.append("ada", [b'{"n":4}'])
    assert [json.loads(each)["n"] for each in await store.load("ada")] == [1, 2, 4]
    file.chmod(0o600)
    with pytest.raises(StoreError):
        await SQLiteStore(project).load("ada")


async def test_what_cannot_be_stored_ends_the_run_before_anything_changes(project: Path):
    done: list[int] = []

    @tool
    def pay(n: int) -> str:
        """Pays."""
        done.append(n)
        return "paid"

    store = Memory()
    store.full = True
    agent = Agent(
        TestModel(Call("pay", n=1), "x"), tools=[pay], store=store, conversation="ada", **ALONE
    )
    with pytest.raises(AlhenaError, match="'ada' cannot be stored: OSError: no room"):
        await agent.ask("go")
    assert done == []


class Losing(Memory):
    """Its connection is lost at the append of this number, after the commit or before it."""

    def __init__(self, at: int, *, committed: bool) -> None:
        super().__init__()
        self.at, self.committed = at, committed

    async def append(self, id: str, entries: Sequence[bytes], /) -> None:
        self.at -= 1
        if self.at or self.committed:
            await super().append(id, entries)
        if not self.at:
            raise ConnectionError("lost")


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
async def test_what_a_store_kept_although_it_failed_is_not_stored_twice(
    at: int, *, committed: bool
):
    def pay(n: int) -> str:
        """Pays."""
        return f"paid {n}"

    given: dict[str, Any] = {"tools": [pay], "store": Losing(at, committed=committed)}
    given |= {"conversation": "ada"} | ALONE
    agent = Agent(TestModel(Call("pay", n=1), Call("pay", n=2), "done"), **given)
    with pytest.raises(AlhenaError, match="lost") if at % 2 == 0 else nullcontext():
        result = await agent.run("go")
        assert "cannot be stored" in result.warnings[0]
    other = Agent(TestModel("hello"), **given)
    assert await other.ask("and?") == "hello"
    kinds = [json.loads(entry)["type"] for entry in given["store"].kept["ada"]]
    assert [kinds.count(kind) for kind in ("session", "prompt")] == [1, 2]


class Slow(Memory):
    """Its first append ends when `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.at_work, self.go = asyncio.Event(), asyncio.Event()

    async def append(self, id: str, entries: Sequence[bytes], /) -> None:
        self.at_work.set()
        await self.go.wait()
        await super().append(id, entries)


async def test_a_run_that_is_cancelled_while_it_is_stored_is_stored_once():
    store = Slow()
    agent = Agent(TestModel("one", "two"), store=store, conversation="ada", **ALONE)
    asked = asyncio.create_task(agent.ask("go"))
    await store.at_work.wait()
    asked.cancel()
    await asyncio.sleep(0)
    asked.cancel()
    store.go.set()
    with pytest.raises(asyncio.CancelledError):
        await asked
    kinds = [json.loads(entry)["type"] for entry in store.kept["ada"]]
    assert [kinds.count(kind) for kind in ("session", "prompt")] == [1, 1]
    other = Agent(TestModel("two"), store=store, conversation="ada", **ALONE)
    assert await other.ask("and?") == "two"


@pytest.mark.parametrize("kind", ["sqlite", "files"])
async def test_a_cancelled_append_has_ended_when_its_caller_knows(kind: str, project: Path):
    store = open_store(kind, project)
    await store.create("ada")
    appended = asyncio.create_task(store.append("ada", [b"{}"]))
    await asyncio.sleep(0)
    appended.cancel()
    with pytest.raises(asyncio.CancelledError):
        await appended
    assert await store.load("ada") == (b"{}",)


async def test_a_new_database_waits_for_another_process_that_opens_it(project: Path):
    other = sqlite3.connect(project / "chats.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store = SQLiteStore(project / "chats.db")
    created = asyncio.create_task(store.create("ada"))
    await asyncio.wait({created}, timeout=0.5)
    other.close()
    assert await created
    store.close()


async def test_an_agent_that_cannot_be_opened_lets_its_conversation_go(project: Path):
    store = Memory()
    wrong = Agent(TestModel(), store=store, conversation="ada", cwd=project / "gone", **ALONE)
    with pytest.raises(InputError, match="gone does not exist"):
        await wrong.ask("go")
    agent = Agent(TestModel("one"), store=store, conversation="ada", **ALONE)
    assert await agent.ask("go") == "one"


class Blocking(Memory):
    def create(self, id: str, /) -> Any:
        return id not in self.kept


class Texts(Memory):
    async def load(self, id: str, /) -> Any:
        return [entry.decode() for entry in self.kept[id]]


async def test_a_store_that_is_not_as_the_protocol_says_is_refused_before_a_request():
    def agent(store: Any) -> Agent:
        return Agent(TestModel("Hi."), store=store, conversation="ada", **ALONE)

    with pytest.raises(TypeError, match=r"Blocking\.create returned bool .*`async def create`"):
        await agent(Blocking()).ask("go")
    texts = Texts()
    assert await agent(texts).ask("go") == "Hi."
    for again in (lambda: agent(texts).ask_sync("go"), lambda: agent(texts).fork()):
        with pytest.raises(TypeError, match=r"Texts\.load returned \['.*no sequence of bytes"):
            again()
    for given in ("chats.db", Memory):
        with pytest.raises(TypeError, match="store has to be a Store"):
            agent(given)


@pytest.mark.requirement("LIB-10")
async def test_a_state_is_used_once_and_only_where_its_conversation_is(project: Path):
    @tool(confirm=True)
    def pay(n: int) -> str:
        """Pays."""
        return f"paid {n}"

    def agent(*answers: Any, **more: Any) -> Agent:
        more = {"store": SQLiteStore(project / "chats.db"), "conversation": "ada"} | more
        return Agent(TestModel(*answers), tools=[pay], approve="defer", **more, **ALONE)

    waits = await agent(Call("pay", n=1)).run("Pay.")
    answers = {waits.pending[0].call_id: Answer.yes()}
    done = await agent("Done.").resume(waits.state(), answers)
    assert done.output == "Done."
    with pytest.raises(InputError, match=r"used already|not where this state"):
        await agent("x").resume(waits.state(), answers)
    with pytest.raises(InputError, match="used already"):
        await agent("x", conversation=None).resume(waits.state(), answers)

    late = await agent(Call("pay", n=2)).run("Pay again.")
    await agent("Something else.").run("Hello.")
    with pytest.raises(InputError, match="'ada' is not where this state left it"):
        await agent("x").resume(late.state(), {late.pending[0].call_id: Answer.yes()})
    assert await SQLiteStore(project / "chats.db").list() == ("ada",)

    # Resumed without its conversation: that does not say that the call had no effect.
    away = await agent(Call("pay", n=3), conversation="bob").run("Pay.")
    answers = {away.pending[0].call_id: Answer.yes()}
    assert (await agent("Done.", store=None, conversation=None).resume(away.state(), answers)).text
    other = agent("Hello.", conversation="bob")
    await other.run("Hello.")
    found = (part.function_response for each in other.history for part in each.parts)
    (response,) = (each.response for each in found if each is not None)
    assert "whether it took effect is unknown" in str(response)
