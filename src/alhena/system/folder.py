"""A bounded picture of a directory tree, for the context a session starts with."""

import os
from collections import deque
from pathlib import Path

from alhena.system.errors import printable
from alhena.system.ignore import DirectoryRules, IgnoreRules

MAX_ITEMS = 200
SUMMARISED = frozenset({"node_modules", ".git", "dist", "__pycache__", ".venv"})
"""Directories shown as one line, whatever they hold."""


class _Folder:
    """A directory being listed. `cut` says that it holds more than is shown."""

    __slots__ = ("cut", "files", "folders", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: list[str] = []
        self.folders: list[_Folder] = []
        self.cut = False


def folder_structure(root: Path, rules: IgnoreRules | None, max_items: int = MAX_ITEMS) -> str:
    """The tree below `root`, breadth first, at most `max_items` files and folders.

    Ignored and summarised folders end in "...": they hold more than is shown. Symlinked directories
    are listed as files; unreadable ones as empty, cut ones.
    """
    top = _Folder(_safe(str(root)))
    left = max_items
    queue = deque([(top, root, rules.within(root) if rules else None)])
    while queue:
        folder, path, here = queue.popleft()
        names, subfolders, readable = _entries(path)
        folder.cut = not readable
        for name in names:
            if here and here.ignores(name, is_dir=False):
                folder.cut = True
                continue
            if left == 0:
                folder.cut = True
                break
            folder.files.append(_safe(name))
            left -= 1
        for name in subfolders:
            if left == 0:
                folder.cut = True
                break
            child = _Folder(_safe(name))
            folder.folders.append(child)
            left -= 1
            if name in SUMMARISED or (here and here.ignores(name, is_dir=True)):
                child.cut = True
            else:
                queue.append((child, path / name, _below(here, name)))
    shown = f"Showing up to {max_items} items (files + folders)."
    if _any_cut(top):
        shown += (
            " Folders or files indicated with ... contain more items not shown, were ignored, "
            f"or the display limit ({max_items} items) was reached."
        )
    lines: list[str] = []
    _draw(top, "", lines)
    return f"{shown}\n\n{top.name}{os.sep}\n" + "\n".join(lines)


def _below(rules: DirectoryRules | None, name: str) -> DirectoryRules | None:
    return rules.below(name) if rules else None


def _entries(path: Path) -> tuple[list[str], list[str], bool]:
    """Names of files and of folders, sorted, and whether the directory could be read."""
    files: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(path) as listing:
            for entry in listing:
                (folders if entry.is_dir(follow_symlinks=False) else files).append(entry.name)
    except OSError:
        return [], [], False
    return sorted(files), sorted(folders), True


def _any_cut(folder: _Folder) -> bool:
    return folder.cut or any(_any_cut(child) for child in folder.folders)


def _draw(folder: _Folder, indent: str, lines: list[str]) -> None:
    """Appends the lines below a folder. The depth is bounded by the number of items."""
    items: list[str | _Folder] = [*folder.files, *folder.folders]
    if folder.cut and items:
        items.append("...")
    for index, item in enumerate(items):
        last = index == len(items) - 1
        branch = "└───" if last else "├───"
        if isinstance(item, str):
            lines.append(f"{indent}{branch}{item}")
            continue
        closed = item.cut and not item.files and not item.folders
        lines.append(f"{indent}{branch}{item.name}{os.sep}{'...' if closed else ''}")
        _draw(item, f"{indent}{'    ' if last else '│   '}", lines)


def _safe(name: str) -> str:
    """A name fit for a line of text: control characters and undecodable bytes are escaped."""
    return printable(name)
