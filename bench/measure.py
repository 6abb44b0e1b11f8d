"""Runs commands and reports figures."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PASS = [sys.executable, "-c", "pass"]
ALHENA = [str(Path(sys.executable).parent / "alhena")]


def environment(home: Path, **extra: str) -> dict[str, str]:
    """A minimal environment with its own home."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return {**kept, "HOME": str(home), **extra}


def wall(command: list[str], cwd: Path, env: dict[str, str]) -> float:
    """Seconds from start to exit."""
    start = time.perf_counter()
    subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return time.perf_counter() - start


def peak_rss_mb(command: list[str], cwd: Path, env: dict[str, str]) -> float:
    """Peak resident memory of a command, in MB.

    Sampled while it runs: the figure at its end includes this process's size at the start of the
    command.
    """
    run = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    peak = 0
    while run.poll() is None:
        peak = max(peak, _high_water_kb(run.pid))
        time.sleep(0.001)
    return peak / 1024


def _high_water_kb(pid: int) -> int:
    """Peak resident memory of a running program, 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            lines = [line.split() for line in status]
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(words[1]) for words in lines if words[0] == "VmHWM:"), 0)


def reference(figure: str) -> list[str] | None:
    """The reference's command; None, with a line in the report, where it is not installed."""
    local = Path("node_modules/.bin/gemini")
    found = str(local.resolve()) if local.exists() else shutil.which("gemini")
    if found is None:
        print(f"{figure:46} gemini is not installed beside")
    return [found] if found else None


def signed_in_reference(env: dict[str, str]) -> tuple[Path, dict[str, object]]:
    """Has the reference use an API key in the home of `env`; its settings file, their content."""
    file = Path(env["HOME"], ".gemini", "settings.json")
    file.parent.mkdir(exist_ok=True)
    chosen: dict[str, object] = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    file.write_text(json.dumps(chosen), encoding="utf-8")
    return file, chosen


def row(name: str, value: str, baseline: str, ratio: float | None, limit: str, *, ok: bool) -> None:
    """One line of the report."""
    shown = f"{ratio:8.2f}x" if ratio is not None else "        -"
    print(f"{name:46} {value:>12} {baseline:>24} {shown}  {limit:18} {'ok' if ok else 'OVER'}")


def row_above(name: str, ours_ms: float, beside: str, bare_ms: float, limit_ms: float) -> None:
    """Prints the line for a time added to that of a baseline."""
    added = ours_ms - bare_ms
    row(
        name,
        f"{added:.2f} ms",
        f"{beside} {bare_ms:.2f} ms",
        ours_ms / bare_ms,
        f"<= {limit_ms:g} ms",
        ok=added <= limit_ms,
    )


def measured(program: str, home: Path, cwd: Path, *arguments: str) -> Any:
    """The JSON output of a Python program in a separate process."""
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=cwd,
        env=environment(home, PYTHONPATH=os.pathsep.join(filter(None, sys.path))),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(ran.stdout)


def timed_ms(work: Callable[[], object], rounds: int) -> float:
    """The median of some rounds."""
    taken: list[float] = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return median_ms(taken)


def median_ms(values: list[float]) -> float:
    return statistics.median(values) * 1000
