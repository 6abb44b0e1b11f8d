"""Draws a bounded directory tree for the initial context of a session."""

import os
from collections import deque
from pathlib import Path

from alhena.system.errors import printable
from alhena.system.ignore import DirectoryRules, IgnoreRules

MAX_ITEMS = 200
MAX_READ = 20_000
"""Maximum entries read in all directories, and a quarter of them in a single one: a million entries
must neither delay a session nor hide the directories beside them."""

SUMMARISED = frozenset({"node_modules", ".git", "dist", "__pycache__", ".venv"})
"""Directories shown as one line, whatever their content."""

_Place = tuple["_Folder", str, DirectoryRules | None]
"""A directory still to read: its node in the drawing, its path, the rules inside."""


class _Folder:
    """A directory in the drawing. `cut`: it has more content than shown."""

    __slots__ = ("cut", "files", "folders", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: list[str] = []
        self.folders: list[_Folder] = []
        self.cut = False


class _Picture:
    """A tree under construction, with the remaining numbers of items to show and entries to
    read."""

    def __init__(self, max_items: int, max_read: int) -> None:
        self.items = max_items
        self.reads = max_read
        self.reads_each = max(1, max_read // 4)
        self.queue: deque[_Place] = deque()
        self.waiting: list[tuple[_Folder, list[str]]] = []

    def look_into(self, folder: _Folder, path: str, rules: DirectoryRules | None) -> None:
        """Lists one directory, and queues its subdirectories."""
        if self.items == 0 or self.reads == 0:
            folder.cut = _holds_something(path)
            return
        files, subfolders, whole = self._read(path)
        shown = [name for name in files if not (rules and rules.ignores(name, is_dir=False))]
        folder.cut = not whole or len(shown) < len(files)
        # A directory full of files leaves room for its subfolders, which are more informative.
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
        """Shows postponed files if folders left room."""
        for folder, files in self.waiting:
            folder.cut = folder.cut or len(files) > self.items
            self._show(folder, files[: self.items])

    def _show(self, folder: _Folder, files: list[str]) -> None:
        folder.files += map(_safe, files)
        self.items -= len(files)

    def _read(self, path: str) -> tuple[list[str], list[str], bool]:
        """Sorted names of files and folders, and True if they are complete."""
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
    """Draws the tree below `root`, breadth first, with at most `max_items` files and folders; files
    leave room for folders beside them. Reads at most `max_read` entries.

    Truncated folders end in "...", as do ignored and summarised ones. Symlinked directories are
    listed as files; unreadable ones as truncated.
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
    except OSError:  # its type is unknown; it may be gone
        return False


def _holds_something(path: str) -> bool:
    """True when an unread directory has content, or may have."""
    try:
        with os.scandir(path) as listing:
            return next(listing, None) is not None
    except OSError:
        return True


def _any_cut(folder: _Folder) -> bool:
    return folder.cut or any(_any_cut(child) for child in folder.folders)


def _draw(folder: _Folder, indent: str, lines: list[str]) -> None:
    """Appends the lines of a folder's content. The number of items limits the depth."""
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
    """Escapes control characters and undecodable bytes in a name."""
    return printable(name)
