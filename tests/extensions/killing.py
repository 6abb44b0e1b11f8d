"""Kills `alhena extensions install` and `update` with SIGKILL at random steps, and checks what is
left: `python -m tests.extensions.killing SEEDS` in an empty directory.

A step is a call that the interpreter audits and that changes or opens a file. A process of its own,
for it forks: so each kill takes a few milliseconds."""

import json
import os
import random
import shutil
import signal
import sys
from contextlib import redirect_stdout
from pathlib import Path

from alhena.config.extensions import load_extensions
from alhena.frontends.main import run

STEPS = ("open", "os.", "shutil.", "tempfile.")
FILES = 5
NAME = "demo"


def write(source: Path, version: str) -> None:
    """A version of the extension, named in each of its files."""
    (source / "commands").mkdir(parents=True, exist_ok=True)
    manifest = {"name": NAME, "version": version}
    (source / "gemini-extension.json").write_text(json.dumps(manifest), encoding="utf-8")
    for each in range(FILES):
        text = f'prompt = "{version}"'
        (source / "commands" / f"c{each}.toml").write_text(text, encoding="utf-8")


def kill_at_step(argv: list[str], at: int | None) -> int:
    """Runs a command in a child that is killed at a step; its number of steps without one."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        count = 0

        def step(event: str, _args: object) -> None:
            nonlocal count
            if event.startswith(STEPS):
                if count == at:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1

        sys.addaudithook(step)
        code = run(argv)
        os.write(writes, str(count).encode())
        os._exit(code)
    os.close(writes)
    _, status = os.waitpid(child, 0)
    told = os.read(reads, 100)
    os.close(reads)
    if at is None and status != 0:
        raise AssertionError(f"{argv} ended with {status}")
    return int(told or 0)


def whole(home: Path) -> str:
    """The version of the installed extension, "" without one. Raises AssertionError for one that
    is not whole or not used."""
    found = load_extensions({"HOME": str(home)}, home)
    assert not found.problems, found.problems
    if not found.all:
        return ""
    (extension,) = found.used
    version = extension.manifest.version
    texts = [path.read_text() for path in sorted((extension.folder / "commands").iterdir())]
    assert texts == [f'prompt = "{version}"'] * FILES, texts
    assert extension.installation is not None
    return version


def try_seed(seed: int, home: Path, source: Path, steps: dict[str, int]) -> str:
    """Kills one command, checks, and repeats it whole."""
    chosen = random.Random(seed)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    write(source, "1.0.0")
    install = ["extensions", "install", str(source), "--consent"]
    argv, kept = install, ""
    if seed % 2:
        kill_at_step(install, None)
        kept, argv = "1.0.0", ["extensions", "update", NAME, "--consent"]
    write(source, "2.0.0")
    kill_at_step(argv, chosen.randrange(steps[argv[1]]))
    left = whole(home)
    assert left in (kept, "2.0.0"), left
    write(source, "3.0.0")
    kill_at_step(["extensions", "update", NAME, "--consent"] if left else install, None)
    assert whole(home) == "3.0.0"
    names = sorted(path.name for path in (home / ".gemini" / "extensions").iterdir())
    assert names == [NAME], names
    return left or "none"


def main(seeds: int) -> None:
    """Prints how many kills left which version."""
    home, source = Path("home").absolute(), Path("source").absolute()
    os.environ["HOME"] = str(home)
    home.mkdir()
    commands = {
        "install": ["extensions", "install", str(source), "--consent"],
        "update": ["extensions", "update", NAME, "--consent"],
    }
    write(source, "1.0.0")
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        run(commands["install"])  # so that children have nothing to import
        write(source, "2.0.0")
        run(commands["update"])
    shutil.rmtree(home)
    home.mkdir()
    counts = {"install": kill_at_step(commands["install"], None)}
    write(source, "3.0.0")
    counts["update"] = kill_at_step(commands["update"], None)
    left: dict[str, int] = {}
    for seed in range(seeds):
        try:
            found = try_seed(seed, home, source, counts)
        except AssertionError as error:
            raise SystemExit(f"seed {seed}: {error}") from error
        left[found] = left.get(found, 0) + 1
    print(json.dumps({"steps": counts, "left": left}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
