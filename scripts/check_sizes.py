"""The structure that ruff does not check: sizes, circles of modules, assignments, words, names.

Files, functions, classes, folders and wording have fixed limits without waivers; each circle of
modules is listed in `circles.toml` with its reason. The other figures of the whole are printed:
they are an outcome. `--names` lists the names that count as unclear."""

import ast
import json
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "alhena"
TESTS = ROOT / "tests"
PINNED = ROOT / "tests" / "fast_paths.json"  # kept exact by tests/test_fast_paths.py
MAX_LINES = 600
MAX_BODY = 60
"""Lines of a function behind its docstring."""
MAX_METHODS = 12
MAX_FIELDS = 20
"""Fields of a class in the rooms where options gather."""
ROOMS_OF_OPTIONS = {"agent", "library", "batch"}
LIMITS = {
    "modules_in_one_folder": 20,
    "assigned_from_outside": 1,
    "unclear_docstrings": 0,
    "odd_words": 0,
    "participle_functions": 8,
    "participles_in_tests": 236,
    "repeated_classes": 8,
}
"""The figures of the whole that have a limit."""
CIRCLES = Path(__file__).parent / "circles.toml"
UNCLEAR = {"What", "Which", "Whether", "Where", "Who", "How"}
# Words for which there is a plainer one: continues, no one, again, permanently, without effect …
ODD_WORDS = re.compile(
    r"\b(go(es|ing)? on|nobody|somebody|anew|whom|for good|of no effect|stands"
    r"|(is|are) (said|told))\b",
    re.IGNORECASE,
)

# A function is a verb with its object, not one participle or adverb. Exempt are words on -ed that
# are none, and changed copies as `sorted` returns them.
PARTICIPLES = re.compile(
    r"_*(anew|apart|aside|away|begun|behind|beside|chosen|done|drawn|first|found|given|gone|held"
    r"|kept|known|last|left|lost|made|met|once|said|seen|sent|shown|taken|told|within|written"
    r"|[a-z]+ed)_*"
)
NO_PARTICIPLES = re.compile(
    r"_*(bed|breed|deed|embed|exceed|feed|need|proceed|seed|speed|weed"
    r"|decoded|encoded|escaped|expanded|indented|merged|quoted|redacted|shortened|unquoted)_*"
)
PROPERTIES = {"property", "cached_property", "functools.cached_property"}


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


def long_functions(path: Path, tree: ast.Module) -> list[str]:
    """Functions with more lines than they may have."""
    return [
        f"{path}:{node.lineno}: {node.name} has {lines} lines, at most {MAX_BODY}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - body_start(node) + 1) > MAX_BODY
    ]


def wide_classes(path: Path, tree: ast.Module) -> list[str]:
    """Classes with more fields than they may have."""
    return [
        f"{path}:{node.lineno}: {node.name} has {fields} fields, at most {MAX_FIELDS}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and (fields := sum(isinstance(each, ast.AnnAssign) for each in node.body)) > MAX_FIELDS
    ]


def body_start(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The line of the first statement behind the docstring."""
    first = node.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return node.body[1].lineno if is_docstring and len(node.body) > 1 else first.lineno


def assigned_from_outside(tree: ast.Module) -> int:
    """Number of assignments to attributes of other objects than `self`."""
    return sum(
        1
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
    )


def circles(trees: dict[Path, ast.Module]) -> list[list[str]]:
    """The groups of modules that import each other, also in functions and for type checkers."""
    names = {module_name(path) for path in trees}
    edges: dict[str, set[str]] = {}
    for path, tree in trees.items():
        found = (name if name in names else name.rpartition(".")[0] for name in imported(tree))
        edges[module_name(path)] = {name for name in found if name in names}
    reached = {name: reachable(name, edges) for name in names}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in names
        if name in reached[name]
    }
    return sorted(map(list, groups))


def reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    """The modules imported by `start`, directly or not."""
    found: set[str] = set()
    waiting = [*edges[start]]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += edges[name]
    return found


def unlisted_circles(trees: dict[Path, ast.Module]) -> list[str]:
    """Circles without a reason, and reasons without a circle."""
    listed = tomllib.loads(CIRCLES.read_text(encoding="utf-8"))["circle"]
    reasons = [sorted(entry["modules"]) for entry in listed if entry["reason"]]
    found = circles(trees)
    return [
        *(f"circle of modules: {', '.join(each)}" for each in found if each not in reasons),
        *(f"{CIRCLES.name}: no circle: {', '.join(each)}" for each in reasons if each not in found),
    ]


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


def participle_functions(tree: ast.Module) -> list[tuple[int, str]]:
    """Functions named by a single participle or adverb, with their lines; properties may be."""
    return sorted(
        (node.lineno, node.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and PARTICIPLES.fullmatch(node.name)
        and not NO_PARTICIPLES.fullmatch(node.name)
        and not any(ast.unparse(each) in PROPERTIES for each in node.decorator_list)
    )


def repeated_classes(trees: dict[Path, ast.Module]) -> dict[str, list[Path]]:
    """Names of classes that several modules define, with the modules."""
    found: dict[str, list[Path]] = {}
    for path, tree in trees.items():
        for name in {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}:
            found.setdefault(name, []).append(path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def unclear_names(source: dict[Path, ast.Module], tests: dict[Path, ast.Module]) -> list[str]:
    """Participles of the package and of tests, and repeated classes, with their places."""
    functions = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, tree in (source | tests).items()
        for line, name in participle_functions(tree)
    ]
    classes = [
        f"{name}: {', '.join(str(path.relative_to(ROOT)) for path in paths)}"
        for name, paths in repeated_classes(source).items()
    ]
    return [*functions, *sorted(classes)]


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


def within(folder: Path, trees: dict[Path, ast.Module]) -> dict[Path, ast.Module]:
    """The modules below a folder."""
    return {path: tree for path, tree in trees.items() if path.is_relative_to(folder)}


def figures(texts: dict[Path, str], trees: dict[Path, ast.Module]) -> dict[str, int]:
    """The figures of the whole, by their names."""
    source = within(SOURCE, trees)
    pinned: dict[str, list[str]] = json.loads(PINNED.read_text(encoding="utf-8"))
    docs = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    return {
        "modules": len(source),
        "code_lines": sum(code_lines(texts[path], tree) for path, tree in source.items()),
        "modules_in_one_folder": max(Counter(path.parent for path in source).values()),
        "modules_first_request": len(pinned["first request"]),
        "modules_read_file_turn": len(pinned["read_file turn"]),
        "circles_of_modules": len(circles(source)),
        "assigned_from_outside": sum(
            assigned_from_outside(tree)
            for path, tree in source.items()
            if path.relative_to(SOURCE).parts[0] in {"agent", "scheduler"}
        ),
        "words_in_docs": sum(len(text.split()) for text in docs),
        "unclear_docstrings": sum(unclear(tree) for tree in trees.values()),
        "odd_words": sum(map(odd_words, source.values()))
        + sum(len(ODD_WORDS.findall(text)) for text in docs),
        "participle_functions": sum(len(participle_functions(tree)) for tree in source.values()),
        "participles_in_tests": sum(
            len(participle_functions(tree)) for tree in within(TESTS, trees).values()
        ),
        "repeated_classes": len(repeated_classes(source)),
    }


def main() -> int:
    texts = {
        path: path.read_text(encoding="utf-8")
        for folder in ("src", "tests", "bench", "scripts", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    trees = {path: ast.parse(text) for path, text in texts.items()}
    source = within(SOURCE, trees)
    if "--names" in sys.argv[1:]:
        print("\n".join(unclear_names(source, within(TESTS, trees))))
        return 0
    found = [line for path, tree in trees.items() for line in problems(path, texts[path], tree)]
    found += [line for path, tree in source.items() for line in long_functions(path, tree)]
    found += [
        line
        for path, tree in source.items()
        if path.relative_to(SOURCE).parts[0] in ROOMS_OF_OPTIONS
        for line in wide_classes(path, tree)
    ]
    found += unlisted_circles(source)
    for name, figure in figures(texts, trees).items():
        limit = LIMITS.get(name)
        print(f"{name:24}{figure:8,}" + ("" if limit is None else f"  at most {limit}"))
        if limit is not None and figure > limit:
            found.append(f"{name}: {figure}, at most {limit}")
    print("\n".join(found) or "sizes: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
