"""Facts that a decision may ask about the place a command runs in.

Deciding is a function of values; these few facts about directories stand at its edge.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from alhena.policy.repository import GitUse


class Surroundings(Protocol):
    """Facts about directories. Paths are absolute."""

    @property
    def cwd(self) -> str:
        """The directory commands run in unless they say otherwise."""
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

    def named_program(self, directory: str, use: "GitUse") -> str | None:
        """A program that a repository makes git run in `directory`, by where it is named."""
        ...


class DirectorySurroundings:
    """The facts of the file system as it is now."""

    def __init__(self, cwd: Path, roots: Sequence[Path] = (), *, trusted: bool = False) -> None:
        self._cwd = os.path.realpath(cwd)
        self._roots = tuple(os.path.realpath(root) for root in (cwd, *roots))
        self._trusted = trusted

    @property
    def cwd(self) -> str:
        """The directory commands run in unless they say otherwise."""
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
        from alhena.policy.repository import repositories

        return next((found for _, found in repositories(directory)), None)

    def named_program(self, directory: str, use: "GitUse") -> str | None:
        """A program that a repository makes git run in `directory`, by where it is named."""
        from alhena.policy.repository import named_program

        return named_program(directory, use)
