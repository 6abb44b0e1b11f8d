"""The cost of a call through scheduler, policy and executor, compared with the bare tool; and a
queue with cancelled calls."""

import asyncio
import random
import time
from pathlib import Path
from typing import Any

from alhena.agent.delegation import open_agents
from alhena.agent.toolset.factory import open_toolset
from alhena.agent.toolset.options import SessionSpec, Tools
from alhena.agent.toolset.toolset import SessionLinks, Toolset
from alhena.config.effective_settings import Place
from alhena.config.settings import Settings
from alhena.events import Event, ToolCallUpdateEvent
from alhena.models.providers.demo import DemoGenerator
from alhena.scheduler.scheduler import Scheduler
from alhena.tools.contract import ExecutionContext, Kind, ToolFailure, ToolResult
from alhena.tools.function import tool
from alhena.wire.content import ToolCallRequestInfo
from bench.measure import median_ms, row

CALLS = 300
ROUNDS = 7
LIMIT_MS = 0.3
QUEUED, CANCELLED = 1_000, 100
QUEUE_LIMIT_S = 2.0


@tool
async def look(name: str) -> str:
    """Looks at nothing.

    Args:
        name: what
    """
    return name


@tool(kind=Kind.EDIT)
async def change(name: str) -> str:
    """Changes nothing.

    Args:
        name: what
    """
    await asyncio.sleep(0)
    return name


def run(home: Path, cwd: Path) -> None:
    bench = _toolset(home, cwd)
    asyncio.run(_overhead(bench))
    asyncio.run(_queue(bench))


def _toolset(home: Path, cwd: Path) -> Toolset:
    return open_toolset(
        SessionSpec(
            place=Place(cwd=cwd, environ={"HOME": str(home)}, settings=Settings()),
            tools=Tools(own=(look, change)),
        ),
        SessionLinks(
            session_id="bench", answering=lambda: (DemoGenerator(), "none"), delegate=open_agents
        ),
    )


def _requests(count: int, name: str) -> list[ToolCallRequestInfo]:
    return [
        ToolCallRequestInfo(call_id=f"c{number}", name=name, args={"name": f"{number}"})
        for number in range(count)
    ]


async def _overhead(bench: Toolset) -> None:
    scheduler = bench.scheduler(lambda _event: None)
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for request in _requests(CALLS, "look"):
            (done,) = await scheduler.schedule(request)
            if done.status != "success":
                raise RuntimeError(done.response.error)
        ours.append((time.perf_counter() - start) / CALLS)
        start = time.perf_counter()
        for request in _requests(CALLS, "look"):
            await _bare(request.args, bench.workspace.cwd)
        bare.append((time.perf_counter() - start) / CALLS)
    value, base = median_ms(ours), median_ms(bare)
    over = value - base
    row(
        "a call through scheduler, policy, executor",
        f"{over:.3f} ms",
        f"the bare tool {base:.3f} ms",
        value / base,
        f"<= {LIMIT_MS} ms",
        ok=over <= LIMIT_MS,
    )


async def _bare(args: dict[str, Any], cwd: Path) -> ToolResult:
    built = look.build(args)
    if isinstance(built, ToolFailure):
        raise TypeError(built.message)
    return await built.execute(ExecutionContext(cwd))


async def _queue(bench: Toolset) -> None:
    """Queues batches of ten at once; some calls are cancelled individually, in any state."""
    taken: list[float] = []
    for seed in range(ROUNDS):
        dice = random.Random(seed)
        states = ("validating", "scheduled", "executing")
        chosen = {f"c{n}": dice.choice(states) for n in dice.sample(range(QUEUED), CANCELLED)}
        schedulers: list[Scheduler] = []

        def strike(
            event: Event,
            chosen: dict[str, str] = chosen,
            schedulers: list[Scheduler] = schedulers,
        ) -> None:
            if isinstance(event, ToolCallUpdateEvent) and chosen.get(event.call_id) == event.status:
                schedulers[0].cancel(event.call_id)

        schedulers.append(bench.scheduler(strike))
        start = time.perf_counter()
        batches = [schedulers[0].schedule(batch) for batch in _batches(QUEUED, 10)]
        ended = [call for batch in await asyncio.gather(*batches) for call in batch]
        taken.append(time.perf_counter() - start)
        cancelled = sum(call.status == "cancelled" for call in ended)
        if (len(ended), cancelled) != (QUEUED, CANCELLED):
            raise RuntimeError(f"{len(ended)} calls have ended, {cancelled} of them cancelled")
    seconds = median_ms(taken) / 1000
    row(
        f"{QUEUED:,} queued calls, {CANCELLED} cancelled",
        f"{seconds:.2f} s",
        "",
        None,
        f"< {QUEUE_LIMIT_S:g} s",
        ok=seconds < QUEUE_LIMIT_S,
    )


def _batches(count: int, size: int) -> list[list[ToolCallRequestInfo]]:
    looks, changes = _requests(count, "look"), _requests(count, "change")
    mixed = [(looks if number % 3 else changes)[number] for number in range(count)]
    return [mixed[start : start + size] for start in range(0, count, size)]
