"""Imports in memory files (@path): finds them outside code, checks, reads and expands them.

In the tree format an import is replaced by the expanded file between two comments. In the flat
format the files follow each other, each once, and their texts are unchanged. A failed import leaves
a comment; beyond the depth limit an import is unchanged.
"""

import os
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, assert_never

import msgspec

from alhena.memory import MAX_IMPORTS, ImportLimits, MemoryFile, read_memory
from alhena.shell.secret_files import may_hold_secrets
from alhena.system.errors import (
    DirectoryTargetError,
    FileError,
    FilePermissionError,
    FileTooLargeError,
    MissingFileError,
    NotRegularFileError,
    printable,
)
from alhena.system.workspace import is_within

if TYPE_CHECKING:
    from markdown_it.token import Token

MAX_DEPTH = 5
PARSE_LIMIT = 200_000
"""Maximum characters of all texts whose imports are expanded: parsing may be slow."""
ImportFormat = Literal["tree", "flat"]

_IMPORT = re.compile(r"(?<!\S)@(?=[./\w])(\S+)")


class ImportSource(msgspec.Struct, frozen=True):
    """A file that was read: its path, the base directory of its relative imports, its text, and an
    identity shared by all its paths."""

    path: str
    base: str
    text: str
    identity: Hashable


class Refused(msgspec.Struct, frozen=True):
    """The reason why an import failed. `secret`: it may contain secrets, which is reported to
    people."""

    reason: str
    secret: bool = False


class ProcessImportsResult(msgspec.Struct, frozen=True):
    """A text with its imports, their tree, and a line for each problem. `warnings` are the lines
    for the author of the text."""

    content: str
    import_tree: MemoryFile
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def expand(
    root: ImportSource,
    loader: "ImportLoader",
    *,
    format: ImportFormat = "tree",
    max_depth: int = MAX_DEPTH,
    log: Callable[[str], None] = lambda _line: None,
) -> ProcessImportsResult:
    """Expands all imports of `root`, up to `max_depth` levels; `log` receives a line for each
    step."""
    importer = _Importer(loader, max_depth, log)
    match format:
        case "tree":
            content, tree = importer.expand_source(root, (root.identity,))
        case "flat":
            content, tree = importer.flat(root)
        case _:
            assert_never(format)
    return ProcessImportsResult(content, tree, tuple(importer.problems), tuple(importer.warnings))


class _Importer:
    """One pass through a file and its imports."""

    def __init__(self, loader: "ImportLoader", max_depth: int, log: Callable[[str], None]) -> None:
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self._loader = loader
        self._max_depth = max_depth
        self._log = log
        self._parsed = 0

    def expand_source(
        self, source: ImportSource, within: tuple[Hashable, ...]
    ) -> tuple[str, MemoryFile]:
        """The text of a file with its imports expanded; `within` are the importing files."""
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
                inner, tree = self.expand_source(found, (*within, found.identity))
                imports.append(tree)
                said = _frame_import(_comment_name(name), inner)
            pieces += (source.text[last:place], said)
            last = place + 1 + len(name)
        pieces.append(source.text[last:])
        return "".join(pieces), MemoryFile(source.path, tuple(imports))

    def flat(self, root: ImportSource) -> tuple[str, MemoryFile]:
        """All files in the order of their first import."""
        blocks: list[str] = []
        done: set[Hashable] = set()

        def add(source: ImportSource, within: tuple[Hashable, ...]) -> MemoryFile:
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

    def _imports(self, source: ImportSource, level: int) -> list[tuple[int, str]]:
        """Positions of the `@` and names, for the imports of a file to expand."""
        names: dict[str, str | None] = {}
        found: dict[int, str] = {}
        for match in _IMPORT.finditer(source.text):
            written = match[1]
            if written not in names:
                names[written] = self._loader.import_name(written, source.base)
                if names[written] is None:
                    self._log(f"{printable(source.path)}: @{printable(written)} is no import")
            name = names[written]
            if name is not None:
                found[match.start()] = name
        if not found:  # nothing to parse
            return []
        self._parsed += len(source.text)
        if self._parsed > PARSE_LIMIT:
            self._note(source, "its imports are not followed: there is too much text to parse")
            return []

        real = places_in_text(source.text, list(found))
        imports = [(place, name) for place, name in found.items() if place in real]
        if level <= self._max_depth:
            return imports
        for _, name in imports:
            limit = f"{self._max_depth} levels of imports are the limit"
            self._note(source, f"@{printable(name)} is not followed: {limit}")
        return []

    def _take(self, source: ImportSource, name: str) -> ImportSource | Refused:
        found = self._loader.load(name, source.base)
        if isinstance(found, ImportSource):
            what = printable(found.path)
            self._log(f"{printable(source.path)}: @{printable(name)} is {what}")
        return found

    def _failure(self, source: ImportSource, name: str, refused: Refused) -> str:
        said = f"Import failed: {_comment_name(name)} - {refused.reason}"
        self._note(source, said)
        if refused.secret:
            self.warnings.append(self.problems[-1])
        return f"<!-- {said} -->"

    def _again(self, source: ImportSource, name: str) -> str:
        """The comment for a recursive import."""
        said = f"File already processed: {_comment_name(name)}"
        self._note(source, f"{said} (circular import)")
        return f"<!-- {said} -->"

    def _note(self, source: ImportSource, said: str) -> None:
        line = f"{printable(source.path)}: {said}"
        self.problems.append(line)
        self._log(line)


def _frame_import(name: str, content: str) -> str:
    return f"<!-- Imported from: {name} -->\n{content}\n<!-- End of import from: {name} -->"


def _comment_name(name: str) -> str:
    """A name inside a comment, made unable to close it."""
    return printable(name).replace(">", "&gt;")


_PUNCTUATION = ".,;:!?)]}>'\"*_"
_TEXT_SUFFIXES = (".md", ".markdown", ".mdx", ".mdc", ".txt", ".rst", ".adoc")


def is_url(name: str) -> bool:
    """True when an import is a URL."""
    scheme, found, _ = name.partition(":")
    return bool(found) and (scheme.lower() == "file" or name[len(scheme) :].startswith("://"))


def validate_import_path(
    import_path: str, base_path: Path, allowed_directories: Iterable[Path]
) -> bool:
    """True when an import is not a URL and is, with all symlinks resolved, in one of the
    directories. It need not exist."""
    if is_url(import_path) or "\0" in import_path:
        return False
    real = os.path.realpath(base_path / import_path)
    return any(is_within(real, os.path.realpath(top)) for top in allowed_directories)


class ImportLoader:
    """Finds imported files in the `allowed` directories, within `limits`.

    A name after an `@` that may be a person or a package (it begins with neither `.` nor `/`) is an
    import if it names an existing file or has a file's extension.
    """

    def __init__(self, allowed: Iterable[Path], limits: ImportLimits) -> None:
        self._allowed = tuple(Path(os.path.realpath(top)) for top in allowed)
        self._limits = limits

    def import_name(self, written: str, base: str) -> str | None:
        """The part of `written`, the text after an `@` in a file of `base`, that names a file."""
        names = _readings(written)
        name = next((each for each in names if self._leads_to_file(each, base)), None)
        if name is not None:
            return name
        name = names[-1]
        if is_url(name):
            return name
        like_a_path = name[0] in "./" and name.strip("./")  # not an ellipsis
        return name if like_a_path or name.lower().endswith(_TEXT_SUFFIXES) else None

    def load(self, name: str, base: str) -> ImportSource | Refused:
        """Returns the file, or the reason for a failure."""
        if is_url(name):
            return Refused("URLs are not imported")
        if not validate_import_path(name, Path(base), self._allowed):
            return Refused("Path traversal attempt")
        if self._limits.imports <= 0:
            return Refused(f"more than {MAX_IMPORTS} imports in one text")
        self._limits.imports -= 1
        path = Path(os.path.realpath(os.path.join(base, name)))
        below = os.path.relpath(path, os.path.realpath(base))
        if may_hold_secrets(name) or may_hold_secrets(below):
            return Refused("files that may hold secrets are not imported", secret=True)
        try:
            found = read_memory(path, self._allowed, self._limits)
        except FileError as error:
            return Refused(_reason(error))
        return ImportSource(str(path), str(path.parent), found.text, found.identity)

    def _leads_to_file(self, name: str, base: str) -> bool:
        """True when the path exists and is not a directory. Always False outside the allowed
        directories."""
        path = os.path.join(base, name)
        if not validate_import_path(name, Path(base), self._allowed):
            return False
        return os.path.lexists(path) and not os.path.isdir(path)


def root_source(path: Path, limits: ImportLimits) -> ImportSource:
    """The root file at an absolute path, wherever it leads. Raises FileError."""
    real = Path(os.path.realpath(path))
    found = read_memory(path, (real.parent,), limits)
    return ImportSource(str(path), str(path.parent), found.text, found.identity)


def _readings(written: str) -> list[str]:
    """Possible names in the text after an `@`, longest first: punctuation or a tag may follow."""
    found = [written]
    for cut in (written.rstrip(_PUNCTUATION), written.partition("<")[0]):
        found.append(cut)
        found.append(cut.rstrip(_PUNCTUATION))
    return [name for name in dict.fromkeys(found) if name] or [written]


def _reason(error: FileError) -> str:
    """The reason why a file cannot be imported, without paths of this machine."""
    match error:
        case MissingFileError():
            return "ENOENT: no such file or directory"
        case FilePermissionError():
            return "EACCES: permission denied"
        case DirectoryTargetError():
            return "EISDIR: it is a directory"
        case NotRegularFileError():
            return "not a regular file"
        case FileTooLargeError():
            return "too large, by itself or with all others"
        case _:
            return "it cannot be read as text"


_PRIVATE = range(0xE000, 0xF900)
_QUIET_HTML = re.compile(
    r"<!--.*?(?:-->|\Z)|<(pre|code|script|style|textarea)\b.*?(?:</\1\s*>|\Z)|</?[a-z][^<>]*>",
    re.DOTALL | re.IGNORECASE,
)
_CODE_TAG = re.compile(r"<(/?)(?:code|pre|samp|kbd)\b", re.IGNORECASE)


def places_in_text(text: str, places: Sequence[int]) -> frozenset[int]:
    """The subset of `places`, ascending character offsets, that is displayed as text.

    Excludes code blocks and code spans, HTML comments and code elements, and invisible parts (link
    definitions, info strings, tags).
    """
    from markdown_it import MarkdownIt

    # The parser reports lines of blocks but no positions of spans. So each character is
    # replaced by a mark without meaning in Markdown, and the marks are searched in the
    # parsed text.
    unused = iter(chr(code) for code in _PRIVATE if chr(code) not in text)
    mark = next(unused, None)
    if mark is None:  # all are used: without a mark nothing can be determined
        return frozenset()
    pieces: list[str] = []
    last = 0
    for number, place in enumerate(places):
        pieces += (text[last:place], f"{mark}{number}{mark}")
        last = place + 1
    pieces.append(text[last:])
    # These do not affect code; disabling them keeps parsing fast.
    unneeded = ["emphasis", "entity", "link", "image"]
    parser = MarkdownIt("commonmark").disable(unneeded)
    marks = re.compile(f"{mark}([0-9]+){mark}")
    found: set[int] = set()
    for token in parser.parse("".join(pieces)):
        for seen in _text_pieces(token):
            found.update(places[int(number)] for number in marks.findall(seen))
    return frozenset(found)


def _text_pieces(token: "Token") -> list[str]:
    """The text pieces of a block."""
    if token.type == "html_block":
        return [_QUIET_HTML.sub("", token.content)]
    if token.type != "inline":
        return []
    texts: list[str] = []
    code = 0
    for child in token.children or ():
        if child.type == "html_inline":
            tag = _CODE_TAG.match(child.content)
            if tag:
                code = max(0, code - 1) if tag[1] else code + 1
        elif child.type == "text" and not code:
            texts.append(child.content)
    return texts
