"""The person's editor: the command line that opens it on a proposed change."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from alhena.tools.edit.modify import EditorCommand

FALLBACKS = ("sensible-editor", "nano", "vim", "vi")
_DIFFING = {"vim": "-d", "nvim": "-d"}
_WAITING = {
    **dict.fromkeys(
        ("code", "code-insiders", "codium", "cursor", "windsurf"), ("--wait", "--diff")
    ),
    **dict.fromkeys(("subl", "zed", "mate", "atom"), ("--wait",)),
}


def editor_command(environ: Mapping[str, str]) -> EditorCommand | None:
    """The editor of VISUAL or EDITOR, else one that is there; None when none is."""
    words = _wanted(environ)
    if not words:
        return None
    name = Path(words[0]).name.removesuffix(".exe")

    def command(old: Path, new: Path) -> list[str]:
        if name in _DIFFING and len(words) == 1:
            return [*words, _DIFFING[name], str(new), str(old)]  # the cursor is in the first
        if name in _WAITING:
            options = [each for each in _WAITING[name] if each not in words]
            both = "--diff" in (*words, *options)
            return [*words, *options, *([str(old)] if both else []), str(new)]
        return [*words, str(new)]

    return command


def _wanted(environ: Mapping[str, str]) -> list[str]:
    from shutil import which

    for variable in ("VISUAL", "EDITOR"):
        given = environ.get(variable, "").strip()
        if given:
            try:
                return shlex.split(given)
            except ValueError:  # unbalanced quotes: one word, whatever it is
                return [given]
    path = environ.get("PATH", "")
    return [name for name in FALLBACKS if which(name, path=path)][:1]
