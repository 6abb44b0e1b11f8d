"""`@path` in memory files: the files it names come into the text. Nothing here touches a disk.

In the tree form an import is replaced by what the file holds, imports and all, between two
comments. In the flat form the files follow each other, each once, and their texts stay as they
are. What cannot be imported leaves a comment; past the depth limit an import stays as it is.
"""

import re
from collections.abc import Callable, Hashable
from typing import Literal, Protocol, assert_never

import msgspec

from alhena.memory.tree import MemoryFile
from alhena.system.errors import printable

MAX_DEPTH = 5
PARSE_LIMIT = 100_000
"""Characters of the largest text whose imports are followed: a parser can be kept busy for long."""
PARSE_TOTAL = 200_000
"""Characters of all such texts together."""
MOST_NAMES = 2_000
"""Different names behind an `@` in one text."""
ImportFormat = Literal["tree", "flat"]

_IMPORT = re.compile(r"(?<!\S)@(?=[./\w])(\S+)")


class Source(msgspec.Struct, frozen=True):
    """A file that has been read: its path, the directory its relative imports start at, its text,
    and what says that another path leads to the same file."""

    path: str
    base: str
    text: str
    identity: Hashable


class Refused(msgspec.Struct, frozen=True):
    """Why an import cannot be had. `secret`: it may hold what nobody should read by accident, which
    people are told."""

    reason: str
    secret: bool = False


class Loader(Protocol):
    """Finds files. `base` is the directory of the file that an import stands in."""

    def named(self, written: str, base: str) -> str | None:
        """As much of the text behind an `@` as names a file, there or not; None when it was not
        meant as one."""
        ...

    def load(self, name: str, base: str) -> Source | Refused:
        """The file of that name."""
        ...


class ProcessImportsResult(msgspec.Struct, frozen=True):
    """A text with its imports, the tree of them, and what went wrong, a line each. `warnings` are
    those of the lines that concern whoever wrote the text."""

    content: str
    import_tree: MemoryFile
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def expand(
    root: Source,
    loader: Loader,
    *,
    format: ImportFormat = "tree",
    max_depth: int = MAX_DEPTH,
    log: Callable[[str], None] = lambda _line: None,
) -> ProcessImportsResult:
    """`root` with everything it imports. Imports go `max_depth` levels deep; `log` takes a line
    for each step."""
    importer = _Importer(loader, max_depth, log)
    match format:
        case "tree":
            content, tree = importer.nested(root, (root.identity,))
        case "flat":
            content, tree = importer.flat(root)
        case _:
            assert_never(format)
    return ProcessImportsResult(content, tree, tuple(importer.problems), tuple(importer.warnings))


class _Importer:
    """One go through a file and its imports."""

    def __init__(self, loader: Loader, max_depth: int, log: Callable[[str], None]) -> None:
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self._loader = loader
        self._max_depth = max_depth
        self._log = log
        self._parsed = 0

    def nested(self, source: Source, within: tuple[Hashable, ...]) -> tuple[str, MemoryFile]:
        """The text of a file with its imports in it; `within` are the files around it."""
        pieces: list[str] = []
        imports: list[MemoryFile] = []
        last = 0
        for place, name in self._imports(source, len(within)):
            found = self._take(source, name)
            if isinstance(found, Refused):
                said = self._failure(source, name, found)
            elif found.identity in within:
                said = self._again(source, name)
            else:
                inner, tree = self.nested(found, (*within, found.identity))
                imports.append(tree)
                said = _framed(_shown(name), inner)
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
            blocks.append(
                f"--- File: {path} ---\n{source.text.strip()}\n--- End of File: {path} ---"
            )
            imports: list[MemoryFile] = []
            for _, name in self._imports(source, len(within)):
                found = self._take(source, name)
                if isinstance(found, Refused):
                    blocks.append(self._failure(source, name, found))
                elif found.identity in within:
                    blocks.append(self._again(source, name))
                elif found.identity not in done:
                    imports.append(add(found, (*within, found.identity)))
            return MemoryFile(source.path, tuple(imports))

        tree = add(root, (root.identity,))
        return "\n\n".join(blocks), tree

    def _imports(self, source: Source, level: int) -> list[tuple[int, str]]:
        """Place of the `@` and name, for the imports of a file that are to be followed."""
        names: dict[str, str | None] = {}
        found: dict[int, str] = {}
        for match in _IMPORT.finditer(source.text):
            written = match[1]
            if written not in names:
                if len(names) == MOST_NAMES:
                    self._note(source, f"only the first {MOST_NAMES:,} names behind an @ count")
                    break
                names[written] = self._loader.named(written, source.base)
                if names[written] is None:
                    self._log(f"{printable(source.path)}: @{printable(written)} is no import")
            name = names[written]
            if name is not None:
                found[match.start()] = name
        if not found:  # nothing to ask the parser about
            return []
        self._parsed += len(source.text)
        if len(source.text) > PARSE_LIMIT or self._parsed > PARSE_TOTAL:
            self._note(source, "its imports are not followed: there is too much text to parse")
            return []
        from alhena.memory.markdown import places_in_text

        real = places_in_text(source.text, list(found))
        imports = [(place, name) for place, name in found.items() if place in real]
        if level <= self._max_depth:
            return imports
        for _, name in imports:
            limit = f"{self._max_depth} levels of imports are the limit"
            self._note(source, f"@{printable(name)} is not followed: {limit}")
        return []

    def _take(self, source: Source, name: str) -> Source | Refused:
        found = self._loader.load(name, source.base)
        if isinstance(found, Source):
            what = printable(found.path)
            self._log(f"{printable(source.path)}: @{printable(name)} is {what}")
        return found

    def _failure(self, source: Source, name: str, refused: Refused) -> str:
        said = f"Import failed: {_shown(name)} - {refused.reason}"
        self._note(source, said)
        if refused.secret:
            self.warnings.append(self.problems[-1])
        return f"<!-- {said} -->"

    def _again(self, source: Source, name: str) -> str:
        """The comment in the place of a file that is being imported already."""
        said = f"File already processed: {_shown(name)}"
        self._note(source, f"{said} (circular import)")
        return f"<!-- {said} -->"

    def _note(self, source: Source, said: str) -> None:
        line = f"{printable(source.path)}: {said}"
        self.problems.append(line)
        self._log(line)


def _framed(name: str, content: str) -> str:
    return f"<!-- Imported from: {name} -->\n{content}\n<!-- End of import from: {name} -->"


def _shown(name: str) -> str:
    """A name inside a comment, which it cannot end."""
    return printable(name).replace(">", "&gt;")
