"""Sizes that ruff does not check: lines of a file, public methods of a class. No waivers."""

import ast
import sys
from pathlib import Path

MAX_LINES = 400
MAX_METHODS = 12


def problems(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    found = [f"{path}: {lines} lines, at most {MAX_LINES}"] if lines > MAX_LINES else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            methods = [
                child.name
                for child in node.body
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
                and not child.name.startswith("_")
            ]
            if len(methods) > MAX_METHODS:
                found.append(
                    f"{path}:{node.lineno}: {node.name} has {len(methods)} public methods, "
                    f"at most {MAX_METHODS}"
                )
    return found


def main() -> int:
    root = Path(__file__).parent.parent
    found: list[str] = []
    for folder in ("src", "tests", "bench", "scripts", "examples"):
        for path in sorted((root / folder).rglob("*.py")):
            found += problems(path)
    print("\n".join(found) or "sizes: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
