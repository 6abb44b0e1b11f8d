"""`make bench`: prints every figure with its baseline, ratio and limit."""

import tempfile
from pathlib import Path

from bench import (
    calls,
    checkpoints,
    compression,
    context,
    edit,
    files,
    gateway,
    hooks,
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
    turns,
)


def main() -> None:
    header = ("figure", "value", "baseline", "ratio", "limit")
    print(f"{header[0]:46} {header[1]:>12} {header[2]:>24} {header[3]:>9}  {header[4]}")
    with tempfile.TemporaryDirectory() as folder:
        home, cwd = Path(folder, "home"), Path(folder, "project")
        home.mkdir()
        cwd.mkdir()
        startup.run(home, cwd)
        turns.run(home, cwd)
        loops.run()
        compression.run()
        stream.run()
        sending.run()
        sessions.run(home, cwd)
        calls.run(home, cwd)
        edit.run(home, cwd)
        shell.run(home, cwd)
        hooks.run(home, cwd)
        files.run(home, cwd)
        checkpoints.run(home, cwd)
        search.run(home, cwd)
        policy.run(home, cwd)
        memory.run(home, cwd)
        context.run(home, cwd)
        terminal.run(home, cwd)
        gateway.run(home, cwd)


if __name__ == "__main__":
    main()
