"""Running commands and reporting figures."""

import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

PASS = [sys.executable, "-c", "pass"]
ALHENA = [str(Path(sys.executable).parent / "alhena")]


def environment(home: Path, **extra: str) -> dict[str, str]:
    """A bare environment with a home of its own."""
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
    """Peak resident memory of a command, in MB."""
    run = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, _, usage = os.wait4(run.pid, 0)
    run.returncode = 0
    return usage.ru_maxrss / 1024


def reference() -> list[str] | None:
    """The reference's command when it is installed beside, else None."""
    local = Path("node_modules/.bin/gemini")
    found = str(local.resolve()) if local.exists() else shutil.which("gemini")
    return [found] if found else None


def row(name: str, value: str, baseline: str, ratio: float | None, limit: str, *, ok: bool) -> None:
    """One line of the report."""
    shown = f"{ratio:8.2f}x" if ratio is not None else "        -"
    print(f"{name:46} {value:>12} {baseline:>24} {shown}  {limit:18} {'ok' if ok else 'OVER'}")


def median_ms(values: list[float]) -> float:
    return statistics.median(values) * 1000
