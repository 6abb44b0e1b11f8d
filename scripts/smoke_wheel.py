"""Builds the sdist and the wheel from it, installs that into a fresh environment of each Python and
runs it from an empty folder: `make smoke`.

    python scripts/smoke_wheel.py [PYTHON…]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIBRARY = """
import asyncio
from alhena import Agent

async def main():
    async with Agent("demo") as agent:
        print(await agent.ask("List the files in this folder."))

asyncio.run(main())
"""


def run(*command: str | Path, cwd: Path) -> str:
    """The standard output of a command that must succeed."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    print("+", *command, flush=True)
    return subprocess.run(
        command, cwd=cwd, env=clean, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def main() -> None:
    dist = ROOT / "dist"
    run(Path(sys.executable).parent / "uv", "build", "-q", "--clear", "-o", dist, cwd=ROOT)
    wheel = next(dist.glob("*.whl"))
    for python in sys.argv[1:] or [sys.executable]:
        try_wheel(wheel, python)


def try_wheel(wheel: Path, python: str) -> None:
    """Installs the wheel for an interpreter, and runs what it has."""
    with tempfile.TemporaryDirectory() as made:
        home, folder = Path(made, "venv"), Path(made, "folder")
        folder.mkdir()
        (folder / "hello.txt").write_text("hello\n", encoding="utf-8")
        run(python, "-m", "venv", home, cwd=folder)
        binary = home / "bin"
        run(binary / "python", "-m", "pip", "install", "-q", wheel, cwd=folder)
        version = run(binary / "alhena", "--version", cwd=folder)
        assert version.strip(), "alhena --version printed nothing"
        run(binary / "alhena", "--help", cwd=folder)
        assert (home / "share/man/man1/alhena.1").is_file(), "the wheel has no manual page"
        run(binary / "alhena", "tools", "list", "--json", cwd=folder)
        page = run(binary / "alhena", "docs", "glossary", cwd=folder)
        assert page.startswith("# Glossary"), "the wheel has no pages"
        answer = run(binary / "alhena", "--model", "demo", "-p", "List the files.", cwd=folder)
        assert "hello.txt" in answer, answer
        answer = run(binary / "python", "-c", LIBRARY, cwd=folder)
        assert "hello.txt" in answer, answer
        tried = run(binary / "python", "--version", cwd=folder)
    print(f"{wheel.name} works ({version.strip()}, {tried.strip()})")


if __name__ == "__main__":
    main()
