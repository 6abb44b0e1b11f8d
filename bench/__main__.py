"""`make bench`: prints every figure with its baseline, ratio and limit; `python -m bench NAME …`
only those of these modules."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import (
    acp,
    batch,
    calls,
    checkpoints,
    compression,
    context,
    cost,
    edit,
    files,
    gateway,
    hooks,
    library,
    loops,
    memory,
    policy,
    search,
    sending,
    sessions,
    shell,
    startup,
    stream,
    terminal,
    tracing,
    turns,
)

Run = Callable[[Path, Path], None]

PARTS: dict[str, Run] = {
    "startup": startup.run,
    "turns": turns.run,
    "loops": lambda _home, _cwd: loops.run(),
    "compression": lambda _home, _cwd: compression.run(),
    "stream": lambda _home, _cwd: stream.run(),
    "sending": lambda _home, _cwd: sending.run(),
    "sessions": sessions.run,
    "tracing": tracing.run,
    "calls": calls.run,
    "edit": edit.run,
    "shell": shell.run,
    "hooks": hooks.run,
    "files": files.run,
    "checkpoints": checkpoints.run,
    "search": search.run,
    "policy": policy.run,
    "memory": memory.run,
    "context": context.run,
    "cost": cost.run,
    "terminal": terminal.run,
    "gateway": gateway.run,
    "acp": acp.run,
    "library": library.run,
    "batch": batch.run,
}
"""The measurements, in order, each in a home and a project."""


def main() -> None:
    names = sys.argv[1:]
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        raise SystemExit(f"no part is called {unknown[0]!r}; there are: {', '.join(PARTS)}")
    header = ("figure", "value", "baseline", "ratio", "limit")
    print(f"{header[0]:46} {header[1]:>12} {header[2]:>24} {header[3]:>9}  {header[4]}")
    with tempfile.TemporaryDirectory() as folder:
        home, cwd = Path(folder, "home"), Path(folder, "project")
        home.mkdir()
        cwd.mkdir()
        for name in names or PARTS:
            PARTS[name](home, cwd)


if __name__ == "__main__":
    main()
