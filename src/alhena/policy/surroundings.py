"""What a decision may ask about the place a command runs in.

Deciding is a function of values; these few facts about directories stand at its edge.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

MAX_CONFIG_BYTES = 1 << 20
_RUNS = frozenset(
    {"core.fsmonitor", "core.hookspath", "core.sshcommand", "core.pager", "core.editor",
     "core.askpass", "core.gitproxy", "core.alternaterefscommand", "sequence.editor",
     "diff.external", "gpg.program", "uploadpack.packobjectshook", "credential.helper",
     "interactive.difffilter", "include.path", "web.browser"}
)  # fmt: skip
_RUNS_ENDINGS = (".textconv", ".command", ".clean", ".smudge", ".process", ".driver", ".cmd",
                 ".program", ".helper", ".path", ".vcs", ".receivepack", ".uploadpack")  # fmt: skip


class Surroundings(Protocol):
    """Facts about directories. Paths are absolute."""

    @property
    def cwd(self) -> str:
        """Where commands run unless they say otherwise."""
        ...

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories of the workspace, symbolic links resolved."""
        ...

    @property
    def trusted(self) -> bool:
        """Did the user vouch for the folder?"""
        ...

    def contains(self, path: str) -> bool:
        """Is the real place of `path` inside the workspace?"""
        ...

    def real(self, path: str) -> str:
        """`path` with symbolic links resolved, as far as it exists."""
        ...

    def is_directory(self, path: str) -> bool:
        """Is there a directory at `path`?"""
        ...

    def repository(self, directory: str) -> str | None:
        """The git directory that git would use in `directory`."""
        ...

    def repository_runs(self, git_directory: str) -> str | None:
        """The setting by which a repository that nobody vouched for makes git run a program."""
        ...


class DirectorySurroundings:
    """The facts of the file system as it is now. In a trusted folder a repository's settings are
    the user's own."""

    def __init__(self, cwd: Path, roots: Sequence[Path] = (), *, trusted: bool = False) -> None:
        self._cwd = os.path.realpath(cwd)
        self._roots = tuple(os.path.realpath(root) for root in (cwd, *roots))
        self._trusted = trusted

    @property
    def cwd(self) -> str:
        """Where commands run unless they say otherwise."""
        return self._cwd

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories of the workspace, symbolic links resolved."""
        return self._roots

    @property
    def trusted(self) -> bool:
        """Did the user vouch for the folder?"""
        return self._trusted

    def contains(self, path: str) -> bool:
        """Is the real place of `path` inside the workspace?"""
        real = self.real(path)
        return any(
            real == root or real.startswith(root.rstrip(os.sep) + os.sep) for root in self._roots
        )

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
        here = os.path.realpath(directory)
        while True:
            dot_git = os.path.join(here, ".git")
            if os.path.lexists(dot_git):
                return dot_git
            if _is_bare(here):
                return here
            above = os.path.dirname(here)
            if above == here:
                return None
            here = above

    def repository_runs(self, git_directory: str) -> str | None:
        """The setting by which a repository that nobody vouched for makes git run a program."""
        if self._trusted:
            return None
        if not os.path.isdir(git_directory):
            return "its .git names another directory" if not _own_worktree(git_directory) else None
        for name in ("config", "config.worktree"):
            try:
                with open(os.path.join(git_directory, name), "rb") as file:
                    text = file.read(MAX_CONFIG_BYTES + 1)
            except FileNotFoundError:
                continue
            except OSError:
                return f"its {name} cannot be read"
            found = _running_key(text)
            if found is not None:
                return found
        return None


def _is_bare(directory: str) -> bool:
    return (
        os.path.isfile(os.path.join(directory, "HEAD"))
        and os.path.isdir(os.path.join(directory, "objects"))
        and os.path.isdir(os.path.join(directory, "refs"))
    )


def _own_worktree(file: str) -> bool:
    """Does a `.git` file lead to a git directory that names this very place as its worktree?
    Those are made by git; one that comes with an archive cannot point back from outside."""
    try:
        with open(file, "rb") as pointer:
            line = pointer.read(4096).decode("utf-8", "replace").strip()
        if not line.startswith("gitdir: "):
            return False
        target = os.path.join(os.path.dirname(file), line.removeprefix("gitdir: "))
        with open(os.path.join(target, "gitdir"), "rb") as back:
            named = back.read(4096).decode("utf-8", "replace").strip()
    except OSError:
        return False
    return os.path.realpath(named) == os.path.realpath(file)


def _running_key(config: bytes) -> str | None:
    """The first key of a git configuration that can make git run a program."""
    if len(config) > MAX_CONFIG_BYTES:
        return "a configuration over 1 MiB"
    section = ""
    for raw in config.decode("utf-8", "replace").splitlines():
        line = raw.strip()
        if line.startswith("["):
            head, _, line = line[1:].partition("]")
            name, _, subsection = head.partition(" ")
            quoted = subsection.strip(' "')
            section = f"{name}.{quoted}".rstrip(".").lower()
            line = line.strip()
        key = line.partition("=")[0].strip().lower()
        if not key or key[0] in "#;":
            continue
        full = f"{section}.{key}"
        plain = f"{section.partition('.')[0]}.{key}"
        if section.partition(".")[0] in {"alias", "include", "includeif"}:
            return full
        if full in _RUNS or plain in _RUNS or key.startswith("fsmonitor"):
            return full
        if full.endswith(_RUNS_ENDINGS) and section.count("."):
            return full
    return None
