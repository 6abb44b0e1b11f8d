"""Plants the faults of faults.toml one by one and reports those that no claiming test catches.

    python scripts/mutate.py [ROW ...]

Each fault is planted in a temporary copy of the tree, where the tests that claim its row run until
the first failure. Exit code 0: all faults were caught; 1: some were not; 2: a fault cannot be
planted, or a claimed row has none.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "dist")
LIMIT_S = 900


@dataclass(frozen=True)
class Fault:
    """`old`, which occurs once in the source file `path`, becomes `new`."""

    row: str
    path: Path
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.row} {self.path}: {self.old.strip()!r} -> {self.new.strip()!r}"


def main(wanted: list[str]) -> int:
    claims = claimed()
    faults, problems = planned()
    planted = {fault.row for fault in faults}
    rows = wanted or sorted(claims)
    problems += [f"{row} is claimed by no test" for row in rows if row not in claims]
    problems += [f"{row} has no fault" for row in rows if row not in planted]
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 2
    left: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        tree = Path(folder) / "tree"
        python = copied(tree)
        catchers: dict[str, list[Fault]] = {}
        for fault in (each for each in faults if each.row in rows):
            caught = catcher(fault, tree, python, claims[fault.row])
            print(f"{fault}\n    {'caught by ' + caught if caught else 'NOT CAUGHT'}", flush=True)
            if caught:
                catchers.setdefault(caught, []).append(fault)
            else:
                left.append(str(fault))
        for test in failing(tree, python, list(catchers)) if catchers else ():
            left += [f"{fault}: {test} fails without it too" for fault in catchers[test]]
    print("\n".join(["", f"{len(left)} faults left", *left]))
    return 1 if left else 0


def claimed() -> dict[str, list[str]]:
    """Row -> the test files that name it."""
    rows = tomllib.loads((ROOT / "requirements.toml").read_text(encoding="utf-8"))
    known = {row for rows in rows.values() for row in rows}
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for row in known.intersection(re.findall(r'"([A-Z]+-\d\d)"', text)):
            found.setdefault(row, []).append(str(path.relative_to(ROOT)))
    return found


def planned() -> tuple[list[Fault], list[str]]:
    """The faults, each with its current file, and the problems of others.

    If the text has moved to another file, that file is used if it is the only one.
    """
    table = tomllib.loads((ROOT / "scripts" / "faults.toml").read_text(encoding="utf-8"))
    texts = {
        path.relative_to(ROOT): path.read_text(encoding="utf-8")
        for pattern in ("*.py", "*.toml", "*.json", "*.md")
        for folder in ("src", "examples")
        for path in sorted((ROOT / folder).rglob(pattern))
    }
    faults: list[Fault] = []
    problems: list[str] = []
    for row, entries in table.items():
        for entry in entries:
            fault = Fault(row, Path(entry["file"]), entry["old"], entry["new"])
            counts = {path: text.count(fault.old) for path, text in texts.items()}
            places = [path for path, count in counts.items() if count]
            if counts.get(fault.path) == 1:
                faults.append(fault)
            elif fault.path not in places and len(places) == 1 and counts[places[0]] == 1:
                faults.append(Fault(row, places[0], fault.old, fault.new))
            else:
                where = ", ".join(f"{counts[path]} in {path}" for path in places) or "nowhere"
                problems.append(f"{fault}: the old text has to occur once; it occurs {where}")
    return faults, problems


def copied(tree: Path) -> Path:
    """Copies the tree, with an environment in which `alhena` is the copied source; returns its
    Python."""
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    made = [sys.executable, "-m", "venv", "--without-pip", str(tree / ".venv")]
    subprocess.run(made, check=True)
    (packages,) = (tree / ".venv" / "lib").glob("*/site-packages")
    installed = sysconfig.get_paths()["purelib"]
    path = f"{tree / 'src'}\nimport site; site.addsitedir({installed!r})\n"
    (packages / "copied.pth").write_text(path, encoding="utf-8")
    python = tree / ".venv" / "bin" / "python"
    command = python.with_name("alhena")
    command.write_text(
        f"#!{python}\nimport sys\nfrom alhena.__main__ import main\n\nsys.exit(main())\n",
        encoding="utf-8",
    )
    command.chmod(0o755)
    # Pages install with uv, which knows the packages of this environment by these folders.
    python.with_name("uv").symlink_to(Path(sys.executable).with_name("uv"))
    for about in Path(installed).glob("*.dist-info"):
        shutil.copytree(about, packages / about.name)
    return python


def catcher(fault: Fault, tree: Path, python: Path, tests: list[str]) -> str | None:
    """The first claiming test that fails with the fault; None if all pass."""
    target = tree / fault.path
    sound = target.read_text(encoding="utf-8")
    # Python checks compiled code by its source's size and its time in seconds only.
    compiled = target.parent / "__pycache__"
    shutil.rmtree(compiled, ignore_errors=True)
    target.write_text(sound.replace(fault.old, fault.new), encoding="utf-8")
    try:
        failed = failing(tree, python, ["-x", f"--requirement={fault.row}", *tests])
    finally:
        target.write_text(sound, encoding="utf-8")
        shutil.rmtree(compiled, ignore_errors=True)
    return failed[0] if failed else None


def failing(tree: Path, python: Path, arguments: list[str]) -> list[str]:
    """The ids of the tests that fail."""
    record = tree / ".pytest_cache" / "v" / "cache" / "lastfailed"
    record.unlink(missing_ok=True)
    ran = subprocess.run(
        [str(python), "-m", "pytest", "-q", "--tb=short", *arguments],
        cwd=tree,
        env={**os.environ, "CI": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    if ran.returncode == 0:
        return []
    failed = list(json.loads(record.read_text(encoding="utf-8"))) if record.exists() else []
    if ran.returncode != 1 or not failed:
        sys.exit(f"the tests did not run:\n{ran.stdout[-3000:]}{ran.stderr[-1000:]}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
