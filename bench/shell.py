"""run_shell_command: throughput for a gigabyte of output, and overhead of starting a process."""

from pathlib import Path

from bench.measure import measured, row, row_above

FLOOD = "yes 'fifty-nine characters of output and then a line break, so' | head -c 1000000000"
ROUNDS = 40

PROGRAM = """
import asyncio, json, statistics, sys, time
from pathlib import Path
from alhena.system.processes import ProcessGroups
from alhena.system.workspace import Workspace
from alhena.tools.builtin.run_shell_command import RunShellCommand
from alhena.tools.contract import ExecutionContext
from alhena.tools.output_store import OutputStore

flood, rounds = sys.argv[1], int(sys.argv[2])

def peak():
    # Not what getrusage says, which begins with the size of whoever started this process.
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

async def bare(command):
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", command, stdin=-3, stdout=-1, stderr=-2, limit=1 << 20
    )
    while await process.stdout.read(1 << 18):
        pass
    await process.wait()

async def main():
    groups = ProcessGroups()
    outputs = OutputStore(Path("outputs"), "bench")
    tool = RunShellCommand(Workspace("."), groups=groups, outputs=outputs)
    async def ours(command):
        return await tool.build({"command": command}).execute(ExecutionContext(Path.cwd()))
    async def timed(work):
        start = time.perf_counter()
        await work
        return time.perf_counter() - start
    await ours("seq 1 20000")
    await bare("true")
    spawn, base = [], []
    for _ in range(rounds):
        base.append(await timed(bare("true")))
        spawn.append(await timed(ours("true")))
    flow = min([await timed(bare(flood)) for _ in range(2)])
    before = peak()
    seconds = await timed(ours(flood))
    await groups.close()
    print(json.dumps({
        "spawn_ms": statistics.median(spawn) * 1000, "bare_ms": statistics.median(base) * 1000,
        "seconds": seconds, "bare_seconds": flow, "memory": peak() - before, "before": before,
    }))

asyncio.run(main())
"""


def run(home: Path, cwd: Path) -> None:
    found = measured(PROGRAM, home, cwd, FLOOD, str(ROUNDS))
    kept = list(cwd.glob("outputs/session-bench/*.txt"))
    assert max(path.stat().st_size for path in kept) > 1_000_000_000
    for path in kept:
        path.unlink()
    rate, base = 1000 / found["seconds"], 1000 / found["bare_seconds"]
    row(
        "shell: 1 GB of output, kept on disk",
        f"{rate:.0f} MB/s",
        f"read and dropped {base:.0f} MB/s",
        rate / base,
        ">= 150 MB/s",
        ok=rate >= 150,
    )
    row(
        "shell: 1 GB of output, further memory",
        f"{found['memory']:.1f} MB",
        f"before it {found['before']:.1f} MB",
        None,
        "< 60 MB",
        ok=found["memory"] < 60,
    )
    name = "shell: a command, above bare asyncio"
    row_above(name, found["spawn_ms"], "bash -c true", found["bare_ms"], 5)
