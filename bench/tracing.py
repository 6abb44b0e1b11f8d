"""The cost of a session's page: writing it, its size, and opening it in Chromium where there is
one."""

import shutil
import statistics
from pathlib import Path

from bench.measure import ALHENA, environment, row, wall
from bench.sessions import LongSession

LIMITS = {10: 300_000, 1_200: 1_500_000, 10_000: None}
"""Calls of a session, and the bytes its page may have; None: as many as its journal."""


def run(home: Path, cwd: Path) -> None:
    """Prints the figures."""
    store = home / ".gemini" / "tmp" / "project" / "sessions"
    store.mkdir(parents=True, exist_ok=True)
    (store.parent / ".project_root").write_text(str(cwd), encoding="utf-8")
    env = environment(home)
    command = [*ALHENA, "trace", "s", "--html", "page.html"]
    page, journal = cwd / "page.html", store / "s.jsonl"

    def written() -> float:
        page.unlink(missing_ok=True)
        return wall(command, cwd, env)

    _record(journal, cwd, 1_000)
    took = statistics.median(written() for _ in range(5))
    name = "alhena trace --html, 1,000 calls"
    row(name, f"{took * 1000:.0f} ms", "", None, "<= 500 ms", ok=took <= 0.5)
    for calls, most in LIMITS.items():
        _record(journal, cwd, calls)
        written()
        size, whole = page.stat().st_size, journal.stat().st_size
        limit = most or whole
        row(
            f"size of that page, {calls:,} calls",
            f"{size / 1000:,.0f} kB",
            f"journal {whole / 1000:,.0f} kB",
            size / whole,
            f"< {limit / 1000:,.0f} kB",
            ok=size < limit,
        )
    _opened(page, home)
    page.unlink()
    journal.unlink()


def _record(journal: Path, cwd: Path, calls: int) -> None:
    journal.unlink(missing_ok=True)
    session = LongSession(journal, cwd)
    for index in range(calls):
        session.turn(index, lambda: None)
    session.journal.close()


def _opened(page: Path, home: Path) -> None:
    """The time to open the page, as the difference to an empty one."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("opening the page: not measured, there is no chromium")
        return
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}/profile"]
    dump = [chromium, *flags, "--dump-dom"]
    empty, full = (
        statistics.median(wall([*dump, address], home, environment(home)) for _ in range(3))
        for address in ("about:blank", page.as_uri())
    )
    row(
        "opening that page in Chromium, 10,000 calls",
        f"{(full - empty) * 1000:.0f} ms",
        f"an empty one {empty * 1000:.0f} ms",
        None,
        "< 2000 ms",
        ok=full - empty < 2,
    )
