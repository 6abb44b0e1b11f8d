"""`alhena memory`: prints GEMINI.md files and their imports."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alhena.agent.toolset.memory import memory_request
from alhena.config.settings import Settings
from alhena.display_text import one_line, without_controls
from alhena.errors import InputError, UsageError
from alhena.frontends.shared.arguments import parse_command, split_list
from alhena.frontends.shared.current_settings import place_here
from alhena.frontends.shared.listings import memory_tree
from alhena.frontends.shared.streams import is_terminal, write_json, write_stderr, write_stdout
from alhena.memory.files import Memory, MemoryKind, MemoryRequest, format_trees, load_memory
from alhena.system.errors import FileError, printable
from alhena.system.workspace import Workspace, current_directory

if TYPE_CHECKING:
    from argparse import Namespace

    from alhena.memory.imports import ImportSource, ProcessImportsResult

USAGE = """\
usage: alhena memory show [--json] [options]
       alhena memory import FILE [--format tree|flat] [--tree] [--json] [options]

show: prints the memory files that a session in this folder starts with.

import: prints FILE (- is standard input) with everything it imports.

  --format F          tree inserts each import in place, flat appends the files
  --max-depth N       levels of imports (context.maxImportDepth, 5)
  --allow DIR         also allow imports from DIR, outside the project of the file
  --tree              print the tree of imports instead
  --debug             print each step on stderr

options:
  --skip-trust                treat this folder as trusted
  --include-directories DIR   more workspace roots
  --json                      print JSON
"""

_ARGUMENTS = {
    "show": "--skip-trust --include-directories=DIR… --json",
    "import": "FILE --format=tree|flat --max-depth=N --allow=DIR… --tree --json",
}
_FILE = "Name a text file, or - for standard input."


def run(argv: list[str]) -> int:
    """Carries out `alhena memory ARGV`; returns the exit code."""
    options = parse_command("alhena memory", argv, _ARGUMENTS)
    place = place_here(skip_trust=getattr(options, "skip_trust", False))
    if options.command == "import":
        return _import(options, place.settings)
    workspace = Workspace(place.cwd, split_list(options.include_directories))
    for root in workspace.roots:
        if not root.is_dir():
            raise InputError(f"the directory {printable(root)} to include does not exist.")
    request = memory_request(workspace, place)
    memory = load_memory(request)
    _tell(memory.warnings, memory.notes)
    return _show(options, request, memory)


def _levels(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f"{text!r} is no number of levels.", remedy="Give 0 or more.")
    return int(text)


def _show(options: "Namespace", request: MemoryRequest, memory: Memory) -> int:
    from alhena.memory.files import below

    later = [printable(path) for path in below(request, (item.identity for item in memory.files))]
    if options.json:
        write_json({"content": memory.text(), **_memory_json(request, memory), "later": later})
        return 0
    content = memory.text()
    lines = [content, ""] if content else []
    lines.append(memory_tree(memory.files, str(request.roots[0])))
    if later:
        lines.append("\nLoaded when a tool uses a path there:")
        lines += (f" L {_from_here(request, path)}" for path in later)
    _write("\n".join(lines))
    return 0


def _memory_json(request: MemoryRequest, memory: Memory) -> dict[str, Any]:
    return {
        "tree": [{"kind": item.kind, **item.tree.plain()} for item in memory.files],
        "trusted": request.trust(request.roots[0]).trusted,
        "warnings": memory.warnings,
        "notes": memory.notes,
    }


def _from_here(request: MemoryRequest, path: str) -> str:
    return path.removeprefix(f"{request.roots[0]}/")


def _import(options: "Namespace", settings: Settings) -> int:
    result, top = _expand_imports(options, settings)
    if options.json:
        write_json(
            {
                "content": result.content,
                "tree": result.import_tree.plain(),
                "problems": result.problems,
            }
        )
        return 0
    if not options.debug:
        _tell(result.warnings, tuple(x for x in result.problems if x not in result.warnings))
    if options.tree:
        _write(format_trees([(MemoryKind.PROJECT, result.import_tree)], top))
    else:
        _write(result.content)
    return 0


def _expand_imports(options: "Namespace", settings: Settings) -> "tuple[ProcessImportsResult, str]":
    """A memory file with its imports, and its directory."""
    from alhena.memory import ImportLimits
    from alhena.memory.files import find_project_root, for_people
    from alhena.memory.imports import ImportLoader, expand, root_source

    context = settings.context
    depth = context.max_import_depth if options.max_depth is None else _levels(options.max_depth)
    cwd = current_directory()
    path = Path(os.path.normpath(cwd / options.file))
    limits = ImportLimits()
    try:
        source = _read_stdin(cwd) if options.file == "-" else root_source(path, limits)
    except FileError as error:
        raise InputError(for_people(error), remedy=_FILE) from error
    project = find_project_root(Path(source.base), context.boundary_markers)
    loader = ImportLoader((project, *(cwd / top for top in options.allow or ())), limits)

    def log(line: str) -> None:
        if options.debug:
            write_stderr(f"alhena: {one_line(line)}\n")

    chosen = options.format or context.import_format
    return expand(source, loader, format=chosen, max_depth=depth, log=log), source.base


def _read_stdin(cwd: Path) -> "ImportSource":
    """Standard input as a file of the working directory."""
    from alhena.frontends.shared.streams import read_input
    from alhena.memory import FILE_LIMIT
    from alhena.memory.imports import ImportSource
    from alhena.system.encoding import decode_text

    text = decode_text(read_input("-", FILE_LIMIT)).shown
    return ImportSource(str(cwd / "-"), str(cwd), text, "standard input")


def _tell(warnings: tuple[str, ...], notes: tuple[str, ...]) -> None:
    for kind, lines in (("warning", warnings), ("note", notes)):
        for line in lines:
            write_stderr(f"alhena: {kind}: {one_line(line)}\n")


def _write(text: str) -> None:
    """Text for whoever reads it: on a terminal nothing in a file may steer that."""
    text = text.rstrip("\n")
    write_stdout(f"{without_controls(text) if is_terminal(sys.stdout) else text}\n")
