"""The answers about a whole line: does it only read, does it destroy what lies elsewhere?"""

import os
from pathlib import Path

import msgspec

from alhena.shell.destruction import Destruction, may_destroy
from alhena.shell.line import Line, read
from alhena.shell.parse.model import Part
from alhena.shell.reach import reach
from alhena.shell.readonly import is_inert, not_read_only
from alhena.shell.shell_changes import ShellChanges

UNREAD = "the command cannot be read to its end, and may remove or overwrite files"


class Verdict(msgspec.Struct, frozen=True):
    """Yes or no, with the reason as one clause (empty where there is nothing to say)."""

    holds: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.holds


def reads_only(line: "str | Line") -> Verdict:
    """Does the line surely only read: write no file, use no network, run no program but those that
    only read? Which files it reads, secrets among them, is not asked; see `paths`."""
    line = read(line) if isinstance(line, str) else line
    if line.problem is not None:
        return Verdict(holds=False, reason=line.problem)
    for part in line.parts:
        refusal = None if is_inert(part) else not_read_only(part)
        if refusal is not None:
            return Verdict(holds=False, reason=refusal)
    return Verdict(holds=bool(line.parts), reason="" if line.parts else "it names no command")


class _Folder:
    """The directory in which a line starts, as all that it may change."""

    def __init__(self, cwd: str) -> None:
        self.cwd = os.path.realpath(cwd)
        self.roots = (self.cwd,)

    def real(self, path: str) -> str:
        return os.path.realpath(path)

    def holds(self, path: str) -> bool:
        """Does a path, from the directory, lead to somewhere in it?"""
        return Path(self.real(os.path.join(self.cwd, path))).is_relative_to(self.cwd)


def destroys(line: "str | Line") -> Verdict:
    """May the line remove or overwrite files beyond the directory in which it starts and the
    temporary ones, or files that are only known when it runs?"""
    line = read(line) if isinstance(line, str) else line
    folder = None if line.cwd is None else _Folder(line.cwd)
    changes = ShellChanges(
        line.text, line.parts, folder.holds if folder is not None else lambda _path: False
    )
    for part in line.parts or (Part(text=line.text),):
        refusal = Destruction(changes, folder, ".").of(part, reach(part))
        if refusal is None and not line.complete and may_destroy(line.text):
            refusal = UNREAD
        if refusal is not None:
            return Verdict(holds=True, reason=refusal)
    return Verdict(holds=False)
