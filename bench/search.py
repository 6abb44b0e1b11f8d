"""Searches a tree of 3,000 files with one tool call, compared with ripgrep alone."""

import asyncio
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from alhena.system.search import FileSearch
from alhena.system.workspace import Workspace
from alhena.tools.builtin.search_file_content import SearchFileContent
from bench.files import call, timed
from bench.measure import row
from bench.tree import NEEDLE, make_tree

ROUNDS = 15
PATTERNS = (("a word", NEEDLE), ("an expression", r"\bresolve_\w+\(request, \w+\)"))
LIMITS = {"ripgrep": 1.3, "python": 4.0}


def run(home: Path, cwd: Path) -> None:
    del home
    tree = cwd / "tree"
    if not tree.exists():
        make_tree(tree)
    program = shutil.which("rg")
    backends: list[FileSearch] = [FileSearch()]
    if program is None:
        print(f"{'search of 3,000 files':46} ripgrep is not installed beside")
    else:
        backends.insert(0, FileSearch(program))
    for what, pattern in PATTERNS:
        for backend in backends:
            asyncio.run(_measure(tree, program, backend, what, pattern))


async def _measure(
    tree: Path, program: str | None, backend: FileSearch, what: str, pattern: str
) -> None:
    """Alternates rounds of both, so that other load affects both."""
    tool = SearchFileContent(Workspace(tree), backend=backend)

    async def ours() -> None:
        result = await call(tool, tree, pattern=pattern)
        assert result.data is not None
        assert (result.data["matches"], result.data["backend"]) == (30, backend.name)

    await ours()
    taken: list[float] = []
    alone: list[float] = []
    for _ in range(ROUNDS):
        taken.append(await timed(ours, rounds=1))
        if program is not None:
            alone.append(_alone(program, tree, pattern))
    value = statistics.median(taken)
    base = statistics.median(alone) * 1000 if alone else None
    pairs = [mine / (theirs * 1000) for mine, theirs in zip(taken, alone, strict=False)]
    ratio = statistics.median(pairs) if pairs else None
    limit = LIMITS[backend.name]
    row(
        f"search of 3,000 files for {what}, {backend.name}",
        f"{value:.1f} ms",
        f"rg alone {base:.1f} ms" if base else "no rg",
        ratio,
        f"<= {limit:g} x rg",
        ok=ratio is None or ratio <= limit,
    )


def _alone(program: str, tree: Path, pattern: str) -> float:
    """Seconds of the same search with ripgrep, output read."""
    argv = [
        program,
        "--no-config",
        "--hidden",
        "--ignore-case",
        "--line-number",
        "-e",
        pattern,
        ".",
    ]
    start = time.perf_counter()
    subprocess.run(argv, cwd=tree, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.perf_counter() - start
