"""Sizes that ruff does not check: of each file and class, and of the whole.

Files, classes, folders and wording have fixed limits without waivers. The other figures of the
whole are printed: they are an outcome."""

import ast
import json
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "alhena"
PINNED = ROOT / "tests" / "fast_paths.json"  # kept exact by tests/test_fast_paths.py
MAX_LINES = 600
MAX_METHODS = 12
LIMITS = {"modules_in_one_folder": 20, "mutual_imports": 0, "unclear_docstrings": 0, "odd_words": 0}
"""The figures of the whole that have a limit."""
UNCLEAR = {"What", "Which", "Whether", "Where", "Who", "How"}
# Words for which there is a plainer one: continues, no one, again, permanently, without effect …
ODD_WORDS = re.compile(
    r"\b(go(es|ing)? on|nobody|somebody|anew|whom|for good|of no effect|stands"
    r"|(is|are) (said|told))\b",
    re.IGNORECASE,
)


def problems(path: Path, text: str, tree: ast.Module) -> list[str]:
    """Files and classes over their limits."""
    lines = text.count("\n")
    found = [f"{path}: {lines} lines, at most {MAX_LINES}"] if lines > MAX_LINES else []
    for node in ast.walk(tree):
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


def docstrings(tree: ast.Module) -> list[ast.Constant]:
    """Strings that are a statement of their own: docstrings, also those of values."""
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]


def code_lines(text: str, tree: ast.Module) -> int:
    """Lines without blanks, comments and docstrings."""
    left_out: set[int] = set()
    for node in docstrings(tree):
        left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        1
        for number, line in enumerate(text.splitlines(), 1)
        if number not in left_out and line.strip() and not line.lstrip().startswith("#")
    )


def unclear(tree: ast.Module) -> int:
    """Number of docstrings that begin with What, Which, Whether, Where, Who or How."""
    words = (str(node.value).split(maxsplit=1) for node in docstrings(tree))
    return sum(1 for found in words if found and found[0].rstrip(",:") in UNCLEAR)


def odd_words(tree: ast.Module) -> int:
    """Number of odd words in docstrings and other texts."""
    return sum(
        len(ODD_WORDS.findall(node.value))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def imported(tree: ast.Module) -> set[str]:
    """Dotted names a module imports, wherever in it; `from a import b` gives `a.b`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def mutual(trees: dict[Path, ast.Module]) -> set[frozenset[str]]:
    """Pairs of folders that import each other, compared at the point where their paths diverge;
    modules directly in a folder count as that folder, so a parent and its subfolder can be a pair
    too. Re-exports of an `__init__` and the entry point are not counted."""
    names = {module_name(path) for path in trees}
    edges: set[tuple[str, str]] = set()
    for path, tree in trees.items():
        if path.name in {"__init__.py", "__main__.py"}:
            continue
        folder = module_name(path.parent / "__init__.py").split(".")
        for name in imported(tree):
            module = name if name in names else name.rpartition(".")[0]
            if module not in names:
                continue
            is_folder = (SOURCE.parent / module.replace(".", "/")).is_dir()
            other = module.split(".")[: None if is_folder else -1]
            shared = 0
            while shared < min(len(folder), len(other)) and folder[shared] == other[shared]:
                shared += 1
            if folder != other:
                edges.add((".".join(folder[: shared + 1]), ".".join(other[: shared + 1])))
    return {frozenset((one, other)) for one, other in edges if (other, one) in edges}


def figures(texts: dict[Path, str], trees: dict[Path, ast.Module]) -> dict[str, int]:
    """The figures of the whole, by their names."""
    source = {path: tree for path, tree in trees.items() if path.is_relative_to(SOURCE)}
    pinned: dict[str, list[str]] = json.loads(PINNED.read_text(encoding="utf-8"))
    docs = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    return {
        "modules": len(source),
        "code_lines": sum(code_lines(texts[path], tree) for path, tree in source.items()),
        "modules_in_one_folder": max(Counter(path.parent for path in source).values()),
        "modules_first_request": len(pinned["first request"]),
        "modules_read_file_turn": len(pinned["read_file turn"]),
        "mutual_imports": len(mutual(source)),
        "words_in_docs": sum(len(text.split()) for text in docs),
        "unclear_docstrings": sum(unclear(tree) for tree in trees.values()),
        "odd_words": sum(map(odd_words, source.values()))
        + sum(len(ODD_WORDS.findall(text)) for text in docs),
    }


def main() -> int:
    texts = {
        path: path.read_text(encoding="utf-8")
        for folder in ("src", "tests", "bench", "scripts", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    trees = {path: ast.parse(text) for path, text in texts.items()}
    found = [line for path, tree in trees.items() for line in problems(path, texts[path], tree)]
    for name, figure in figures(texts, trees).items():
        limit = LIMITS.get(name)
        print(f"{name:24}{figure:8,}" + ("" if limit is None else f"  at most {limit}"))
        if limit is not None and figure > limit:
            found.append(f"{name}: {figure}, at most {limit}")
    print("\n".join(found) or "sizes: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
