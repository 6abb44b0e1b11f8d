"""The initial context of a session: the folder tree of 50,000 files, in many directories and in
one, compared with a plain walk; the text of all files; the system prompt."""

import os
import threading
from pathlib import Path

from alhena.chat.prompt import PromptFacts, compose_prompt
from alhena.system.ignore import IgnoreRules
from alhena.system.walk import folder_structure
from alhena.system.workspace import Workspace
from alhena.tools.registry import BUILT_IN
from alhena.tools.selecting import FileRequest, GatheredFiles, Selector
from alhena.wire.request import FunctionDeclaration
from bench.measure import row, timed_ms
from bench.tree import make_folders, make_tree

FLAT = 50_000
ROUNDS = 9
_IGNORE = "*.log\n/out/\n!keep.log\n__pycache__/\n"


def run(_home: Path, cwd: Path) -> None:
    tree, flat = cwd / "context_tree", cwd / "context_flat"
    _make(tree, flat)
    for name, top in (("50,000 files in folders", tree), ("50,000 ignored in one", flat)):
        value = timed_ms(lambda top=top: folder_structure(top, IgnoreRules(top)), ROUNDS)
        plain = timed_ms(lambda top=top: _walk(str(top)), ROUNDS)
        row(
            f"context: folders, {name}",
            f"{value:.1f} ms",
            f"os.scandir {plain:.1f} ms",
            value / plain,
            "<= 150 ms",
            ok=value <= 150,
        )
    declared = [
        FunctionDeclaration(name=name, description="Does one thing. And more of it.")
        for name in sorted(BUILT_IN)
    ]
    facts = PromptFacts(headless=False, repository=True)
    value = timed_ms(lambda: compose_prompt(declared, facts), ROUNDS)
    row("context: system prompt", f"{value:.2f} ms", "", None, "<= 3 ms", ok=value <= 3)
    _texts(cwd / "context_texts")


def _texts(top: Path) -> None:
    """Reads all files of a source tree of 3,000, as far as they fit."""
    if not top.exists():
        make_tree(top)
    workspace = Workspace(top)

    def once() -> None:
        selector = Selector(workspace, FileRequest(paths=("**/*",)), threading.Event())
        selector.run()
        gathered = GatheredFiles(workspace, text=786_432)
        gathered.read(selector, threading.Event())
        assert len(gathered.processed) > 50

    value = timed_ms(once, ROUNDS)
    row(
        "context: --all-files, 3,000 files",
        f"{value:.0f} ms",
        "",
        None,
        "<= 600 ms",
        ok=value <= 600,
    )


def _make(tree: Path, flat: Path) -> None:
    if tree.exists():
        return
    make_folders(tree)
    flat.mkdir()
    for file in range(FLAT):
        (flat / f"f{file}.log").touch()
    for top in (tree, flat):
        (top / ".gitignore").write_text(_IGNORE, encoding="utf-8")


def _walk(path: str) -> int:
    found = 0
    with os.scandir(path) as listing:
        for entry in listing:
            found += _walk(entry.path) if entry.is_dir(follow_symlinks=False) else 1
    return found
