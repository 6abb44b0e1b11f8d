"""A bounded picture of a directory tree, for the context a session starts with."""

import os
from collections import deque
from pathlib import Path

from alhena.system.errors import printable
from alhena.system.ignore import DirectoryRules, IgnoreRules

MAX_ITEMS = 200
MAX_READ = 20_000
"""Entries that are looked at in all directories together, and in a single one a quarter of them: a
million that nobody would see shall neither hold up a session nor hide what is beside them."""

SUMMARISED = frozenset({"node_modules", ".git", "dist", "__pycache__", ".venv"})
"""Directories shown as one line, whatever they hold."""

_Place = tuple["_Folder", str, DirectoryRules | None]
"""A directory that is to be looked into: what is shown of it, its path, the rules inside."""


class _Folder:
    """A directory being listed. `cut` says that it holds more than is shown."""

    __slots__ = ("cut", "files", "folders", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: list[str] = []
        self.folders: list[_Folder] = []
        self.cut = False


class _Picture:
    """A tree being drawn, with the items that may still be shown and the entries that may still be
    read."""

    def __init__(self, max_items: int, max_read: int) -> None:
        self.items = max_items
        self.reads = max_read
        self.reads_each = max(1, max_read // 4)
        self.queue: deque[_Place] = deque()
        self.waiting: list[tuple[_Folder, list[str]]] = []

    def look_into(self, folder: _Folder, path: str, rules: DirectoryRules | None) -> None:
        """Lists one directory, and has its subdirectories looked into later."""
        if self.items == 0 or self.reads == 0:
            folder.cut = _holds_something(path)
            return
        files, subfolders, whole = self._read(path)
        shown = [name for name in files if not (rules and rules.ignores(name, is_dir=False))]
        folder.cut = not whole or len(shown) < len(files)
        # A directory full of files leaves room for the folders beside them: they tell more.
        room = self.items - (self.items // 2 if subfolders else 0)
        self._show(folder, shown[:room])
        if len(shown) > room:
            self.waiting.append((folder, shown[room:]))
        for name in subfolders:
            if self.items == 0:
                folder.cut = True
                break
            child = _Folder(_safe(name))
            folder.folders.append(child)
            self.items -= 1
            if name in SUMMARISED or (rules and rules.ignores(name, is_dir=True)):
                child.cut = True
            else:
                below = rules.below(name) if rules else None
                self.queue.append((child, os.path.join(path, name), below))

    def show_waiting(self) -> None:
        """Gives files that had to leave room for folders what these have not taken."""
        for folder, files in self.waiting:
            folder.cut = folder.cut or len(files) > self.items
            self._show(folder, files[: self.items])

    def _show(self, folder: _Folder, files: list[str]) -> None:
        folder.files += map(_safe, files)
        self.items -= len(files)

    def _read(self, path: str) -> tuple[list[str], list[str], bool]:
        """Names of files and of folders, sorted, and whether they are all there are."""
        files: list[str] = []
        folders: list[str] = []
        whole = True
        try:
            with os.scandir(path) as listing:
                left = min(self.reads, self.reads_each)
                for entry in listing:
                    if left == 0:
                        whole = False
                        break
                    left -= 1
                    self.reads -= 1
                    (folders if _is_folder(entry) else files).append(entry.name)
        except OSError:
            whole = False
        return sorted(files), sorted(folders), whole


def folder_structure(
    root: Path, rules: IgnoreRules | None, max_items: int = MAX_ITEMS, max_read: int = MAX_READ
) -> str:
    """The tree below `root`, breadth first, at most `max_items` files and folders, of which files
    leave some to the folders beside them. At most `max_read` entries are looked at.

    Folders that hold more than is shown end in "...", ignored and summarised ones too. Symlinked
    directories are listed as files; unreadable ones as empty, cut ones.
    """
    top = _Folder(_safe(str(root)))
    picture = _Picture(max_items, max_read)
    picture.queue.append((top, str(root), rules.within(root) if rules else None))
    while picture.queue:
        picture.look_into(*picture.queue.popleft())
    picture.show_waiting()
    shown = f"Showing up to {max_items} items (files + folders)."
    if _any_cut(top):
        shown += (
            " Folders or files indicated with ... contain more items not shown, were ignored, "
            f"or the display limit ({max_items} items) was reached."
        )
    lines: list[str] = []
    _draw(top, "", lines)
    return f"{shown}\n\n{top.name}{os.sep}\n" + "\n".join(lines)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # its kind is not to be had; it may be gone
        return False


def _holds_something(path: str) -> bool:
    """True when a directory that nobody looks into has anything in it, or may have."""
    try:
        with os.scandir(path) as listing:
            return next(listing, None) is not None
    except OSError:
        return True


def _any_cut(folder: _Folder) -> bool:
    return folder.cut or any(_any_cut(child) for child in folder.folders)


def _draw(folder: _Folder, indent: str, lines: list[str]) -> None:
    """Appends the lines below a folder. The depth is bounded by the number of items."""
    items: list[str | _Folder] = [*folder.files, *folder.folders]
    if folder.cut and (items or not indent):
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
