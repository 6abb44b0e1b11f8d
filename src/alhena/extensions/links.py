"""The links of a package that is installed: each becomes a copy of what it leads to. One that
leads out of the package, nowhere, or in a circle is left out, and never followed.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from alhena.display_text import first_of
from alhena.extensions.archives import MAX_BYTES, MAX_ENTRIES, ArchiveError
from alhena.system.errors import printable

MANY_FILES = 20_000
_MOST_NAMED = 5


class PackageSize:
    """The files and bytes of a package so far."""

    def __init__(self) -> None:
        self.entries = 0
        self._bytes = 0

    def add(self, size: int) -> None:
        """Counts a file or folder. Raises ArchiveError beyond the limits."""
        self.entries += 1
        self._bytes += size
        if self._bytes > MAX_BYTES or self.entries > MAX_ENTRIES:
            raise ArchiveError(f"it has more than {MAX_BYTES:,} bytes or {MAX_ENTRIES:,} files")


def measure_package(folder: Path) -> PackageSize:
    """The size of a folder without its links and `.git`. Raises ArchiveError when it is too large,
    or has what is neither a file, a folder nor a link."""
    size = PackageSize()
    for path in _entries(str(folder)):
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode):
            size.add(status.st_size)
        elif stat.S_ISDIR(status.st_mode):
            size.add(0)
        elif not stat.S_ISLNK(status.st_mode):
            raise ArchiveError(f"{os.path.relpath(path, folder)} is no file")
    return size


def resolve_links(folder: Path, origin: Path, size: PackageSize) -> list[str]:
    """Replaces the links in a folder, which was copied from `origin`. Returns a sentence for each
    kind of links that are left out. Raises ArchiveError when their content is too much."""
    return _LinkResolver(folder, origin, size).resolve()


def describe_links(folder: Path) -> list[str]:
    """The sentences of `resolve_links` for a folder that is used where it is."""
    return _LinkResolver(folder, folder, PackageSize()).describe()


class _LinkResolver:
    """The links of one folder, and the reasons why some of them are left out."""

    def __init__(self, folder: Path, origin: Path, size: PackageSize) -> None:
        self._root = os.path.realpath(folder)
        self._origins = {str(origin), os.path.realpath(origin)}
        self._size = size
        self._left_out: dict[str, list[str]] = {}
        self._targets: dict[str, str] = {}

    def describe(self) -> list[str]:
        """Finds the targets of all links; returns the sentences."""
        for link in self._links():
            self._find_target(link)
        return self._sentences()

    def resolve(self) -> list[str]:
        """Replaces all links; returns the sentences."""
        links = self._links()
        for link in links:
            self._move_origin(link)
        for link in links:
            self._find_target(link)
        for link in links:
            if link not in self._targets:
                os.unlink(link)
        for link, target in self._targets.items():
            os.unlink(link)
            if os.path.basename(os.path.dirname(link)) == ".bin":
                # A program finds its modules beside its real file.
                os.symlink(os.path.relpath(target, os.path.dirname(link)), link)
            else:
                self._copy(target, link, ())
        return self._sentences()

    def _links(self) -> list[str]:
        return [path for path in _entries(self._root) if os.path.islink(path)]

    def _sentences(self) -> list[str]:
        return [
            f"{first_of(sorted(names), _MOST_NAMED)}: left out, {reason}."
            for reason, names in sorted(self._left_out.items())
        ]

    def _move_origin(self, link: str) -> None:
        """Makes an absolute link into the original folder one into the copy."""
        text = os.readlink(link)
        for origin in self._origins:
            if text.startswith(f"{origin}/"):
                os.unlink(link)
                os.symlink(f"{self._root}{text[len(origin) :]}", link)
                return

    def _find_target(self, link: str) -> None:
        """Notes the real path within the folder that a link leads to, or why it is left out."""
        real = os.path.realpath(link)
        if link.startswith(f"{real}/"):
            self._leave_out(link, "a link to a folder around it")
        elif not real.startswith(f"{self._root}/"):
            self._leave_out(link, "a link out of the package")
        elif ".git" in real[len(self._root) :].split("/"):
            self._leave_out(link, "a link into .git")
        elif not os.path.exists(real):
            self._leave_out(link, "a link to what is not there")
        else:
            self._targets[link] = real

    def _copy(self, source: str, target: str, above: tuple[str, ...]) -> None:
        """Copies a file, or a folder with what its links lead to; `above` are the folders that are
        being copied."""
        if not os.path.isdir(source):
            self._size.add(os.stat(source).st_size)
            shutil.copy2(source, target)
            return
        if source in above or target.startswith(f"{source}/"):
            self._leave_out(target, "a link to a folder around it")
            return
        self._size.add(0)
        os.mkdir(target)
        with os.scandir(source) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                inner = self._targets.get(entry.path, "") if entry.is_symlink() else entry.path
                if inner and entry.name != ".git":
                    self._copy(inner, os.path.join(target, entry.name), (*above, source))

    def _leave_out(self, path: str, reason: str) -> None:
        name = printable(os.path.relpath(path, self._root))
        self._left_out.setdefault(reason, []).append(name)


def _entries(folder: str) -> Iterator[str]:
    """The paths of all that is in a folder, links included and not followed, but `.git`."""
    for top, folders, files in os.walk(folder):
        if ".git" in folders:
            folders.remove(".git")
        yield from (os.path.join(top, name) for name in (*folders, *files))
