"""Installs the project beside other packages, and tries both there: `make beside`.

    python -m scripts.try_beside [--python PATH] [NAME…]

`lowest` is the project with the lowest versions that its bounds allow, `together` has all the
others in one environment. Prints one line for each; the exit code is 1 if one does not work.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXTRAS = f"{ROOT}[a2a,acp,gateway,otel]"
LIMIT_S = 600.0
KEYS = ("ALHENA", "ANTHROPIC", "GEMINI", "GOOGLE", "OPENAI")

DRAWS = r"""
import io
from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output
from alhena.frontends.terminal.drawing.lines import Markdown
from alhena.frontends.terminal.drawing.printing import Printer

printer = Printer(Vt100_Output(io.StringIO(), lambda: Size(24, 80)))
text = "# One\n\n- [x] a_b\\_c\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nx = 1\n```\n"
printer.write(printer.prepare(Markdown(text)))
"""
"""Draws all that an answer may have."""

BESIDE: dict[str, tuple[tuple[str, ...], str]] = {
    # the packages, and the Python that tries them
    "lowest": ((), DRAWS),
    "langchain": (
        ("langchain", "langchain-google-genai"),
        "from langchain_google_genai import ChatGoogleGenerativeAI",
    ),
    "pydantic-ai": (("pydantic-ai",), "import pydantic_ai.mcp"),
    "openai-agents": (("openai-agents",), "from agents.mcp import MCPServerStdio"),
    "google-adk": (("google-adk[mcp]",), "from google.adk.tools.mcp_tool import McpToolset"),
    "jupyter": (("jupyterlab", "ipykernel"), "import jupyterlab, ipykernel"),
    "google-genai": (("google-genai",), "from google import genai"),
    "fastapi": (("fastapi",), "import fastapi"),
}
BESIDE["together"] = (
    tuple(package for packages, _ in BESIDE.values() for package in packages),
    "\n".join(code for _, code in BESIDE.values()),
)
WITH_EXTRAS = ("lowest", "together")


def main(names: list[str]) -> int:
    """Tries each of the names, or all."""
    python = sys.executable
    if names[:1] == ["--python"]:
        python, names = names[1], names[2:]
    unknown = [name for name in names if name not in BESIDE]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(BESIDE)}", file=sys.stderr)
        return 2
    failed = 0
    for name in names or BESIDE:
        with tempfile.TemporaryDirectory(prefix="beside-") as place:
            problem = try_one(name, Path(place), python)
        failed += bool(problem)
        print(f"{name:14} {problem or 'works'}", flush=True)
    return int(failed > 0)


def try_one(name: str, place: Path, interpreter: str) -> str:
    """Installs and tries one; returns what does not work."""
    packages, code = BESIDE[name]
    venv = place / "venv"
    python = venv / "bin" / "python"
    alhena = venv / "bin" / "alhena"
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    how = ["--resolution", "lowest-direct"] if name == "lowest" else []
    target = EXTRAS if name in WITH_EXTRAS else str(ROOT)
    home = place / "home"
    (home / ".gemini").mkdir(parents=True)
    served = {"command": str(alhena), "args": ["mcp", "serve"]}
    settings = json.dumps({"mcpServers": {"itself": served}})
    (home / ".gemini" / "settings.json").write_text(settings, encoding="utf-8")
    steps: list[tuple[str, list[str], str]] = [
        ("no environment", [uv, "venv", "-q", "--python", interpreter, str(venv)], ""),
        (
            "cannot be installed",
            [uv, "pip", "install", "-q", "--python", str(python), *how, target, *packages],
            "",
        ),
        ("conflicts", [uv, "pip", "check", "--python", str(python)], ""),
        ("the other package fails", [str(python), "-c", code], ""),
        ("no agent", [str(alhena), "-m", "demo", "-p", "list the folder"], "Directory listing"),
        ("no MCP", [str(alhena), "mcp", "list", "--json"], '"state": "connected"'),
    ]
    for problem, command, wanted in steps:
        done = run(command, home)
        said = done.stdout + done.stderr
        if done.returncode or wanted not in said.replace('":"', '": "'):
            return f"{problem}: {' '.join(said.split())[-600:]}"
    return ""


def run(command: list[str], home: Path) -> "subprocess.CompletedProcess[str]":
    """Runs a command in an empty home, without keys."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(KEYS)}
    environ.setdefault("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))
    environ["HOME"] = str(home)
    return subprocess.run(
        command,
        cwd=home,
        env=environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
