"""Custom commands: prompts in TOML files, called by a name behind a slash."""

import os
import re
import tomllib
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from alhena.commands.placeholders import ARGUMENTS, check_placeholders
from alhena.config.effective_settings import Place
from alhena.config.home import config_home
from alhena.display_text import one_line
from alhena.errors import AlhenaError, InputError
from alhena.system.files import read_content
from alhena.system.workspace import is_within

_OPENING = re.compile(r"\{\{args\}\}|[!@]\{")
_BRACE = re.compile(r"[{}]")


class LiteralText(msgspec.Struct, frozen=True):
    """Literal text."""

    text: str


class ArgumentsPlaceholder(msgspec.Struct, frozen=True):
    """`{{args}}` outside of a shell command."""


class ShellPlaceholder(msgspec.Struct, frozen=True):
    """`!{command}`, whose output takes its place; `{{args}}` may occur in it."""

    command: str


class FilePlaceholder(msgspec.Struct, frozen=True):
    """`@{path}`, whose content takes its place; `{{args}}` may occur in it."""

    path: str


Piece = LiteralText | ArgumentsPlaceholder | ShellPlaceholder | FilePlaceholder


def parse(template: str) -> tuple[Piece, ...]:
    """The pieces of a template, in order. Raises InputError for an injection without an end."""
    pieces: list[Piece] = []
    at = 0
    while (found := _OPENING.search(template, at)) is not None:
        if found.start() > at:
            pieces.append(LiteralText(template[at : found.start()]))
        at = found.end()
        if found[0] == ARGUMENTS:
            pieces.append(ArgumentsPlaceholder())
            continue
        end = _end(template, at)
        if end is None:
            raise InputError(
                f"Unclosed injection starting at index {found.start()} ('{found[0]}').",
                remedy="Balance the braces: those of paths and commands count too.",
            )
        inner = template[at:end].strip()
        if inner:
            pieces.append(ShellPlaceholder(inner) if found[0] == "!{" else FilePlaceholder(inner))
        at = end + 1
    if at < len(template):
        pieces.append(LiteralText(template[at:]))
    return tuple(pieces)


def _end(template: str, at: int) -> int | None:
    """The index of the brace that closes the one before `at`."""
    depth = 1
    for brace in _BRACE.finditer(template, at):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return None


def takes_arguments(pieces: tuple[Piece, ...]) -> bool:
    """True if `{{args}}` occurs in a template."""
    return any(
        isinstance(piece, ArgumentsPlaceholder)
        or (isinstance(piece, ShellPlaceholder) and ARGUMENTS in piece.command)
        or (isinstance(piece, FilePlaceholder) and ARGUMENTS in piece.path)
        for piece in pieces
    )


MAX_BYTES = 1_000_000
_MAX_SEGMENT = 50
_UNNAMED = re.compile(r"[^A-Za-z0-9_.-]")


class CommandFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of command files. `name` prefixes its commands where names collide; symlinks may
    lead out of the folder (of the `package`, if it is in one) only with `follows`."""

    name: str
    folder: Path
    follows: bool = False
    package: Path | None = None


class CommandFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file and the name of its command, without prefix."""

    source: CommandFolder
    name: str
    path: Path


class CustomCommand(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a command file."""

    description: str
    pieces: tuple[Piece, ...]


def sources_of(place: Place) -> tuple[CommandFolder, ...]:
    """The folders of the project, if it is trusted, of the user and of extensions, the stronger
    first."""
    user = config_home(place.environ) / "commands"
    project = place.cwd / ".gemini" / "commands"
    found = [CommandFolder(name="user", folder=user, follows=True)]
    if place.trust.trusted and os.path.realpath(project) != os.path.realpath(user):
        found.insert(0, CommandFolder(name="workspace", folder=project))
    found += [
        CommandFolder(name=each.name, folder=each.folder / "commands", package=each.folder)
        for each in place.extensions
    ]
    return tuple(found)


class CustomCommands:
    """The commands of some sources, the stronger first. A name in `taken`, or of a stronger source,
    is prefixed. `problems` name the files that are not used, and those with another name."""

    def __init__(self, sources: Iterable[CommandFolder], taken: Container[str] = ()) -> None:
        self.problems: list[str] = []
        self._by_name: dict[str, CommandFile] = {}
        self._prefixed: dict[str, CommandFile] = {}
        self._read: dict[Path, CustomCommand] = {}
        for source in sources:
            for file in self._find_files(source):
                self._add(file, taken)

    @property
    def files(self) -> Mapping[str, CommandFile]:
        """The files by the names of their commands, in alphabetical order."""
        return dict(sorted(self._by_name.items()))

    def find(self, name: str) -> CommandFile | None:
        """The file of a command; its prefixed names work too."""
        return self._by_name.get(name) or self._prefixed.get(name)

    def read(self, file: CommandFile) -> CustomCommand:
        """The content of a file. Raises InputError, which names file and line."""
        if file.path not in self._read:
            self._read[file.path] = _read(file)
        return self._read[file.path]

    def describe_command(self, file: CommandFile) -> str:
        """The description of a command, or why its file cannot be used."""
        try:
            return one_line(self.read(file).description, 200)
        except InputError as error:
            return f"broken: {one_line(error.message, 300)}"

    def _add(self, file: CommandFile, taken: Container[str]) -> None:
        prefixed = f"{file.source.name}.{file.name}"
        if prefixed in self._prefixed:
            other = self._prefixed[prefixed].path
            self._problem(file.path, f"is not used: {other} has the same name")
            return
        self._prefixed[prefixed] = file
        self._prefixed[f"{file.source.name}:{file.name}"] = file
        name = file.name
        if name in taken or name in self._by_name:
            name = prefixed
            self._problem(file.path, f"is the command /{name}: /{file.name} is another one")
        self._by_name.setdefault(name, file)

    def _find_files(self, source: CommandFolder) -> Iterator[CommandFile]:
        """The command files of a source, in alphabetical order."""
        for path in self._walk(source):
            if _leads_out(source, path):
                self._problem(path, "is not used: it is a link out of its folder")
                continue
            parts = path.relative_to(source.folder).with_suffix("").parts
            yield CommandFile(source=source, name=":".join(map(_segment, parts)), path=path)

    def _walk(self, source: CommandFolder) -> Iterator[Path]:
        """The TOML files below a folder; each real folder is entered once."""
        entered: set[str] = set()

        def note_failure(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                self._problem(Path(error.filename), f"cannot be read: {error.strerror}")

        walk = os.walk(source.folder, onerror=note_failure, followlinks=True)
        for folder, folders, names in walk:
            folders.sort()
            if source.package and _leads_out(source, folder):
                self._problem(Path(folder), "is not used: it is a link out of its folder")
                folders.clear()
                continue
            if (real := os.path.realpath(folder)) in entered:
                folders.clear()
                continue
            entered.add(real)
            yield from (Path(folder, name) for name in sorted(names) if name.endswith(".toml"))

    def _problem(self, path: Path, text: str) -> None:
        self.problems.append(f"{one_line(str(path))} {one_line(text)}.")


def _leads_out(source: CommandFolder, path: str | Path) -> bool:
    top = os.path.realpath(source.package or source.folder)
    return not source.follows and not is_within(os.path.realpath(path), top)


def _segment(text: str) -> str:
    """A part of a path as part of a name."""
    text = _UNNAMED.sub("_", text)
    return text if len(text) <= _MAX_SEGMENT else f"{text[: _MAX_SEGMENT - 3]}..."


def _read(file: CommandFile) -> CustomCommand:
    try:
        data = read_content(file.path, MAX_BYTES, follows=file.source.follows)
        document = tomllib.loads(data.decode("utf-8-sig"))
        return _parse_command(document)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise _broken(file, f"not valid UTF-8 (at line {line})") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _broken(file, f"no valid TOML: {error}") from error
    except AlhenaError as error:
        raise _broken(file, error.message, error.remedy) from error


def _parse_command(document: dict[str, object]) -> CustomCommand:
    prompt, description = document.get("prompt"), document.get("description", "")
    if not isinstance(prompt, str) or not prompt.strip():
        raise InputError("The 'prompt' field is required, a string.")
    if not isinstance(description, str):
        raise InputError("The 'description' field must be a string.")
    pieces = parse(prompt)
    for piece in pieces:
        if isinstance(piece, ShellPlaceholder):
            check_placeholders(piece.command)
    return CustomCommand(description=description or "a custom command", pieces=pieces)


def _broken(file: CommandFile, why: str, remedy: str | None = None) -> InputError:
    place = one_line(str(file.path))
    return InputError(f"Invalid command '{file.name}' in {place}: {why}", remedy=remedy)
