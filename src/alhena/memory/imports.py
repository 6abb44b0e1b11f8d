"""`@path` in memory files: the files it names come into the text. Nothing here touches a disk.

In the tree form an import is replaced by what the file holds, imports and all, between two
comments. In the flat form the files follow each other, each once, and their texts stay as they are.
What cannot be imported leaves a comment in its place.
"""

import re
from collections.abc import Callable, Hashable
from typing import Literal, assert_never

import msgspec

from alhena.memory.tree import MemoryFile
from alhena.system.errors import printable

MAX_DEPTH = 5
ImportFormat = Literal["tree", "flat"]

_IMPORT = re.compile(r"(?<!\S)@(?=[./\w])(\S+)")


class Source(msgspec.Struct, frozen=True):
    """A file that has been read: its path, the directory its relative imports start at, its text,
    and what says that another path leads to the same file."""

    path: str
    base: str
    text: str
    identity: Hashable


class Found(msgspec.Struct, frozen=True):
    """A file for an import. `name` is as much of what stands behind the `@` as names it."""

    name: str
    source: Source


class Refused(msgspec.Struct, frozen=True):
    """An import that is none. Without a `reason` the text was not meant as one."""

    name: str
    reason: str | None = None


Load = Callable[[str, str], Found | Refused]
"""What stands behind an `@`, and the directory of the file it stands in -> the file."""


class ProcessImportsResult(msgspec.Struct, frozen=True):
    """A text with its imports, the tree of them, and what went wrong, a line each."""

    content: str
    import_tree: MemoryFile
    problems: tuple[str, ...] = ()


def has_imports(text: str) -> bool:
    """Whether anything in a text looks like an import; cheap, and needs no parser."""
    return "@" in text and _IMPORT.search(text) is not None


def expand(
    root: Source,
    load: Load,
    *,
    format: ImportFormat = "tree",
    max_depth: int = MAX_DEPTH,
    log: Callable[[str], None] = lambda _line: None,
) -> ProcessImportsResult:
    """`root` with everything it imports. Imports go `max_depth` levels deep; `log` takes a line
    for each step."""
    importer = _Importer(load, max_depth, log)
    match format:
        case "tree":
            content, tree = importer.nested(root, (root.identity,))
        case "flat":
            content, tree = importer.flat(root)
        case _:
            assert_never(format)
    return ProcessImportsResult(content, tree, tuple(importer.problems))


class _Importer:
    """One go through a file and its imports."""

    def __init__(self, load: Load, max_depth: int, log: Callable[[str], None]) -> None:
        self.problems: list[str] = []
        self._load = load
        self._max_depth = max_depth
        self._log = log

    def nested(self, source: Source, within: tuple[Hashable, ...]) -> tuple[str, MemoryFile]:
        """The text of a file with its imports in it; `within` are the files around it."""
        pieces: list[str] = []
        imports: list[MemoryFile] = []
        last = 0
        for place, written in _imports(source.text):
            found = self._take(source, written, len(within))
            if found is None:
                continue
            name = found.name
            if isinstance(found, Refused):
                said = self._failure(source, found)
            elif found.source.identity in within:
                said = self._again(source, name)
            else:
                inner, tree = self.nested(found.source, (*within, found.source.identity))
                imports.append(tree)
                shown = _shown(name)
                said = (
                    f"<!-- Imported from: {shown} -->\n{inner}\n<!-- End of import from: {shown} -->"
                )
            pieces += (source.text[last:place], said)
            last = place + 1 + len(name)
        pieces.append(source.text[last:])
        return "".join(pieces), MemoryFile(source.path, tuple(imports))

    def flat(self, root: Source) -> tuple[str, MemoryFile]:
        """All files one behind the other, in the order they are imported first."""
        blocks: list[str] = []
        done: set[Hashable] = set()

        def add(source: Source, within: tuple[Hashable, ...]) -> MemoryFile:
            done.add(source.identity)
            path = printable(source.path)
            blocks.append(f"--- File: {path} ---\n{source.text.strip()}\n--- End of File: {path} ---")
            imports: list[MemoryFile] = []
            for _, written in _imports(source.text):
                found = self._take(source, written, len(within))
                if isinstance(found, Refused):
                    blocks.append(self._failure(source, found))
                elif found is not None and found.source.identity in within:
                    blocks.append(self._again(source, found.name))
                elif found is not None and found.source.identity not in done:
                    imports.append(add(found.source, (*within, found.source.identity)))
            return MemoryFile(source.path, tuple(imports))

        tree = add(root, (root.identity,))
        return "\n\n".join(blocks), tree

    def _take(self, source: Source, written: str, level: int) -> Found | Refused | None:
        """What an import names; None for what is none."""
        if level > self._max_depth:
            # Whether it is an import at all is not looked up: past the limit no file is touched.
            name = written.rstrip(".,;:!?")
            return Refused(name, f"Maximum import depth ({self._max_depth}) reached")
        found = self._load(written, source.base)
        if isinstance(found, Refused) and found.reason is None:
            self._log(f"{printable(source.path)}: @{printable(written)} is no import")
            return None
        if isinstance(found, Found):
            self._log(f"{printable(source.path)}: @{printable(found.name)} is "
                      f"{printable(found.source.path)}")  # fmt: skip
        return found

    def _failure(self, source: Source, refused: Refused) -> str:
        return self._comment(source, f"Import failed: {_shown(refused.name)} - {refused.reason}")

    def _again(self, source: Source, name: str) -> str:
        """The comment in the place of a file that is being imported already."""
        return self._comment(source, f"File already processed: {_shown(name)}", " (circular import)")

    def _comment(self, source: Source, said: str, more: str = "") -> str:
        line = f"{printable(source.path)}: {said}{more}"
        self.problems.append(line)
        self._log(line)
        return f"<!-- {said} -->"


def _imports(text: str) -> list[tuple[int, str]]:
    """Place of the `@` and what stands behind it, for all imports outside code."""
    if not has_imports(text):
        return []
    from alhena.memory.markdown import places_in_text

    found = {match.start(): match[1] for match in _IMPORT.finditer(text)}
    real = places_in_text(text, list(found))
    return [(place, written) for place, written in found.items() if place in real]


def _shown(name: str) -> str:
    """A name inside a comment, which it cannot end."""
    return printable(name).replace("--", "-\u200b-") if "--" in name else printable(name)
