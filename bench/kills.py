"""`make soak-kills`: kills sessions with SIGKILL at random times, and counts the results.

`python -m bench.kills [KILLS] [FIRST_SEED]`. Each batch of kills has a seed, a home and a project;
`tests.session.killing` checks every kill, and a loss ends this with its seed.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KILLS = 5_000
LOT = 50
ROOT = Path(__file__).resolve().parent.parent


def lot(seed: int, kills: int) -> dict[str, int]:
    """Runs one seed and returns its counts. Raises SystemExit with the losses."""
    with tempfile.TemporaryDirectory() as folder:
        home, cwd = Path(folder, "home"), Path(folder, "project")
        home.mkdir()
        cwd.mkdir()
        ran = subprocess.run(
            [sys.executable, "-m", "tests.session.killing", str(seed), str(kills)],
            cwd=cwd,
            env={
                "PATH": os.environ.get("PATH", ""),
                "HOME": str(home),
                "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
            },
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode:
        sys.exit(f"seed {seed}: {ran.stderr[-2_000:]}")
    return json.loads(ran.stdout)


def main(kills: int = KILLS, first: int = 0) -> None:
    """Prints the counts."""
    start = time.monotonic()
    totals = {"kills": 0, "acknowledged": 0, "unknown": 0, "not_started": 0}
    seed = first
    while totals["kills"] < kills:
        seen = lot(seed, min(LOT, kills - totals["kills"]))
        totals = {name: count + seen[name] for name, count in totals.items()}
        seed += 1
    print(
        f"{totals['kills']:,} kills, 0 lost turns: {totals['acknowledged']:,} acknowledged, "
        f"{totals['unknown']:,} calls of unknown outcome, {totals['not_started']:,} not started; "
        f"seeds {first} to {seed - 1}; {time.monotonic() - start:.0f} s on {os.cpu_count()} cores "
        f"of {platform.machine()}, Python {platform.python_version()}"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
