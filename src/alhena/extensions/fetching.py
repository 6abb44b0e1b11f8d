"""Copies a folder to install from a directory, an archive or a git repository.

Nothing in it is run, and nothing that leads out of it is taken.
"""

import os
import shutil
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from alhena.errors import InputError
from alhena.system.environment import shield_memory
from alhena.system.errors import printable

MAX_BYTES = 200_000_000
MAX_ENTRIES = 20_000
GIT_TIMEOUT_S = 300.0
_ARCHIVES = (".zip", ".tar.gz", ".tgz")
_SAFE = ("core.hooksPath=/dev/null", "core.symlinks=true", "protocol.allow=never")
_PROTOCOLS = ("http", "https", "file")


def fetch(source: str, target: Path, environ: Mapping[str, str], ref: str | None = None) -> None:
    """Copies what `source` names into the directory `target`, which must not exist: a folder, an
    archive, or a git URL (http, https, file) at `ref`, whose `.git` stays. Raises InputError; the
    target may then hold a part of it."""
    path = Path(os.path.expanduser(source))
    try:
        if source.partition("://")[0] in _PROTOCOLS:
            _clone(source, target, environ, ref)
        elif ref is not None:
            raise _refused(source, "--ref is for git URLs")
        elif path.is_dir():
            _copy(path, target)
        elif path.is_file() and path.name.endswith(_ARCHIVES):
            target.mkdir()
            _unpack(path, target)
        else:
            raise _refused(source, "it is no folder, .zip, .tar.gz, or http(s) or file git URL")
    except (OSError, tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise _refused(source, str(error)) from error


def _clone(url: str, target: Path, environ: Mapping[str, str], ref: str | None) -> None:
    if ref is not None and ref.startswith("-"):
        raise _refused(url, "a ref cannot begin with a dash")
    options = [*_SAFE, *(f"protocol.{name}.allow=always" for name in _PROTOCOLS)]
    argv = ["git", *(word for each in options for word in ("-c", each)), "clone", "--quiet"]
    argv += ["--depth", "1", "--template=", "--no-recurse-submodules"]
    argv += [] if ref is None else ["--branch", ref]
    shield_memory()
    try:
        done = subprocess.run(
            [*argv, "--", url, str(target)],
            env={**environ, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _refused(url, f"git took longer than {GIT_TIMEOUT_S:.0f} s") from error
    if done.returncode:
        raise _refused(url, done.stderr.decode("utf-8", "replace").strip()[-500:])
    _require_plain(target, url)


def _copy(folder: Path, target: Path) -> None:
    _require_plain(folder, str(folder))
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns(".git"), symlinks=True)
    _require_plain(target, str(folder))


def _require_plain(folder: Path, source: str) -> None:
    """Refuses a folder with anything but files and folders, or with too much."""
    left, entries = MAX_BYTES, 0
    for top, folders, files in os.walk(folder):
        if ".git" in folders:
            folders.remove(".git")
        for name in (*folders, *files):
            status = os.lstat(os.path.join(top, name))
            if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
                raise _refused(source, f"{name} is a link or no file")
            left -= status.st_size if stat.S_ISREG(status.st_mode) else 0
            entries += 1
        if left < 0 or entries > MAX_ENTRIES:
            raise _refused(source, f"it has more than {MAX_BYTES:,} bytes or {MAX_ENTRIES:,} files")


def _unpack(archive: Path, target: Path) -> None:
    """Unpacks an archive, without its one top folder. One with a link, a device, or a path that
    leads out is refused as a whole."""
    if archive.name.endswith(".zip"):
        with zipfile.ZipFile(archive) as packed:
            for each in packed.infolist():
                kind = stat.S_IFMT(each.external_attr >> 16)
                plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)
                _require_inside(archive, each.filename, plain=plain)
            _require_size(archive, [each.file_size for each in packed.infolist()])
            for each in packed.infolist():
                packed.extract(each, target)
    else:
        with tarfile.open(archive, "r:gz") as packed:
            sizes: list[int] = []
            for each in packed:
                _require_inside(archive, each.name, plain=each.isreg() or each.isdir())
                sizes.append(each.size)
                _require_size(archive, sizes)
            packed.extractall(target, filter="data")
    inside = list(target.iterdir())
    if len(inside) == 1 and inside[0].is_dir():
        top = inside[0].rename(target.with_name(f"{target.name}.top"))
        target.rmdir()
        top.rename(target)


def _require_inside(archive: Path, name: str, *, plain: bool) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if not plain:
        raise _refused(str(archive), f"{name} is a link or no file")
    if path.is_absolute() or ".." in path.parts:
        raise _refused(str(archive), f"{name} leads out of it")


def _require_size(archive: Path, sizes: list[int]) -> None:
    if len(sizes) > MAX_ENTRIES or sum(sizes) > MAX_BYTES:
        raise _refused(
            str(archive), f"it has more than {MAX_BYTES:,} bytes or {MAX_ENTRIES:,} files"
        )


def _refused(source: str, why: str) -> InputError:
    return InputError(
        f"cannot install {printable(source)}: {printable(why).rstrip('.')}.",
        remedy="Nothing was installed.",
    )
