"""Directories that a command reads with all that is below: secrets in them, links out of them."""

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from alhena.policy.surroundings import Surroundings
from alhena.shell.secret_files import is_secret_name, may_match_secret
from alhena.values import Value

if TYPE_CHECKING:
    from alhena.system.ignore import DirectoryRules, IgnoreRules

_CREDENTIALS = re.compile(r"https?://[^/\s]+@|extraheader|password|token|secret", re.IGNORECASE)
_IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")
DIVIDING = frozenset(" \t\n*?[\\")
"""Characters that keep the name of a file from being one word of bash."""
MOST_ENTRIES = 100_000
_MOST_READ = 1024 * 1024
_PLAIN_SETTING = re.compile(
    r"\s*|[;#][^=:]*|(?!.*(?:auth|cert|key|pass|secret|token|user))[a-z-]+ *= *[\w./:^~-]{0,60}"
)


class TreeExtent(Value, frozen=True, kw_only=True):
    """The part of a directory that a program reads. `content`: of files, else only names. `hidden`:
    names with a dot, too, and what ignore files exclude. `follows`: through symbolic links. A file
    is not read when its name matches none of `only` (if there are any) or one of `without`.
    `words`: the names become words, which these characters divide or change; those with `dashes`
    are no options."""

    content: bool = True
    hidden: bool = True
    follows: bool = False
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()
    dashes: bool = False

    def takes(self, name: str) -> bool:
        """May a file of this name be read?"""
        if self.only and not any(fnmatchcase(name.lower(), each.lower()) for each in self.only):
            return False
        return not any(fnmatchcase(name, each) for each in self.without)

    def refuse(
        self, path: str, facts: Surroundings, relative: str, *, private: bool = False
    ) -> str | None:
        """The reason why a file, named by a path relative to where it is read, may not be."""
        name = path.rpartition("/")[2]
        link = os.path.islink(path)
        if not self.takes(name) or (link and not self.follows):
            return None
        if self.words and (set(relative) & self.words or (name[:1] == "-" and not self.dashes)):
            return f"{relative} is no plain word"
        real = facts.real(path) if link else path
        if link and os.path.lexists(real) and not facts.contains(real):
            return f"{relative} leads out of the workspace"
        above = [*relative.split("/")[:-1], *(_inside(real, facts) if link else ())]
        private = private or any(map(may_match_secret, above)) or holds_credentials(real)
        private = private or (may_match_secret(name) and not _is_public(real))
        return f"{relative} may hold secrets" if self.content and private else None


def _inside(real: str, facts: Surroundings) -> list[str]:
    """The names on the way from the top of the workspace to a path."""
    return real[len(facts.root_of(real) or real) :].split("/")


def tree_refusal(tops: Iterable[str], reach: TreeExtent, facts: Surroundings) -> str | None:
    """The reason why directories may not be read with all that is below, as one clause."""
    return _TreeWalk(reach, facts).refusal(tops)


class _TreeWalk:
    def __init__(self, reach: TreeExtent, facts: Surroundings) -> None:
        self.reach = reach
        self.facts = facts
        self.seen: set[str] = set()
        self.rules: dict[str, IgnoreRules] = {}
        self.count = 0

    def refusal(self, tops: Iterable[str]) -> str | None:
        tops = [self.facts.real(each) for each in tops]
        if not self.reach.hidden and any(map(self._shows_all, tops)):
            self.reach = msgspec.structs.replace(self.reach, hidden=True)
        # Breadth first: a secret is more often near the top.
        waiting = [(each, self._is_private(each)) for each in tops]
        for path, private in waiting:
            if path in self.seen:
                continue
            self.seen.add(path)
            try:
                for entry in self._entries(path):
                    found = self._refuse(entry, private, waiting)
                    if found is not None:
                        return found
            except OSError:  # what cannot be listed cannot be read
                continue
            if self.count > MOST_ENTRIES:
                return "there are too many files to look for secrets among them"
        return None

    def _entries(self, path: str) -> Iterator[os.DirEntry[str]]:
        with os.scandir(path) as listing:
            entries = list(listing)
        self.count += len(entries)
        if self.reach.hidden:
            yield from entries
            return
        if any(each.name in _IGNORE_FILES and _shows_hidden(each.path) for each in entries):
            self.reach = msgspec.structs.replace(self.reach, hidden=True)
            yield from entries
            return
        ignores = self._rules(path).ignores
        for entry in entries:
            shown = entry.name[:1] != "." or (self.reach.only and self.reach.takes(entry.name))
            if shown and (self.reach.only or not ignores(entry.name, entry.is_dir())):
                yield entry

    def _shows_all(self, top: str) -> bool:
        """Is a directory hidden or ignored itself, which matters no more once it is named, or does
        an ignore file above it show what is hidden?"""
        hidden = any(name[:1] == "." for name in _inside(top, self.facts))
        return hidden or self._rules(top).ignored or _shown_by_above(top)

    def _rules(self, path: str) -> "DirectoryRules":
        from alhena.system.ignore import IgnoreRules

        root = self.facts.root_of(path) or path
        if root not in self.rules:
            self.rules[root] = IgnoreRules(root, gemini=False, tracked=False)
        return self.rules[root].rules_of(Path(path))

    def _is_private(self, path: str) -> bool:
        return any(map(may_match_secret, _inside(path, self.facts)))

    def _refuse(
        self, entry: os.DirEntry[str], private: bool, waiting: list[tuple[str, bool]]
    ) -> str | None:
        link = entry.is_symlink()
        if link and not self.reach.follows:
            return None
        special = link or private or self.reach.words or entry.name.startswith("config")
        if not special and not entry.is_dir() and not is_secret_name(entry.name):
            return None  # as most files are
        relative = "/".join(_inside(entry.path, self.facts)).lstrip("/")
        if not entry.is_dir() or self.reach.words:
            found = self.reach.refuse(entry.path, self.facts, relative, private=private)
            if found is not None or link or not entry.is_dir():
                return found
        if entry.name in self.reach.without:
            return None
        path = self.facts.real(entry.path) if link else entry.path
        if link and not self.facts.contains(path):
            return f"{relative} leads out of the workspace"
        secret = self._is_private(path) if link else is_secret_name(entry.name)
        waiting.append((path, private or secret))
        return None


def holds_credentials(path: str) -> bool:
    """Is this the configuration of a repository, with what looks like credentials in it?"""
    if not path.endswith(("/config", "/config.worktree")) or "/.git/" not in path:
        return False
    text = _text(path)
    return text is None or _CREDENTIALS.search(text) is not None


def _is_public(path: str) -> bool:
    """Has a file, by whose name it may hold secrets, surely none, such as the certificates and the
    settings of npm that packages bring along?"""
    if path.endswith(".pem"):
        text = _text(path) or ""
        return "PRIVATE" not in text and "-----BEGIN CERTIFICATE-----" in text
    if path.endswith("/.npmrc"):
        text = _text(path)
        return text is not None and all(map(_PLAIN_SETTING.fullmatch, text.splitlines()))
    return False


def _text(path: str) -> str | None:
    """The text of a file that is not very large; None for one that cannot be read."""
    try:
        with open(path, encoding="latin-1") as file:
            text = file.read(_MOST_READ + 1)
    except OSError:
        return None
    return text if len(text) <= _MOST_READ else None


def _shown_by_above(path: str) -> bool:
    above = (str(each) for each in Path(path).parents)
    return any(_shows_hidden(os.path.join(each, name)) for each in above for name in _IGNORE_FILES)


def _shows_hidden(path: str) -> bool:
    """Does an ignore file take hidden files that may hold secrets out of those ignored?"""
    if not os.path.isfile(path):
        return False
    text = _text(path)
    if text is None:
        return True
    shown = [line[1:].strip() for line in text.splitlines() if line[:1] == "!"]
    if not path.endswith("/.gitignore"):
        return bool(shown)
    names = (line.rstrip("/").rpartition("/")[2] for line in shown)
    return any(name and (not name.strip("*") or may_match_secret(name)) for name in names)
