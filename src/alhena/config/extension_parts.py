"""The parts of an extension that are interpreted or run, and the state in which they were accepted.

They are the manifest, hooks, commands, policies, agents, skills and context files with what they
import, what a command of theirs names, and programs. Logs, caches and other data that an extension
writes are none: it may change them. A file that a command names and that is no program is such data
if its path or its option says so (`data/x.json`, `--state x.json`), else it may say what runs. A
program that comes later is a part only beside an accepted one: there another may load it by its
name.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from alhena.config.documents import parse_settings, read_limited
from alhena.config.extension_manifest import (
    HOOKS,
    MANIFEST,
    METADATA,
    ExtensionPin,
    array_in,
    hooks_in,
    object_in,
    substitute_paths,
)
from alhena.config.pinned_entries import (
    CODE,
    DATA,
    file_digest,
    holds_state,
    named_files,
    state_files,
)
from alhena.display_text import first_of
from alhena.errors import ConfigError

MAX_NAMED = 5
_READ = {
    "hooks": re.compile(r"hooks/hooks\.json"),
    "commands": re.compile(r"commands/.*\.toml"),
    "policies": re.compile(r"policies/[^/]*\.toml"),
    "agents": re.compile(r"agents/[^/]*\.(?:md|toml)"),
    "skills": re.compile(r"skills/(?:.*/)?[^/]*\.md"),
}
"""The folders that are read, and the files in them that are read unnamed."""
_SKIPPED = frozenset({"node_modules", "__pycache__", ".git"})
_PROGRAMS = (CODE - {""}) | {".so", ".dll", ".dylib", ".node", ".wasm", ".class", ".ps1", ".bat"}
_BUILD = frozenset(
    {
        *("package.json", "deno.json", "deno.jsonc", "pyproject.toml", "setup.cfg"),
        *("Makefile", "makefile", "GNUmakefile", "justfile"),
    }
)
"""Files that say what a command such as `npm start` runs."""
_IMPORT = re.compile(r"(?<![\w@])@([^\s`]+)")


def pin_parts(folder: Path) -> ExtensionPin:
    """The state of an extension's parts as they are now."""
    parts = {
        name: _digest(folder / name)
        for name in sorted({*_known_parts(folder), *_referenced_files(folder)})
    }
    return ExtensionPin(parts=parts, files=_times(folder, parts))


def is_as_pinned(folder: Path, pin: ExtensionPin) -> bool:
    """True when every part is as it was accepted."""
    if pin.files and pin.files == _times(folder, {*_known_parts(folder), *pin.parts}):
        return True
    return not _changed_parts(folder, pin.parts) or bool(
        pin.next and not _changed_parts(folder, pin.next)
    )


def describe_changes(folder: Path, pin: ExtensionPin) -> str:
    """The names of the parts that are not as they were accepted."""
    return first_of(_changed_parts(folder, pin.parts), MAX_NAMED)


def is_up_to_date(folder: Path, content: Path) -> bool:
    """True when an installed extension has all that newly fetched content has, and no part more."""
    new = set(_files(content))
    same = all(_digest(folder / name) == _digest(content / name) for name in new)
    return same and new.issuperset(pin_parts(folder).parts)


def _changed_parts(folder: Path, accepted: Mapping[str, str]) -> list[str]:
    named = _referenced_files(folder)
    now = {*_known_parts(folder), *(name for name, strict in named.items() if strict)}
    beside = {os.path.dirname(name) for name in accepted}
    found = [name for name, digest in accepted.items() if _digest(folder / name) != digest]
    for name in now.difference(accepted):
        read = _is_read(name) or name in named or os.path.islink(folder / name)
        near = name.partition("/")[0] in _READ or os.path.dirname(name) in beside
        if read or (near and _is_program(folder / name)):
            found.append(name)
    return sorted(found)


def _known_parts(folder: Path) -> Iterator[str]:
    """The parts that are known by their names and permissions."""
    for name, entry in _files(folder).items():
        top, _, rest = name.partition("/")
        suffix = os.path.splitext(name)[1].lower()
        is_link = entry.is_symlink()
        if name == MANIFEST or _is_read(name) or (is_link and top in _READ):
            yield name
            continue
        if suffix in DATA or not (is_link or entry.is_file(follow_symlinks=False)):
            continue
        if _is_program(entry.path) or (rest and top == "skills" and not holds_state(rest)):
            yield name


def _is_program(path: str | Path) -> bool:
    """True for a regular file that may be run, by its name or its permissions."""
    name = os.path.basename(path)
    if os.path.splitext(name)[1].lower() in _PROGRAMS or name in _BUILD:
        return True
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & stat.S_IXUSR)


def _is_read(name: str) -> bool:
    pattern = _READ.get(name.partition("/")[0])
    return pattern is not None and pattern.fullmatch(name) is not None


def _files(folder: Path) -> dict[str, os.DirEntry[str]]:
    """The files of an extension, but not its values, its metadata and what tools leave."""
    found: dict[str, os.DirEntry[str]] = {}
    folders = [str(folder)]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in entries:
            name = os.path.relpath(entry.path, folder)
            if entry.name in _SKIPPED or name in (".env", METADATA):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            else:
                found[name] = entry
    return found


def _referenced_files(folder: Path) -> dict[str, bool]:
    """The files of the folder that its servers, hooks and agents name, and its context files; true
    where they surely are no data of a program."""
    manifest = object_in(_document(folder, MANIFEST))
    found = dict.fromkeys(_context(folder, manifest.get("contextFileName")), True)
    commands: list[Any] = list(object_in(manifest.get("mcpServers")).values())
    commands += hook_commands(_document(folder, HOOKS))
    for name in _known_parts(folder):
        if name.startswith("agents/") and _is_read(name):
            commands += _text(folder / name).splitlines()
    for each in commands:
        entry = _substitute_folder(each, folder)
        named, loose = named_files(entry, folder)
        for name in named.keys() - (state_files(entry, folder) if loose else frozenset[str]()):
            found[name] = found.get(name, False) or name not in loose
    found.pop(".env", None)
    return found


def _context(folder: Path, names: Any) -> Iterator[str]:
    """The context files and what they import, within the folder."""
    listed = array_in(names) if isinstance(names, list) else [names or "GEMINI.md"]
    root = os.path.realpath(folder)
    waiting = [os.path.normpath(os.path.join(root, str(each))) for each in listed]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.startswith(f"{root}/") or not os.path.isfile(path):
            continue
        seen.add(path)
        yield os.path.relpath(path, root)
        here = os.path.dirname(path)
        waiting += (
            os.path.normpath(os.path.join(here, each)) for each in _IMPORT.findall(_text(path))
        )


def hook_commands(document: Any) -> Iterator[str]:
    """The commands of a document of hooks, as far as it has the right form."""
    for hook in hooks_in(document):
        command = hook.get("command")
        if isinstance(command, str):
            yield command


def _substitute_folder(value: Any, folder: Path) -> Any:
    return substitute_paths(value, folder, folder)


def _document(folder: Path, name: str) -> Any:
    try:
        return parse_settings(folder / name, read_limited(folder / name))
    except (OSError, ConfigError):  # it is a part all the same, and another reader gives the reason
        return None


def _text(path: Path | str) -> str:
    try:
        return read_limited(path).decode("utf-8", "replace")
    except OSError:
        return ""


def _times(folder: Path, names: Iterable[str]) -> str:
    states: list[object] = []
    for name in sorted(names):
        try:
            state = os.lstat(folder / name)
        except OSError:
            states.append(name)
            continue
        states.append((name, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns))
    return sha256(repr((str(folder), states)).encode("utf-8", "surrogateescape")).hexdigest()


def _digest(path: Path) -> str:
    """The state of a file: its content, or the target of a link; "" for none."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return f"link to {os.readlink(path)}"
    except OSError:
        return ""
    return file_digest(str(path)) if stat.S_ISREG(mode) else "no file"
