"""Builds the wheel, installs it into a fresh environment and runs it from an empty folder."""

import os
import subprocess
import sys
import tempfile
import venv
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
    with tempfile.TemporaryDirectory() as made:
        home, folder = Path(made, "venv"), Path(made, "folder")
        folder.mkdir()
        (folder / "hello.txt").write_text("hello\n", encoding="utf-8")
        venv.create(home, with_pip=True)
        binary = home / "bin"
        run(binary / "python", "-m", "pip", "install", "-q", wheel, cwd=folder)
        version = run(binary / "alhena", "--version", cwd=folder)
        assert version.strip(), "alhena --version printed nothing"
        run(binary / "alhena", "--help", cwd=folder)
        assert (home / "share/man/man1/alhena.1").is_file(), "the wheel has no manual page"
        run(binary / "alhena", "tools", "list", "--json", cwd=folder)
        answer = run(binary / "alhena", "--model", "demo", "-p", "List the files.", cwd=folder)
        assert "hello.txt" in answer, answer
        answer = run(binary / "python", "-c", LIBRARY, cwd=folder)
        assert "hello.txt" in answer, answer
    print(f"{wheel.name} works ({version.strip()})")


if __name__ == "__main__":
    main()
