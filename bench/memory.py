"""Memory files: the cost before the first request in a tree of 50,000 files, of a touched path, and
of imports."""

from pathlib import Path
from statistics import median

from alhena.config.effective_settings import FolderTrust
from alhena.config.settings import ContextSettings
from alhena.memory import ImportLimits
from alhena.memory.files import MemoryRequest, TouchedMemory, below, load_memory
from alhena.memory.imports import ImportLoader, expand, root_source
from bench.measure import PASS, environment, row, timed_ms, wall
from bench.tree import make_folders

IMPORTS = 100
ROUNDS = 15
_TEXT = "Prose with a word of `code` and a list.\n\n- one\n- two\n\n" * 20


def run(home: Path, cwd: Path) -> None:
    tree = cwd / "many"
    _make(tree)
    request = MemoryRequest(
        roots=(tree / "d0" / "d00",),
        environ={"HOME": str(home)},
        context=ContextSettings(),
        trust=lambda _folder: FolderTrust(True, "bench"),
    )
    value = timed_ms(lambda: load_memory(request), ROUNDS)
    assert len(load_memory(request).files) == 3
    row("memory: start in 50,000 files", f"{value:.2f} ms", "", None, "<= 3 ms", ok=value <= 3)
    wide = MemoryRequest(
        roots=(tree,), environ=request.environ, context=request.context, trust=request.trust
    )
    value = timed_ms(lambda: list(below(wide, ())), ROUNDS)
    row("memory: 200 directories below", f"{value:.1f} ms", "", None, "<= 100 ms", ok=value <= 100)
    touched = TouchedMemory(wide, (item.identity for item in load_memory(wide).files))
    path = tree / "d5" / "d57" / "f7.py"
    touched.take(touched.look([path])[0])
    value = timed_ms(lambda: touched.look([path]), ROUNDS)
    row("memory: a touched path", f"{value:.3f} ms", "", None, "<= 0.5 ms", ok=value <= 0.5)
    _imports(home, cwd)


def _imports(home: Path, cwd: Path) -> None:
    """A file with a hundred imports, and the cost of the parser."""
    top = cwd / "imports"
    top.mkdir(exist_ok=True)
    for number in range(IMPORTS):
        (top / f"{number}.md").write_text(_TEXT, encoding="utf-8")
    root = top / "GEMINI.md"
    names = "\n\n".join(f"@./{number}.md" for number in range(IMPORTS))
    root.write_text(f"# Rules\n\n{names}\n", encoding="utf-8")

    def once() -> None:
        limits = ImportLimits()
        done = expand(root_source(root, limits), ImportLoader((top,), limits))
        assert len(done.import_tree.imports) == IMPORTS

    value = timed_ms(once, ROUNDS)
    row(f"memory: {IMPORTS} imports", f"{value:.1f} ms", "", None, "<= 60 ms", ok=value <= 60)
    env = environment(home)
    with_parser = [PASS[0], "-c", "import markdown_it"]
    bare, loaded = [], []
    for _ in range(ROUNDS):
        bare.append(wall(PASS, cwd, env) * 1000)
        loaded.append(wall(with_parser, cwd, env) * 1000)
    cost, base = median(loaded) - median(bare), median(bare)
    row(
        "memory: the Markdown parser, where it is used",
        f"{cost:.0f} ms",
        f"python -c pass {base:.1f} ms",
        cost / base,
        "<= 8",
        ok=cost / base <= 8,
    )


def _make(tree: Path) -> None:
    if tree.exists():
        return
    make_folders(tree)
    (tree / ".git").mkdir()
    for name in ("", "d0", "d0/d00", "d5/d57"):
        (tree / name / "GEMINI.md").parent.mkdir(parents=True, exist_ok=True)
        (tree / name / "GEMINI.md").write_text(_TEXT, encoding="utf-8")
