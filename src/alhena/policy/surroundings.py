"""Facts that a decision may ask about the place a command runs in.

Deciding is a function of values; these few facts about directories stand at its edge.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from alhena.config.documents import read_limited
from alhena.values import Value

MAX_REPOSITORIES = 64
MAX_INDEX = 64 << 20
_GITLINK = b"\0\0\xe0\0"
"""The mode of a submodule in an index."""
_MODE_AT = 24
_NAMES_AT = (62, 64, 74, 76)
"""Offsets at which the path of an index entry can begin: behind a hash of 20 or 32 bytes and its
flags."""
_SECTION = r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\n]|\\.)*)")?\]'
_KEY = r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=(.*))?"
_REMOTES = ("url", "remote", "pushdefault")
_CREDENTIALS = rb"(?:ssh://[^/\s:@]*:|(?<!ssh:)//(?!git@))[^/\s]*@|[?&][^\s=/]+="
"""An address with a name or a password before its host, or with parameters."""
_INCLUDED = rb"(?im)^[^\n#;]*?path[ \t]*=[ \t]*(.+)$"
MAX_CONFIGURATIONS = 256
_OFF = frozenset({"", "0", "false", "no", "off"})


class GitUse(Value, frozen=True):
    """The part of a call of git that decides what a repository may make it run: the subcommand
    (None: not known) and the names of the hooks that it may run (None: any)."""

    subcommand: str | None = None
    hooks: frozenset[str] | None = None


def repositories(directory: str) -> Iterator[tuple[str, str]]:
    """The repositories that git may use in `directory`, the nearest first: the top of each, and
    the `.git` there, which for a bare one is the top itself. All but the last have parts missing,
    so that git may pass them by."""
    here = os.path.realpath(directory)
    while True:
        dot_git = os.path.join(here, ".git")
        for found, there in ((dot_git, os.path.lexists(dot_git)), (here, _is_bare(here))):
            if there:
                yield here, found
                if _is_surely_one(found):
                    return
        above = os.path.dirname(here)
        if above == here:
            return
        here = above


def named_program(directory: str, use: GitUse) -> str | None:
    """A program that a repository makes git run in `directory`, by where it is named, such as
    "core.fsmonitor in /srv/x/.git/config"; None when there is none."""
    return _RepositorySearch(use).of(directory)


class _RepositorySearch:
    def __init__(self, use: GitUse) -> None:
        self.use = use
        self.seen: set[str] = set()

    def of(self, directory: str) -> str | None:
        try:
            for top, dot_git in repositories(directory):
                found = self._in(top, dot_git)
                if found is not None:
                    return found
        except OSError as error:
            return f"{error.filename or directory}, which cannot be read: {error.strerror or error}"
        except ValueError as error:
            return f"{directory}: {error}"
        return None

    def _in(self, top: str, dot_git: str) -> str | None:
        git_dir, common = _directories(dot_git)
        if git_dir in self.seen:
            return None
        self.seen.add(git_dir)
        if len(self.seen) > MAX_REPOSITORIES:
            return "one of very many repositories within it"
        places = dict.fromkeys((common, git_dir))
        for place in places:
            for name in ("config", "config.worktree"):
                found = self._find_setting(os.path.join(place, name), git_dir, top)
                if found is not None:
                    return found
        for place in places:
            for name in _entries(os.path.join(place, "hooks")):
                if not name.endswith(".sample") and self._may_run(name):
                    return f"the hook {os.path.join(place, 'hooks', name)}"
        for path in () if dot_git == top else _submodules(git_dir):
            inner = os.path.join(top, path)
            if os.path.lexists(os.path.join(inner, ".git")):
                found = self.of(inner)
                if found is not None:
                    return found
        return None

    def _may_run(self, hook: str) -> bool:
        return self.use.hooks is None or hook in self.use.hooks

    def _find_setting(self, path: str, git_dir: str, top: str) -> str | None:
        try:
            text = read_limited(path).decode("latin-1")
        except FileNotFoundError:
            return None
        for key, value in _settings(text):
            if key == "core.worktree":
                named = os.path.realpath(os.path.join(git_dir, value)) != os.path.realpath(top)
            else:
                named = self._names(key, value)
            if named:
                return f"{key} in {path}"
        return None

    def _names(self, key: str, value: str) -> bool:
        """Does a setting name a program, or further configuration?"""
        from alhena.system.own_programs import may_name_program

        section, _, name = key.partition(".")
        last = name.rpartition(".")[2]
        if key == "core.fsmonitor":
            return value.lower() not in _OFF
        if section == "alias":
            alias = name.removesuffix(".command")
            used = self.use.subcommand is None or self.use.subcommand.lower() == alias
            return used or value.startswith("!")
        return (
            may_name_program(key)
            or value.startswith("!")
            or (last.endswith(_REMOTES) and "::" in value)
        )


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """The settings of a configuration file as (section.subsection.key, value), the section and the
    key in lower case. Raises ValueError for all but the plain form that git writes."""
    if "\0" in text or "\\\n" in text or "\\\r\n" in text:
        raise ValueError("its configuration is not plain")
    section = ""
    for line in text.removeprefix("\xef\xbb\xbf").split("\n"):
        rest = line.strip()
        while rest.startswith("["):
            header = re.match(_SECTION, rest)
            if header is None:
                raise ValueError(f"its configuration has the line {line!r}")
            section = header[1].lower() + ("" if header[2] is None else f".{header[2]}")
            rest = rest[header.end() :].strip()
        if not rest or rest[0] in "#;":
            continue
        setting = re.fullmatch(_KEY, rest)
        if setting is None or not section:
            raise ValueError(f"its configuration has the line {line!r}")
        yield f"{section}.{setting[1].lower()}", _value(setting[2])


def _value(written: str | None) -> str:
    if written is None:
        return "true"
    bare = re.sub(r'"((?:[^"\\]|\\.)*)"|[#;].*', lambda found: found[1] or "", written)
    return bare.strip()


def _is_bare(directory: str) -> bool:
    """Would git take the directory itself for a repository? What it shares with others can stand
    where its `commondir` says, and its HEAD may be a link that leads nowhere."""
    if not os.path.lexists(os.path.join(directory, "HEAD")):
        return False
    return os.path.lexists(os.path.join(directory, "commondir")) or (
        os.path.isdir(os.path.join(directory, "objects"))
        and os.path.isdir(os.path.join(directory, "refs"))
    )


def _is_surely_one(dot_git: str) -> bool:
    """Has the repository all that git asks for before it uses it?"""
    try:
        git_dir, common = _directories(dot_git)
        head = read_limited(os.path.join(git_dir, "HEAD"), 4096)
    except (OSError, ValueError):
        return False
    parts = all(os.access(os.path.join(common, name), os.X_OK) for name in ("objects", "refs"))
    return parts and re.match(rb"ref: refs/|[0-9a-f]{40}", head) is not None


def _directories(dot_git: str) -> tuple[str, str]:
    """The git directory behind a `.git`, and the one it shares with other work trees. Raises
    OSError, or ValueError for a file that names none."""
    git_dir = dot_git
    if not os.path.isdir(dot_git):
        pointer = os.fsdecode(read_limited(dot_git, 8192)).rstrip("\r\n")
        if not pointer.startswith("gitdir: "):
            raise ValueError(f"{dot_git} names no git directory")
        git_dir = os.path.join(os.path.dirname(dot_git), pointer.removeprefix("gitdir: "))
    git_dir = os.path.realpath(git_dir)
    try:
        shared = os.fsdecode(read_limited(os.path.join(git_dir, "commondir"), 8192))
    except FileNotFoundError:
        return git_dir, git_dir
    return git_dir, os.path.realpath(os.path.join(git_dir, shared.rstrip("\r\n")))


def _entries(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []


def _submodules(git_dir: str) -> list[str]:
    """The paths of the submodules in the index. Raises ValueError when there may be others."""
    found: list[str] = []
    for name in _entries(git_dir):
        if name != "index" and not name.startswith("sharedindex."):
            continue
        data = read_limited(os.path.join(git_dir, name), MAX_INDEX)
        at = data.find(_GITLINK)
        while at >= 0:
            paths = list(_paths(data, at - _MODE_AT))
            if not paths:
                raise ValueError("its index may hold submodules and is not plain")
            found += paths
            at = data.find(_GITLINK, at + 1)
    return found


def _paths(index: bytes, start: int) -> Iterator[str]:
    """The path of the index entry at `start`, for each form in which one can be read there. Its
    length is before it, or before two bytes more."""
    for offset in _NAMES_AT:
        begin = start + offset
        end = index.find(b"\0", begin)
        for flags in (begin - 2, begin - 4):
            length = int.from_bytes(index[flags : flags + 2], "big") & 0xFFF
            if end > begin and length == min(end - begin, 0xFFF):
                yield os.fsdecode(index[begin:end])
                break


def _parse_index(index: bytes) -> list[str]:
    """The paths in an index of the common form. Raises ValueError for another."""
    version, count = int.from_bytes(index[4:8], "big"), int.from_bytes(index[8:12], "big")
    if index[:4] != b"DIRC" or version not in {2, 3}:
        raise ValueError("its index is not plain")
    found: list[str] = []
    at = 12
    for _ in range(count):
        flags = int.from_bytes(index[at + 60 : at + 62], "big")
        begin = at + (64 if flags & 0x4000 else 62)
        end = index.find(b"\0", begin)
        if end < begin or (flags & 0xFFF) not in {end - begin, 0xFFF}:
            raise ValueError("its index is not plain")
        found.append(os.fsdecode(index[begin:end]))
        at += (end - at + 8) & ~7
    return found


def address_credentials(directory: str) -> str | None:
    """The file of git's configuration, or variable, with credentials in an address that git may use
    in `directory`; None when there is none. A file that cannot be read counts as one."""
    for name, value in os.environ.items():
        if name.startswith("GIT_CONFIG_") and re.search(_CREDENTIALS, os.fsencode(value)):
            return name
    waiting = list(_configuration(directory))
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if len(seen) > MAX_CONFIGURATIONS:
            return f"one of very many files, such as {path}"
        try:
            text = read_limited(path).replace(b"\\\n", b"").replace(b"\\\r\n", b"")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError):
            return path
        if re.search(_CREDENTIALS, text):
            return path
        if b"[include" in text.lower():
            for found in re.findall(_INCLUDED, text):
                named = os.path.expanduser(os.fsdecode(found.strip(b' \t\r"')))
                waiting.append(os.path.join(os.path.dirname(path), named))
    return None


def _configuration(directory: str) -> Iterator[str]:
    """The files in which git may find addresses for `directory`."""
    environ = os.environ
    for place in ("/etc", "/usr/local/etc", "/opt/homebrew/etc"):
        yield environ.get("GIT_CONFIG_SYSTEM", f"{place}/gitconfig")
    own = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    yield from (f"{own}/git/config", os.path.expanduser("~/.gitconfig"))
    yield from filter(None, [environ.get("GIT_CONFIG_GLOBAL")])
    for _, dot_git in repositories(directory):
        try:
            places = dict.fromkeys(_directories(dot_git))
        except (OSError, ValueError):
            yield dot_git
            continue
        for place in places:
            yield from (os.path.join(place, name) for name in ("config", "config.worktree"))
            for name in ("remotes", "branches"):
                inner = os.path.join(place, name)
                yield from (os.path.join(inner, each) for each in _entries(inner))


class Surroundings:
    """Facts about directories, as the file system is now. `cwd` is where commands run unless they
    say otherwise, `roots` are the directories of the workspace: absolute paths, symbolic links
    resolved. `trusted`: the user vouches for the folder."""

    def __init__(self, cwd: Path, roots: Sequence[Path] = (), *, trusted: bool = False) -> None:
        self.cwd = os.path.realpath(cwd)
        self.roots = tuple(os.path.realpath(root) for root in (cwd, *roots))
        self.trusted = trusted

    def contains(self, path: str) -> bool:
        """Is the real place of `path` inside the workspace?"""
        return self.root_of(self.real(path)) is not None

    def root_of(self, real: str) -> str | None:
        """The directory of the workspace that a real path is in."""
        for root in self.roots:
            if real == root or real.startswith(root.rstrip(os.sep) + os.sep):
                return root
        return None

    def real(self, path: str) -> str:
        """`path` with symbolic links resolved, as far as it exists."""
        try:
            return os.path.realpath(path)
        except ValueError:  # a NUL: no such file can be
            return path

    def is_directory(self, path: str) -> bool:
        """Is there a directory at `path`?"""
        return os.path.isdir(path)

    def repository(self, directory: str) -> str | None:
        """The git directory that git would use in `directory`: a `.git` here or above, or a
        directory that is a bare repository itself."""
        return next((found for _, found in repositories(directory)), None)

    def tracked_files(self, directory: str) -> list[str] | None:
        """The files that git tracks in the repository of `directory`; None where that is not
        known."""
        top, dot_git = next(iter(repositories(directory)), ("", ""))
        if not top or top == dot_git:
            return None
        try:
            git_dir, _ = _directories(dot_git)
            if any(name.startswith("sharedindex.") for name in _entries(git_dir)):
                return None
            names = _parse_index(read_limited(os.path.join(git_dir, "index"), MAX_INDEX))
        except FileNotFoundError:
            return []
        except (OSError, ValueError):
            return None
        return [os.path.join(top, name) for name in names]

    def address_credentials(self, directory: str) -> str | None:
        """The file with credentials in an address that git may use in `directory`."""
        return address_credentials(directory)

    def named_program(self, directory: str, use: "GitUse") -> str | None:
        """A program that a repository makes git run in `directory`, by where it is named."""
        return named_program(directory, use)
