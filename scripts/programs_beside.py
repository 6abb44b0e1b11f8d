"""Twenty programs with alhena (`examples/`) beside the same with pydantic-ai
(`bench/pydantic_ai/`): writes the table of their lines into docs/embedding.md.

Lines with code count: no blanks, comments and docstrings. Both are formatted by ruff.

    python -m scripts.programs_beside                 # writes the table (part of `make reference`)
    python -m scripts.programs_beside --run PYTHON    # runs those of pydantic-ai, by a Python that
                                                      # has bench/pydantic_ai/requirements.txt
"""

import ast
import io
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path

import alhena

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "embedding.md"
THEIRS = ROOT / "bench" / "pydantic_ai"
PROGRAMS = {
    "fastapi_server": "FastAPI: server-sent events, a websocket",
    "structured_output": "structured output",
    "dependencies": "dependency injection",
    "deferred_approval": "an approval in another process",
    "router": "a router with three specialists",
    "conversations": "conversations in SQLite, with branches",
    "shared_limit": "500 agents with a shared limit",
    "mcp_servers": "MCP in three transports",
    "redacting_hooks": "hooks that redact",
    "opentelemetry_spans": "OpenTelemetry in memory",
    "logging_events": "logging",
    "testing": "tests",
    "notebook": "a notebook",
    "threads": "cancellation and threads",
    "prefork": "Celery with forked workers",
    "media": "media",
    "fallback": "three kinds of models with a fallback",
    "tenants": "isolated customers",
    "evals": "an evaluation of two prompts",
    "strict_typing": "strict typing",
}
TWICE = {"deferred_approval"}
"""Programs whose second run continues the first."""
_START, _END = "<!-- programs: written by `make reference` -->", "<!-- /programs -->"
_TABLE = re.compile(f"{re.escape(_START)}\n.*{re.escape(_END)}", re.DOTALL)
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def count_lines(source: str) -> int:
    """The lines with code: a docstring, a comment and a blank line are none."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def count_program(name: str) -> tuple[int, int]:
    """The lines of a program with alhena, and with pydantic-ai."""
    ours, theirs = (
        count_lines((folder / f"{name}.py").read_text(encoding="utf-8"))
        for folder in (ROOT / "examples", THEIRS)
    )
    return ours, theirs


def write_table(page: str) -> str:
    """The page with the table of today."""
    wanted = (THEIRS / "requirements.txt").read_text(encoding="utf-8")
    version = re.search(r"pydantic-ai-slim\[.*\]==(\S+)", wanted)
    assert version is not None
    counts = {name: count_program(name) for name in PROGRAMS}
    rows = [
        f"| `{name}` | {subject} | {counts[name][0]} | {counts[name][1]} |"
        for name, subject in PROGRAMS.items()
    ]
    ours, theirs = (sum(each[side] for each in counts.values()) for side in (0, 1))
    head = f"| example | | alhena {alhena.__version__} | pydantic-ai {version[1]} |"
    table = "\n".join((head, "|---|---|---|---|", *rows, f"| all | | {ours} | {theirs} |"))
    return _TABLE.sub(lambda _: f"{_START}\n{table}\n{_END}", page)


def run_theirs(python: str) -> int:
    """Runs the programs of pydantic-ai; returns the number of those that failed."""
    failed = 0
    for name in PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2 if name in TWICE else 1):
                ran = subprocess.run(
                    [python, str(THEIRS / f"{name}.py")],
                    cwd=folder,
                    env={**os.environ, "PYTHONWARNINGS": "ignore"},
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=False,
                )
                failed += ran.returncode != 0
                print(f"== {name}: exit code {ran.returncode}")
                print(ran.stdout if ran.returncode == 0 else ran.stderr)
    return failed


def main() -> None:
    if sys.argv[1:2] == ["--run"]:
        sys.exit(run_theirs(sys.argv[2]))
    PAGE.write_text(write_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
