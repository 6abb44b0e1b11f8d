"""Ignore rules of git and .geminiignore.

Rules follow git: the .gitignore of every directory from the top of the work tree down, then
`.git/info/exclude`, then the user's core.excludesFile; the last matching line of the closest file
decides, and files in an ignored directory cannot be re-included. A .gitignore applies even without
a repository. What git tracks it does not ignore. `.geminiignore` is read at the root only, as are
the files that settings name; none of these includes what another leaves out.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.system.errors import from_os_error
from alhena.system.files import read_small_text
from alhena.system.wildcard import BadPatternError, name_regex, path_regex

if TYPE_CHECKING:
    from alhena.system.tracked_files import TrackedFiles

_MAX_INCLUDES = 10
_NUL = "\0"
"""A character that no path contains."""


def git_directory(top: Path, warnings: list[str]) -> Path | None:
    """The directory with git's shared files (`info/`, `config`) of the work tree at `top`.

    Follows the `gitdir:` and `commondir` files of worktrees and submodules. None when `top` is not
    the top of a work tree. Unreadable files add a line to `warnings`.
    """
    entry = top / ".git"
    try:
        if entry.is_dir():
            return entry
    except OSError as error:
        warnings.append(str(from_os_error(error, entry)))
        return None
    pointer = read_small_text(entry, warnings).strip()
    if not pointer.startswith("gitdir:") or _NUL in pointer:
        return None
    directory = top / pointer.removeprefix("gitdir:").strip()
    common = read_small_text(directory / "commondir", warnings).strip()
    return directory / common if common and _NUL not in common else directory


def excludes_file(
    git_dir: Path | None, warnings: list[str], environ: Mapping[str, str]
) -> Path | None:
    """The user's global ignore file: core.excludesFile, else `git/ignore` in the XDG directory.

    Reads the system, user and repository configuration with unconditional includes; `environ`
    locates the first two.
    """
    home = Path(environ.get("HOME") or os.sep)
    xdg = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    sources: list[Path] = []
    if environ.get("GIT_CONFIG_NOSYSTEM", "").lower() not in ("1", "true", "yes", "on"):
        sources.append(Path(environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig"))
    named = environ.get("GIT_CONFIG_GLOBAL")
    sources += [Path(named)] if named is not None else [xdg / "config", home / ".gitconfig"]
    if git_dir is not None:
        sources.append(git_dir / "config")
    found: str | None = None
    for source in sources:
        value = _setting(source, home, warnings, depth=0)
        found = found if value is None else value
    if found is None:
        return xdg / "ignore"
    return _expand_home(found, home) if found and _NUL not in found else None


def _expand_home(value: str, home: Path) -> Path:
    return home / value[2:] if value.startswith("~/") else Path(value)


def _setting(file: Path, home: Path, warnings: list[str], *, depth: int) -> str | None:
    """The last core.excludesFile in a configuration file; None without one."""
    found: str | None = None
    section = ""
    for line in _logical_lines(read_small_text(file, warnings)):
        text = line.strip()
        if text.startswith("["):
            header, _, text = text[1:].partition("]")
            section = header.strip().lower()
            text = text.strip()
        name, _, raw = text.partition("=")
        key = f"{section}.{name.strip().lower()}"
        if key == "core.excludesfile":
            found = _value(raw)
        elif key == "include.path" and depth < _MAX_INCLUDES:
            included = file.parent / _expand_home(_value(raw), home)
            nested = _setting(included, home, warnings, depth=depth + 1)
            found = found if nested is None else nested
    return found


def _logical_lines(text: str) -> list[str]:
    return text.replace("\\\r\n", "").replace("\\\n", "").splitlines()


_QUOTED = r'\s*"((?:[^"\\]|\\.)*)"'


def _value(raw: str) -> str:
    """Parses a value: one in quotes, or up to a comment."""
    if found := re.match(_QUOTED, raw):
        return re.sub(r"\\(.)", r"\1", found[1])
    return re.split("[#;]", raw)[0].strip().replace("\\\\", "\\")


GIT_IGNORE = ".gitignore"
GEMINI_IGNORE = ".geminiignore"
_GIT = ".git"
_PLAIN = r"[^*?\[\\]*"


def _byte_per_character(name: str) -> str:
    # git matches bytes: "?" matches one byte of a name, not one character.
    return name if name.isascii() else os.fsencode(name).decode("latin-1")


_Check = tuple[bool, bool, Callable[[str], re.Match[str] | None]]
"""True to re-include, True to match the name alone, the match function."""


class _RuleBlock:
    """Consecutive lines of the same kind: any match decides, so four expressions suffice."""

    def __init__(self, *, negated: bool) -> None:
        self.negated = negated
        self._sources: dict[tuple[bool, bool], list[str]] = {}

    def add(self, source: str, *, by_name: bool, directories_only: bool) -> None:
        self._sources.setdefault((by_name, directories_only), []).append(source)

    def checks(self, *, directories: bool) -> Iterator[_Check]:
        """The expressions for directories, or for other entries."""
        for (by_name, directories_only), sources in self._sources.items():
            if directories or not directories_only:
                joined = "|".join(f"(?:{source})" for source in sources)
                yield self.negated, by_name, re.compile(joined, re.DOTALL).fullmatch


class IgnoreFile:
    """The parsed lines of an ignore file, for paths relative to its directory."""

    def __init__(self, text: str) -> None:
        self._blocks: list[_RuleBlock] = []
        for line in text.split("\n"):
            self._add(_byte_per_character(line))
        # For other entries, and for directories; last lines first, as they decide.
        self._checks = [
            [c for block in reversed(self._blocks) for c in block.checks(directories=directories)]
            for directories in (False, True)
        ]

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def verdict(self, prefix: str, name: str, is_dir: bool) -> bool | None:
        """True to ignore, False to keep, None without a matching line; the path is `prefix` +
        `name`."""
        for negated, by_name, fullmatch in self._checks[is_dir]:
            if fullmatch(name if by_name else prefix + name):
                return not negated
        return None

    def _add(self, line: str) -> None:
        if line.startswith("#"):
            return
        pattern = _without_trailing_spaces(line.removesuffix("\r"))
        negated = pattern.startswith("!")
        pattern = pattern[negated:]
        directories_only = pattern.endswith("/")
        pattern = pattern[:-1] if directories_only else pattern
        if not pattern:
            return
        by_name = "/" not in pattern
        try:
            source = name_regex(pattern) if by_name else _path_source(pattern.removeprefix("/"))
        except BadPatternError:
            return  # like git, ignore a line that can match nothing
        if not self._blocks or self._blocks[-1].negated != negated:
            self._blocks.append(_RuleBlock(negated=negated))
        self._blocks[-1].add(source, by_name=by_name, directories_only=directories_only)


def _path_source(pattern: str) -> str:
    # git compares the literal prefix first and matches only the rest as a pattern, so that
    # the "**" of "a**/b" is at the start of that pattern and spans directories.
    plain = re.match(_PLAIN, pattern)
    length = plain.end() if plain else 0
    if length and len(pattern) - length >= 2 and not pattern[length:].strip("*"):
        return f"{re.escape(pattern[:length])}(?s:.*)"  # "**" by itself also matches nothing
    return re.escape(pattern[:length]) + (path_regex(pattern[length:]) if pattern[length:] else "")


def _without_trailing_spaces(line: str) -> str:
    stripped = line.rstrip(" ")
    if stripped == line:
        return line
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return f"{stripped} " if backslashes % 2 else stripped


class DirectoryRules:
    """The rules for the entries of one directory; made by `IgnoreRules.rules_of` and `below`.

    `layers` are ignore files, closest first, each with this directory's path below its own ("" or
    ending in a slash). `ignored`: the directory itself is, so that everything below is but for what
    is `tracked`.
    """

    __slots__ = ("_directory", "_gemini", "_layers", "_owner", "_tracked", "ignored")

    def __init__(
        self,
        owner: "IgnoreRules",
        directory: str,
        layers: list[tuple[str, IgnoreFile]],
        gemini: list[tuple[str, IgnoreFile]],
        tracked: "TrackedFiles | None" = None,
        *,
        ignored: bool = False,
    ) -> None:
        self._owner = owner
        self._directory = directory
        self._layers = layers
        self._gemini = gemini
        self._tracked = tracked
        self.ignored = ignored

    def ignores(self, name: str, is_dir: bool) -> bool:
        """True when the entry `name` of this directory is ignored."""
        if name == _GIT and self._owner.git:
            return True
        plain = name if name.isascii() else _byte_per_character(name)
        ignored = self._matches(plain, is_dir) and not self._tracks(name, is_dir)
        return ignored or (bool(self._gemini) and self.closes(name, is_dir))

    def closes(self, name: str, is_dir: bool) -> bool:
        """True when .geminiignore, or a file like it that settings name, names an entry."""
        plain = name if name.isascii() else _byte_per_character(name)
        return any(_apply_rules([layer], plain, is_dir) for layer in self._gemini)

    def below(self, name: str) -> "DirectoryRules":
        """The rules for the entries of the subdirectory `name`."""
        directory = f"{self._directory.rstrip('/')}/{name}"
        if self.ignores(name, is_dir=True):
            return DirectoryRules(self._owner, directory, [], [], ignored=True)
        plain = _byte_per_character(name)
        gemini = [(f"{prefix}{plain}/", rules) for prefix, rules in self._gemini]
        inner = self._owner.tracked_by(directory)
        if inner is None and self._matches(plain, is_dir=True):
            return DirectoryRules(self._owner, directory, [], gemini, self._tracked, ignored=True)
        layers = [(f"{prefix}{plain}/", rules) for prefix, rules in self._layers]
        layers = self._owner.layers(directory, layers)
        return DirectoryRules(self._owner, directory, layers, gemini, inner or self._tracked)

    def _matches(self, plain: str, is_dir: bool) -> bool:
        """True when git ignores an entry that it does not track."""
        return self.ignored or _apply_rules(self._layers, plain, is_dir)

    def _tracks(self, name: str, is_dir: bool) -> bool:
        path = f"{self._directory.rstrip('/')}/{name}"
        return self._tracked is not None and self._tracked.holds(path, is_dir)


def _apply_rules(layers: list[tuple[str, IgnoreFile]], name: str, is_dir: bool) -> bool:
    for prefix, rules in layers:
        verdict = rules.verdict(prefix, name, is_dir)
        if verdict is not None:
            return verdict
    return False


class IgnoreRules:
    """The ignore rules of a workspace root, read from disk on demand and cached.

    `environ` (default: this process's) locates the user's git settings. `warnings` has a line for
    every unreadable ignore file. Without `tracked` git is not asked for what it tracks, and the
    rules alone decide. `custom` are paths of further files like .geminiignore, relative to the
    root. Create a new object to see changed files.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        git: bool = True,
        gemini: bool = True,
        tracked: bool = True,
        environ: Mapping[str, str] | None = None,
        custom: Sequence[str] = (),
    ) -> None:
        self._own = (*custom, *((GEMINI_IGNORE,) if gemini else ()))
        self._asks = tracked and git
        self._environ: Mapping[str, str] = os.environ if environ is None else environ
        self.root = Path(root)
        self.git = git
        self.gemini = gemini
        self.warnings: list[str] = []
        self._known: dict[Path, DirectoryRules] = {}

    def is_ignored(self, path: Path, is_dir: bool) -> bool:
        """True when `path` (absolute) is ignored; never for the root or paths outside it."""
        located = path if path.is_relative_to(self.root) else path.parent.resolve() / path.name
        if located == self.root or not located.is_relative_to(self.root):
            return False
        return self.rules_of(located.parent).ignores(located.name, is_dir)

    def covers(self, directory: Path) -> bool:
        """True for a directory that is ignored itself, also when git tracks something in it."""
        if directory == self.root or not directory.is_relative_to(self.root):
            return False
        return self.rules_of(directory).ignored

    def tracked_by(self, top: str) -> "TrackedFiles | None":
        """The tracked files of the repository at `top` that its rules match; None where there is no
        repository, or it is not asked."""
        if not self._asks or not os.path.lexists(f"{top}/{_GIT}"):
            return None
        from alhena.system.tracked_files import TrackedFiles

        return TrackedFiles(top, self._environ, self.warnings)

    def rules_of(self, directory: Path) -> DirectoryRules:
        """The rules for the entries of a directory at or below the root."""
        known = self._known.get(directory)
        if known is None:
            if directory == self.root or not directory.is_relative_to(self.root):
                known = self._at_root(directory)
            else:
                known = self.rules_of(directory.parent).below(directory.name)
            self._known[directory] = known
        return known

    def layers(
        self, directory: str, inherited: list[tuple[str, IgnoreFile]]
    ) -> list[tuple[str, IgnoreFile]]:
        """The ignore files that apply in `directory`, given those of its parent."""
        if not self.git:
            return []
        if os.path.lexists(f"{directory}/{_GIT}"):
            inherited = self._repository_layers(Path(directory))
        own = self._read(Path(directory, GIT_IGNORE), follow=False)
        return [("", own), *inherited] if own else inherited

    def _at_root(self, directory: Path) -> DirectoryRules:
        read = (self._read(directory / name, follow=True) for name in self._own if _NUL not in name)
        gemini = [("", own) for own in read if own]
        if not self.git:
            return DirectoryRules(self, str(directory), [], gemini)
        top = next(
            (d for d in (directory, *directory.parents) if os.path.lexists(d / _GIT)), directory
        )
        layers = self._repository_layers(top)
        layers = self.layers(str(top), layers)
        current = top
        for name in directory.relative_to(top).parts:
            current /= name
            step = f"{_byte_per_character(name)}/"
            layers = self.layers(str(current), [(prefix + step, f) for prefix, f in layers])
        return DirectoryRules(self, str(directory), layers, gemini, self.tracked_by(str(top)))

    def _repository_layers(self, top: Path) -> list[tuple[str, IgnoreFile]]:
        git_dir = git_directory(top, self.warnings)
        found: list[tuple[str, IgnoreFile]] = []
        if git_dir and (exclude := self._read(git_dir / "info" / "exclude", follow=True)):
            found.append(("", exclude))
        chosen = excludes_file(git_dir, self.warnings, self._environ)
        if chosen and (everywhere := self._read(top / chosen, follow=True)):
            found.append(("", everywhere))
        return found

    def _read(self, file: Path, *, follow: bool) -> IgnoreFile | None:
        # Like git, do not follow a symlink to a .gitignore inside the work tree.
        try:
            if not follow and file.is_symlink():
                return None
        except OSError as error:
            self.warnings.append(str(from_os_error(error, file)))
            return None
        text = read_small_text(file, self.warnings)
        return (IgnoreFile(text) or None) if text else None
