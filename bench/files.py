"""Finding, listing and reading files, each as one tool call, in a warm process."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from alhena.system.workspace import Workspace
from alhena.tools.builtin.list_directory import Glob, ListDirectory
from alhena.tools.builtin.read_file import ReadFile
from alhena.tools.builtin.read_many_files import ReadManyFiles
from alhena.tools.contract import ExecutionContext, Tool, ToolFailure, ToolResult
from bench.measure import median_ms, row
from bench.tree import FILES, make_tree

ROUNDS = 11
READS = 100


async def call(tool: Tool, cwd: Path, **params: Any) -> ToolResult:
    """Makes a call as the executor does, from parameters to a successful result."""
    built = tool.build(params)
    if isinstance(built, ToolFailure):
        raise TypeError(built.message)
    result = await built.execute(ExecutionContext(cwd))
    if result.error is not None:
        raise RuntimeError(result.error.message)
    return result


async def timed(work: Callable[[], Awaitable[object]], rounds: int = ROUNDS) -> float:
    """The median of some rounds in ms, after one that is not counted."""
    await work()
    taken: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        await work()
        taken.append(time.perf_counter() - start)
    return median_ms(taken)


def run(home: Path, cwd: Path) -> None:
    del home
    tree = cwd / "tree"
    if not tree.exists():
        make_tree(tree)
    flat = cwd / "flat"
    flat.mkdir(exist_ok=True)
    for number in range(FILES):
        (flat / f"file_{number:04}.txt").touch()
    paths = sorted(str(path) for path in tree.rglob("*.py"))[:READS]
    asyncio.run(_measure(tree, flat, paths))


async def _measure(tree: Path, flat: Path, paths: list[str]) -> None:
    workspace = Workspace(tree, [flat])
    walk = await timed(lambda: asyncio.to_thread(_walked, tree))
    value = await timed(lambda: call(Glob(workspace), tree, pattern="**/*", path=str(tree)))
    baseline = f"os.walk with stat {walk:.1f} ms"
    _row("glob of 3,000 files", value, baseline, value / walk, 60)
    scan = await timed(lambda: asyncio.to_thread(_walked, flat))
    value = await timed(lambda: call(ListDirectory(workspace), tree, path=str(flat)))
    _row("list of 3,000 entries", value, f"os.walk with stat {scan:.1f} ms", value / scan, 60)
    plain = await timed(lambda: asyncio.to_thread(_read, paths))
    baseline = f"open and read {plain:.1f} ms"
    value = await timed(lambda: _in_parallel(ReadFile(workspace), tree, paths))
    _row("100 read_file in parallel", value, baseline, value / plain, 50)
    value = await timed(lambda: call(ReadManyFiles(workspace), tree, paths=paths))
    _row("read_many_files of 100 paths", value, baseline, value / plain, 50)


def _walked(top: Path) -> int:
    return sum(
        os.stat(os.path.join(folder, name)).st_size
        for folder, _, names in os.walk(top)
        for name in names
    )


def _read(paths: list[str]) -> int:
    return sum(len(Path(path).read_text(encoding="utf-8")) for path in paths)


async def _in_parallel(tool: Tool, cwd: Path, paths: list[str]) -> None:
    await asyncio.gather(*(call(tool, cwd, absolute_path=path) for path in paths))


def _row(name: str, value: float, baseline: str, ratio: float, limit: int) -> None:
    row(name, f"{value:.1f} ms", baseline, ratio, f"<= {limit} ms", ok=value <= limit)
