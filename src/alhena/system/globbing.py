"""Files by pattern: the patterns compiled, the walk that enters only where they can match."""

import os
import re
from pathlib import Path

import msgspec

from alhena.system.ignore import IgnoreRules
from alhena.system.walk import WalkLimits, WalkTally, walk
from alhena.system.wildcard import expand_braces, leading_regexes, path_regex

_BRACKETS = re.compile(r"\\.|[\[\]]", re.DOTALL)
_WILDCARDS = re.compile(r"([*?\[\]{}\\])")


class GlobMatch(msgspec.Struct, frozen=True):
    """A file found, with the time it was last changed in seconds since the epoch."""

    path: str
    modified: float


class GlobPattern:
    """A pattern for paths relative to a directory. Raises wildcard.BadPatternError."""

    def __init__(self, pattern: str, *, case_sensitive: bool = False) -> None:
        flags = re.DOTALL if case_sensitive else re.DOTALL | re.IGNORECASE
        options = options_of(pattern)
        self._path = re.compile("|".join(f"(?:{path_regex(o)})" for o in options), flags)
        self._leading = [_Leading(option, flags) for option in options]

    def matches(self, relative: str) -> bool:
        """Whether a file's relative path matches."""
        return self._path.fullmatch(relative) is not None

    def may_enter(self, relative: str) -> bool:
        """Whether something below this directory can match."""
        return any(leading.allows(relative) for leading in self._leading)


class _Leading:
    def __init__(self, option: str, flags: int) -> None:
        levels, self._deeper = leading_regexes(option)
        self._levels = [
            re.compile("/".join(levels[: depth + 1]), flags) for depth in range(len(levels))
        ]

    def allows(self, relative: str) -> bool:
        depth = relative.count("/")
        if depth < len(self._levels):
            return self._levels[depth].fullmatch(relative) is not None
        if not self._deeper:
            return False
        if not self._levels:
            return True
        start = "/".join(relative.split("/")[: len(self._levels)])
        return self._levels[-1].fullmatch(start) is not None


def literal(path: str) -> str:
    """The pattern that matches this very path."""
    return _WILDCARDS.sub(r"\\\1", path)


def options_of(pattern: str) -> list[str]:
    """The patterns without braces that a pattern stands for, and those with its brackets taken
    literally: directories of web routes have such names. Raises BadPatternError."""
    options = expand_braces(pattern)
    return options + [_BRACKETS.sub(_quoted, option) for option in options if "[" in option]


def _quoted(found: re.Match[str]) -> str:
    text = found.group()
    return text if text.startswith("\\") else f"\\{text}"


def glob_files(
    base: Path, pattern: GlobPattern, rules: IgnoreRules, tally: WalkTally, limits: WalkLimits
) -> list[GlobMatch]:
    """The regular files below `base` whose path relative to it matches.

    In the tally, only ignored files that match are kept.
    """
    start = len(f"{str(base).rstrip('/')}/")
    limits.enter = pattern.may_enter
    found: list[GlobMatch] = []
    for entry in walk(base, rules, tally, limits):
        if pattern.matches(entry.path[start:]):
            modified = _modified(entry)
            if modified is not None:
                found.append(GlobMatch(entry.path, modified))
    tally.ignored_files = [path for path in tally.ignored_files if pattern.matches(path[start:])]
    return found


def _modified(entry: os.DirEntry[str]) -> float | None:
    try:
        return entry.stat().st_mtime
    except OSError:  # deleted since it was listed
        return None
