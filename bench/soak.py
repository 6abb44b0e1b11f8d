"""A session of 10,000 turns: the cost of a turn at its end, and growth of memory and files.

`python -m bench.soak [TURNS]`. The model's answers report their prompt tokens, so that the
conversation is compressed whenever it exceeds the threshold, as in a day's work.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import environment, row
from bench.server import BenchServer, candidate, event

TURNS = 10_000
TURNS_A_PROMPT = 50
MODEL = "gemini-3.8-flash"
THRESHOLD = 0.1
"""Share of a window of 1,048,576 tokens: about 400 KB of conversation."""
TOKEN = 4
"""Bytes of a token."""

PROGRAM = """
import asyncio, os, sys
from alhena import Agent
from alhena.library.options import AgentOptions
from alhena.config.settings import ModelSettings, Settings

prompts, turns, threshold = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

def state():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024, len(os.listdir("/proc/self/fd"))

async def main():
    model = ModelSettings(compression_threshold=threshold)
    options = AgentOptions(settings=Settings(model=model))
    async with Agent(model="gemini-3.8-flash", options=options) as agent:
        for prompt in range(prompts):
            await agent.ask(f"Look at the next part, number {prompt}.")
            print(*state(), len(agent.history), flush=True)

asyncio.run(main())
"""


def run(home: Path, cwd: Path, turns: int = TURNS) -> None:
    """Prints the figures."""
    path = cwd / "long.txt"
    path.write_text("".join(f"line {n:06} of a long text\n" for n in range(2 * turns)), "utf-8")
    prompts = turns // TURNS_A_PROMPT
    asked = 0
    compressions: list[int] = []

    def answer(index: int) -> bytes:
        nonlocal asked
        usage = {"usageMetadata": {"promptTokenCount": server.body_bytes[index] // TOKEN}}
        if not server.streams:
            compressions.append(index)
            said = f"<state_snapshot>Parts up to {asked} were read.</state_snapshot>"
            return json.dumps(candidate({"text": said}) | usage).encode()
        asked += 1
        if asked % TURNS_A_PROMPT == 0:
            return event(candidate({"text": f"That was part {asked}. " * 10}) | usage)
        args = {"absolute_path": str(path), "offset": asked, "limit": 40}
        return event(candidate({"functionCall": {"name": "read_file", "args": args}}) | usage)

    with BenchServer(answer) as server:
        env = environment(home) | {"GOOGLE_GEMINI_BASE_URL": server.url, "GEMINI_API_KEY": "x"}
        words = [sys.executable, "-c", PROGRAM, str(prompts), str(turns), str(THRESHOLD)]
        shown = subprocess.run(
            words, cwd=cwd, env=env, stdout=subprocess.PIPE, text=True, check=True
        )
    gaps = [first - sent for sent, first in zip(server.sent, server.first_bytes[1:], strict=False)]
    states = [line.split() for line in shown.stdout.splitlines()]
    _print(turns, gaps, [(float(rss), int(files)) for rss, files, _ in states])
    print(json.dumps({"compressions": len(compressions), "contents at the end": states[-1][2]}))


def _print(turns: int, gaps: list[float], states: list[tuple[float, int]]) -> None:
    worst = sorted(gaps)[int(len(gaps) * 0.99)] * 1000
    row(
        f"p99 of what a turn costs, {turns:,} turns",
        f"{worst:.1f} ms",
        f"median {sorted(gaps)[len(gaps) // 2] * 1000:.1f} ms",
        None,
        "< 20 ms",
        ok=worst < 20,
    )
    fifth = len(states) // 5
    early = max(rss for rss, _ in states[fifth : 2 * fifth])
    late = max(rss for rss, _ in states[-fifth:])
    row(
        f"memory in the last fifth of {turns:,} turns",
        f"{late:.0f} MB",
        f"second fifth {early:.0f} MB",
        late / early,
        "<= 1.1 x",
        ok=late <= early * 1.1,
    )
    files = states[-1][1]
    row(
        "open files after these",
        f"{files}",
        f"in the beginning {states[0][1]}",
        None,
        "no more",
        ok=files <= states[0][1],
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        home.mkdir()
        project.mkdir()
        run(home, project, int(sys.argv[1]) if sys.argv[1:] else TURNS)
