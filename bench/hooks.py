"""Hooks: the overhead of one beyond starting its process, and the cost without hooks."""

from pathlib import Path

from bench.measure import measured, row, row_above

ROUNDS = 40

PROGRAM = """
import asyncio, json, os, statistics, sys, time
from alhena.hooks.model import HookDefinition, HookEvent, HookGroup, HookSource
from alhena.hooks.running import HookSurroundings
from alhena.hooks.planning import Hooks
from alhena.system.processes import ProcessGroups

EVENT = HookEvent.BEFORE_TOOL
COMMAND = "cat >/dev/null"

async def bare():
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", COMMAND, stdin=-1, stdout=-1, stderr=-1
    )
    await process.communicate(b"{}")

async def main():
    groups = ProcessGroups()
    around = HookSurroundings(
        session_id="s", cwd=os.getcwd(), environ=os.environ, project_dir=os.getcwd(), groups=groups
    )
    hook = HookDefinition(command=COMMAND, source=HookSource.USER)
    hooks = Hooks((HookGroup(event=EVENT, hooks=(hook,)),), around)
    fields = {"tool_name": "write_file", "tool_input": {"file_path": "a", "content": "b" * 1000}}
    async def timed(make):
        start = time.perf_counter()
        await make()
        return time.perf_counter() - start
    fire = lambda: hooks.fire(EVENT, fields, match="write_file")
    await fire()
    await bare()
    ours, base = [], []
    for _ in range(int(sys.argv[1])):
        base.append(await timed(bare))
        ours.append(await timed(fire))
    none = Hooks(())
    start = time.perf_counter()
    for _ in range(10000):
        await none.fire(EVENT, fields, match="write_file")
    nothing = (time.perf_counter() - start) / 10000
    await groups.close()
    ours, base = (statistics.median(times) * 1000 for times in (ours, base))
    print(json.dumps({"ours": ours, "bare": base, "none": nothing * 1e6}))

asyncio.run(main())
"""


def run(home: Path, cwd: Path) -> None:
    found = measured(PROGRAM, home, cwd, str(ROUNDS))
    name = "hooks: a hook, above bare asyncio"
    row_above(name, found["ours"], "its process", found["bare"], 8)
    row("hooks: none configured", f"{found['none']:.2f} us", "-", None, "<= 20 us",
        ok=found["none"] <= 20)  # fmt: skip
