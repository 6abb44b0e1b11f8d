"""Prints the coverage of lines and branches by package, as measured by `make coverage`."""

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIGURES = ("covered_lines", "num_statements", "covered_branches", "num_branches")


def measured() -> dict[str, dict[str, int]]:
    """Package -> the figures of its files."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        command = [sys.executable, "-m", "coverage", "json", "-q", "-o", str(report)]
        subprocess.run(command, cwd=ROOT, check=True)
        files = json.loads(report.read_text(encoding="utf-8"))["files"]
    packages: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(FIGURES, 0))
    for name, file in files.items():
        folder = Path(name).relative_to("src/alhena").parent
        for package in {"all", folder.parts[0] if folder.parts else "alhena"}:
            for figure in FIGURES:
                packages[package][figure] += file["summary"][figure]
    return packages


def main() -> None:
    print(f"{'package':12} {'lines':>8} {'branches':>9}")
    packages = measured()
    for package in [*sorted(packages.keys() - {"all"}), "all"]:
        lines, statements, branches, both = (packages[package][figure] for figure in FIGURES)
        print(f"{package:12} {lines / max(statements, 1):8.1%} {branches / max(both, 1):9.1%}")


if __name__ == "__main__":
    main()
