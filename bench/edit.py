"""The cost of an edit in the middle of a 5 MB file, from the call to the bytes on disk."""

import asyncio
import os
import time
from pathlib import Path

from alhena.system.workspace import Workspace
from alhena.tools.builtin.edit_files import Replace
from alhena.tools.contract import ExecutionContext, ToolFailure
from bench.measure import median_ms, row

SIZE = 5_000_000
ROUNDS = 9
LIMIT_MS = 80


def run(home: Path, cwd: Path) -> None:
    del home
    for name, newline in (("LF", "\n"), ("CRLF", "\r\n")):
        path = cwd / "edited.txt"
        count = SIZE // (39 + len(newline))
        text = "".join(f"    value_{n:07d} = compute({n:07d})  {newline}" for n in range(count))
        base = [_bare(path, text) for _ in range(ROUNDS)]
        path.write_bytes(text.encode())
        ours = [asyncio.run(_edit(cwd, count // 2 + n)) for n in range(ROUNDS)]
        path.unlink()
        value, theirs = median_ms(ours), median_ms(base)
        row(
            f"edit in a 5 MB file ({name})",
            f"{value:.1f} ms",
            f"read, replace, write {theirs:.1f} ms",
            value / theirs,
            f"<= {LIMIT_MS} ms",
            ok=value <= LIMIT_MS,
        )


def _bare(path: Path, text: str) -> float:
    """The minimum work of any crash-safe edit."""
    path.write_bytes(text.encode())
    start = time.perf_counter()
    data = path.read_bytes().decode().replace("value_0050000", "other_0050000").encode()
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return time.perf_counter() - start


async def _edit(cwd: Path, number: int) -> float:
    start = time.perf_counter()
    invocation = Replace(Workspace(cwd)).build(
        {
            "file_path": "edited.txt",
            "old_string": f"value_{number:07d} = compute({number:07d})",
            "new_string": f"other_{number:07d} = compute(\n        {number:07d})",
        }
    )
    if isinstance(invocation, ToolFailure):
        raise TypeError(invocation.message)
    result = await invocation.execute(ExecutionContext(cwd))
    if result.error is not None:
        raise TypeError(result.error.message)
    return time.perf_counter() - start
