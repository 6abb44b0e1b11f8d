"""Prints which rows of requirements.toml tests claim, and which not."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def claims() -> dict[str, list[str]]:
    """Requirement id -> the tests that claim it, from pytest's own collection."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "--list-requirements"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode != 0:
        sys.exit(run.stdout + run.stderr)
    found: dict[str, list[str]] = {}
    for line in run.stdout.splitlines():
        if line.startswith("requirement "):
            _, identifier, test = line.split(" ", 2)
            found.setdefault(identifier, []).append(test)
    return found


def main() -> None:
    rows = tomllib.loads((ROOT / "requirements.toml").read_text(encoding="utf-8"))
    claimed = claims()
    open_count = 0
    for room, ids in rows.items():
        print(f"\n{room}")
        for identifier, text in ids.items():
            tests = len(claimed.get(identifier, []))
            open_count += tests == 0
            mark = f"{tests:3} tests" if tests else "     open"
            print(f"  {identifier:10} {mark}  {text[:80]}")
    total = sum(len(ids) for ids in rows.values())
    print(f"\n{total - open_count} of {total} rows claimed")


if __name__ == "__main__":
    main()
