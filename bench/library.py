"""The library: its import, a hello agent beside other SDKs, many agents, many prompts, and
validation."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from bench.measure import PASS, environment, measured, median_ms, row, row_above, wall
from bench.server import BenchServer, candidate, event

ROUNDS = 9
AGENTS = 500
PROMPTS = 200

HELLO = """
import sys, time
from alhena import Agent
from alhena.models import Gemini

def add(a: int, b: int) -> int:
    "Adds."
    return a + b

model = Gemini("gemini-3.8-flash", api_key="x", base_url=sys.argv[1])
print(Agent(model, tools=[add], isolated=True, builtin_tools=()).ask_sync("Add 1 and 2."))
"""
PYDANTIC_AI = """
import sys
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=sys.argv[1] + "/v1", api_key="x"))
agent = Agent(model)

@agent.tool_plain
def add(a: int, b: int) -> int:
    "Adds."
    return a + b

print(agent.run_sync("Add 1 and 2.").output)
"""
OPENAI_AGENTS = """
import sys
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
client = AsyncOpenAI(base_url=sys.argv[1] + "/v1", api_key="x")

@function_tool
def add(a: int, b: int) -> int:
    "Adds."
    return a + b

model = OpenAIChatCompletionsModel(model="m", openai_client=client)
agent = Agent(name="a", model=model, tools=[add])
print(Runner.run_sync(agent, "Add 1 and 2.").final_output)
"""
PEERS = {"pydantic_ai": PYDANTIC_AI, "agents": OPENAI_AGENTS}
"""The same program with other SDKs, by the package that must be installed."""

FIRST_AGENT = """
import json, os, time
begun = time.perf_counter()
from alhena import Agent
from alhena.models import Gemini

Agent(Gemini("gemini-3.8-flash", api_key="x"), isolated=True)
took = (time.perf_counter() - begun) * 1000
with open("/proc/self/statm") as sizes:
    pages = int(sizes.read().split()[1])
print(json.dumps([took, pages * os.sysconf("SC_PAGE_SIZE") / 2**20]))
"""
ONE_CALL = """
import asyncio, json, sys, time
from alhena import Agent
from alhena.models import Fallback, Gemini, Limited

RUNS = 100

def add(a: int, b: int) -> int:
    "Adds."
    return a + b

async def time_run(model):
    agent = Agent(model, tools=[add], isolated=True, builtin_tools=())
    begun = time.perf_counter()
    await agent.ask("Add 1 and 2.")
    return time.perf_counter() - begun

async def main():
    async with Gemini("gemini-3.8-flash", api_key="x", base_url=sys.argv[1]) as model:
        models = {"plain": model, "Fallback": Fallback(model), "Limited": Limited(model, rpm=10**6)}
        for each in models.values():
            await time_run(each)
        times = {name: [] for name in models}
        for _ in range(RUNS):
            for name, each in models.items():
                times[name].append(await time_run(each))
        print(json.dumps(times))

asyncio.run(main())
"""
MANY = """
import asyncio, json, sys, time
from alhena import Agent, run_many
from alhena.models import Gemini

def kilobytes():
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0])

async def main():
    async with Gemini("gemini-3.8-flash", api_key="x", base_url=sys.argv[1]) as model:
        def make():
            return Agent(model, isolated=True, builtin_tools=())
        agents = [make() for _ in range(500)]
        for _ in range(2):
            await asyncio.gather(*(agent.ask("hi") for agent in agents))
        held = kilobytes() / 1024
        done, begun, spent = 0, time.perf_counter(), time.process_time()
        async for outcome in run_many(["hi"] * 200, agent=make, concurrency=8):
            done += outcome.error is None
        each = (time.process_time() - spent) * 1000 / 200
        print(json.dumps({"megabytes": held, "done": done, "each": each}))

asyncio.run(main())
"""
VALIDATION = """
import json, time
from dataclasses import dataclass
from alhena.library.outputs import read_output_type

@dataclass
class City:
    name: str
    inhabitants: int
    capital: bool

_schema, read = read_output_type(City, None)
data = {"name": "Bern", "inhabitants": 134000, "capital": True}
read(data)
begun = time.perf_counter()
for _ in range(1000):
    read(data)
milliseconds = (time.perf_counter() - begun) * 1000 / 1000
print(json.dumps(milliseconds))
"""


def _gemini(index: int) -> bytes:
    """A call of the tool, then the answer."""
    if index % 2:
        return event(candidate({"text": "3"}))
    return event(candidate({"functionCall": {"name": "add", "args": {"a": 1, "b": 2}}}))


def _openai(index: int) -> bytes:
    """The same as a chat completion."""
    message: dict[str, object] = {"role": "assistant", "content": "3"}
    if not index % 2:
        function = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
        calls = [{"id": f"c{index}", "type": "function", "function": function}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
    return json.dumps({**answer, "choices": [choice]}).encode()


def _hello(program: str, cwd: Path, env: dict[str, str], url: str) -> float:
    return wall([sys.executable, "-c", program, url], cwd, env)


def run(home: Path, cwd: Path) -> None:
    env = environment(home)
    bare = [wall(PASS, cwd, env) for _ in range(ROUNDS)]
    imported = [wall([sys.executable, "-c", "import alhena"], cwd, env) for _ in range(ROUNDS)]
    added = median_ms(imported) - median_ms(bare)
    shown = f"python -c pass {median_ms(bare):.1f} ms"
    ratio = median_ms(imported) / median_ms(bare)
    row("import alhena, added", f"{added:.1f} ms", shown, ratio, "<= 3 ms", ok=added <= 3)
    paths = os.pathsep.join(filter(None, sys.path))
    _hello_agents(cwd, environment(home, PYTHONPATH=paths))
    _first_agent(home, cwd)
    _one_call(home, cwd)
    _many(home, cwd)
    each = float(measured(VALIDATION, home, cwd))
    row("validation of a flat answer", f"{each:.4f} ms", "-", None, "<= 0.2 ms", ok=each <= 0.2)


def _hello_agents(cwd: Path, env: dict[str, str]) -> None:
    """The same program by turns with each SDK."""
    peers = {name: text for name, text in PEERS.items() if importlib.util.find_spec(name)}
    ours: list[float] = []
    theirs: dict[str, list[float]] = {name: [] for name in peers}
    with BenchServer(_gemini) as gemini, BenchServer(_openai) as openai:
        _require_answer(HELLO, cwd, env, gemini.url)
        for program in peers.values():
            _require_answer(program, cwd, env, openai.url)
        for _ in range(ROUNDS):
            ours.append(_hello(HELLO, cwd, env, gemini.url))
            for name, program in peers.items():
                theirs[name].append(_hello(program, cwd, env, openai.url))
    value = f"{median_ms(ours):.0f} ms"
    if not peers:
        row("hello agent with a tool", value, "no other SDK installed", None, "<= 0.25", ok=True)
    for name, times in theirs.items():
        ratio = median_ms(ours) / median_ms(times)
        beside = f"{name} {median_ms(times):.0f} ms"
        row("hello agent with a tool", value, beside, ratio, "<= 0.25", ok=ratio <= 0.25)


def _require_answer(program: str, cwd: Path, env: dict[str, str], url: str) -> None:
    """A program that does not answer would look fast."""
    command = [sys.executable, "-c", program, url]
    ran = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if ran.stdout.strip() != "3":
        raise SystemExit(f"a hello agent gave no answer: {ran.stderr[-500:]}")


def _first_agent(home: Path, cwd: Path) -> None:
    runs = [measured(FIRST_AGENT, home, cwd) for _ in range(ROUNDS)]
    took = median_ms([run[0] / 1000 for run in runs])
    held = min(run[1] for run in runs)
    row("import and first agent", f"{took:.0f} ms", "-", None, "<= 60 ms", ok=took <= 60)
    row("memory after it", f"{held:.0f} MB", "-", None, "<= 30 MB", ok=held <= 30)


def _one_call(home: Path, cwd: Path) -> None:
    """A run of two requests with a tool call between them, and what models around a model add to
    each request."""
    with BenchServer(_gemini) as server:
        times: dict[str, list[float]] = measured(ONE_CALL, home, cwd, server.url)
        spent = list(zip(server.first_bytes, server.sent, strict=True))
    requests = [2 * (sent - first) for first, sent in spent]
    plain, asked = median_ms(times["plain"]), median_ms(requests)
    row_above("a run with one tool call", plain, "its requests", asked, 3)
    for name in ("Fallback", "Limited"):
        around = plain + (median_ms(times[name]) - plain) / 2  # a run has two requests
        row_above(f"{name}, added to a request", around, "a run without", plain, 0.1)


def _many(home: Path, cwd: Path) -> None:
    with BenchServer(lambda _index: event(candidate({"text": "hi"}))) as server:
        found = measured(MANY, home, cwd, server.url)
    if found["done"] != PROMPTS:
        raise SystemExit(f"{found['done']} of {PROMPTS} prompts were answered")
    held, each = found["megabytes"], found["each"]
    row(
        f"{AGENTS} agents, one model, two requests each",
        f"{held:.0f} MB",
        "-",
        None,
        "<= 75 MB",
        ok=held <= 75,
    )
    row(
        f"{PROMPTS} prompts, eight at a time, each",
        f"{each:.2f} ms",
        "-",
        None,
        "<= 6 ms",
        ok=each <= 6,
    )
