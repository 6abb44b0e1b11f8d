"""A git worktree of its own for an agent: what it changes there is handed over as a patch."""

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from alhena.errors import InputError
from alhena.system.environment import shield_memory
from alhena.system.errors import FileError, ProcessStartError
from alhena.system.files import exclusive
from alhena.system.own_programs import repository_command

LIMIT_S = 300.0
"""Seconds that one git command may take."""
_GITLINK = b"160000 "
_DIFF = ("--binary", "--no-ext-diff", "--no-textconv", "--no-color")
_PLAIN = re.compile(rb"[\w./-]+")


class Worktree(msgspec.Struct, frozen=True):
    """A worktree at `top` of a `repository`; `cwd` is in it what the working directory is there.
    `base` is the commit it began with."""

    repository: Path
    top: Path
    cwd: Path
    base: str
    environ: Mapping[str, str]

    async def patch(self) -> str:
        """The changes since `base`, commits and new files included, ignored ones not, as a unified
        diff that `git apply` takes; changes of text that is not UTF-8 are binary in it. Raises
        InputError."""
        return await asyncio.to_thread(self.make_patch)

    def make_patch(self) -> str:
        """As `patch`, blocking."""
        return patch_since(self.base, self.top, self.environ)

    def remove(self) -> None:
        """Removes the worktree. Raises InputError."""
        shutil.rmtree(self.top.parent, ignore_errors=True)
        forget_worktrees(self.repository, self.environ, str(self.top).__eq__)


@asynccontextmanager
async def open_worktree(cwd: Path, environ: Mapping[str, str]) -> AsyncGenerator[Worktree]:
    """A worktree of the repository around `cwd` at its last commit, which is removed at the end.
    Raises InputError where there is no repository with a commit, or git fails."""
    made = asyncio.ensure_future(asyncio.to_thread(_make, cwd, environ))
    try:
        yield await asyncio.shield(made)
    finally:
        await asyncio.shield(_remove_worktree(made))


async def _remove_worktree(made: "asyncio.Future[Worktree]") -> None:
    """Removes a worktree, also one that is still being made."""
    with suppress(InputError):
        await asyncio.to_thread((await made).remove)


def _make(cwd: Path, environ: Mapping[str, str]) -> Worktree:
    place = Path(os.path.realpath(tempfile.mkdtemp(prefix="alhena-worktree-")))
    try:
        return make_worktree(cwd, environ, place)
    except InputError:
        shutil.rmtree(place, ignore_errors=True)
        raise


def make_worktree(
    cwd: Path,
    environ: Mapping[str, str],
    place: Path,
    commit: str = "HEAD",
    *,
    lock: bool = False,
    held: tuple[int, ...] = (),
) -> Worktree:
    """A worktree in the directory `place` of the repository around `cwd`, at a commit. With `lock`
    git forgets it only when it is unlocked: other machines do not see the place. `held` are locks
    that git keeps, also past the end of this process. Raises InputError."""
    repository, name, inner = _find_repository(cwd, environ)
    base = run_git(cwd, environ, "rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    tree = place / name
    # Forced twice: git, killed at this before, may know the place as a locked worktree.
    add = ("--force", "--force", "--detach", *(("--lock",) if lock else ()))
    with lock_worktrees(repository, environ) as own:
        add_worktree(repository, environ, (*add, str(tree), base), tree, (*held, *own))
    return Worktree(repository, tree, Path(os.path.normpath(tree / inner)), base, environ)


def _find_repository(cwd: Path, environ: Mapping[str, str]) -> tuple[Path, str, str]:
    """The top of the working tree around a directory, or a bare repository; the name of its
    worktrees, and the directory's path in them. Raises InputError."""
    if run_git(cwd, environ, "rev-parse", "--is-bare-repository").strip() == b"true":
        options = ("--path-format=absolute", "--git-common-dir")
        found = run_git(cwd, environ, "rev-parse", *options).removesuffix(b"\n")
        store = Path(os.path.realpath(os.fsdecode(found)))
        name = store.name.removesuffix(".git")
        return store, store.parent.name or "tree" if name in ("", ".bare") else name, "."
    top = run_git(cwd, environ, "rev-parse", "--show-toplevel").removesuffix(b"\n")
    repository = Path(os.path.realpath(os.fsdecode(top)))
    return repository, repository.name, os.path.relpath(os.path.realpath(cwd), repository)


@contextmanager
def lock_worktrees(repository: Path, environ: Mapping[str, str]) -> Generator[tuple[int, ...]]:
    """Keeps git commands that make, list or remove worktrees of a repository apart, which git's own
    locks do not: each of them reads all worktrees, and fails at one that is half made or half
    removed. The block gets the lock, for those commands to keep. Raises InputError."""
    options = ("--path-format=absolute", "--git-common-dir")
    found = run_git(repository, environ, "rev-parse", *options).removesuffix(b"\n")
    with alone(Path(os.fsdecode(found), "alhena-worktrees.lock")) as held:
        yield held


def add_worktree(
    repository: Path,
    environ: Mapping[str, str],
    words: tuple[str, ...],
    tree: Path,
    held: tuple[int, ...],
) -> None:
    """Runs `git worktree add`, whose `words` make the worktree `tree`. The files come in a second
    step: which settings hold in the worktree is known only there. Git keeps the locks `held`, that
    of `lock_worktrees` among them. Raises InputError."""
    run_git(repository, environ, "worktree", "add", "--quiet", "--no-checkout", *words, held=held)
    run_git(tree, environ, "reset", "--hard", "--quiet", "--no-recurse-submodules", held=held)


def list_worktrees(
    repository: Path, environ: Mapping[str, str], held: tuple[int, ...]
) -> list[str]:
    """The paths of a repository's working trees. Git keeps the locks `held`, that of
    `lock_worktrees` among them. Raises InputError."""
    listed = run_git(repository, environ, "worktree", "list", "--porcelain", "-z", held=held)
    lines = listed.split(b"\0")
    return [os.fsdecode(each[9:]) for each in lines if each.startswith(b"worktree ")]


def forget_worktrees(
    repository: Path, environ: Mapping[str, str], chosen: Callable[[str], bool]
) -> None:
    """Removes the worktrees whose paths are `chosen`, also locked ones and those whose files are
    gone. Raises InputError."""
    remove = ("worktree", "remove", "--force", "--force")
    with lock_worktrees(repository, environ) as held:
        for path in filter(chosen, list_worktrees(repository, environ, held)):
            run_git(repository, environ, *remove, path, held=held)


@contextmanager
def alone(path: Path) -> Generator[tuple[int, ...]]:
    """Holds a lock file for a block, after those who hold it now. The block gets the descriptor of
    the lock, if there is one. Raises InputError."""
    try:
        with exclusive(path, patience_s=LIMIT_S) as held:
            yield () if held is None else (held,)
    except FileError as error:
        raise InputError(str(error)) from error


def patch_since(
    base: str,
    top: Path,
    environ: Mapping[str, str],
    chosen: Mapping[str, str] | None = None,
    held: tuple[int, ...] = (),
) -> str:
    """The changes of the files below `top` since the commit or tree `base`. The variables `chosen`
    name another repository than the one there; `held` are locks that git keeps. Raises
    InputError."""
    run = partial(run_git, top, environ, chosen=chosen)
    _stage(run, held)
    data = run("diff", "--cached", *_DIFF, base)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _binary_patch(base, run, environ)


def _stage(run: Callable[..., bytes], held: tuple[int, ...]) -> None:
    """Puts the files of a working tree into the index. Repositories within are not looked into,
    where git would run what they name: only their commits count."""
    entries = run("ls-files", "--stage", "-z").split(b"\0")
    inner = [each.partition(b"\t")[2] for each in entries if each.startswith(_GITLINK)]
    around = b"".join(b":(top,exclude,literal)" + each + b"\0" for each in inner)
    paths = ("--pathspec-from-file=-", "--pathspec-file-nul")
    run("add", "-A", *paths, given=b":(top)\0" + around, held=held)
    if inner:
        listed = b"".join(each + b"\0" for each in inner)
        run("update-index", "--add", "--remove", "-z", "--stdin", given=listed)


def _binary_patch(base: str, run: Callable[..., bytes], environ: Mapping[str, str]) -> str:
    """As `patch_since`, with all files that are not UTF-8 as binary ones. The attributes that say
    so are those of a repository of its own, which outweigh all others."""
    names = run("diff", "--cached", "--name-only", "--no-renames", "-z", base)
    legacy: list[str] = []
    for name in names.split(b"\0")[:-1]:
        spec = b":(top,literal)" + name
        try:
            run("diff", "--cached", *_DIFF, base, "--", os.fsdecode(spec)).decode()
        except UnicodeDecodeError:
            usual = _PLAIN.fullmatch(name) is not None
            legacy.append(f"/{name.decode()} -diff\n" if usual else "* -diff\n")
    tree = run("write-tree").decode().strip()
    objects = run("rev-parse", "--path-format=absolute", "--git-path", "objects")
    with tempfile.TemporaryDirectory(prefix="alhena-patch-") as made:
        run_git(Path(made), environ, "init", "--quiet", "--bare", "--template=", made)
        info = Path(made, "info")
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text("".join(legacy), encoding="utf-8")
        shared = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.fsdecode(objects.removesuffix(b"\n"))}
        where = {**shared, "GIT_DIR": made}
        found = run_git(Path(made), environ, "diff", *_DIFF, base, tree, chosen=where)
        return found.decode("utf-8", "replace")


def run_git(
    folder: Path,
    environ: Mapping[str, str],
    *arguments: str,
    chosen: Mapping[str, str] | None = None,
    held: tuple[int, ...] = (),
    given: bytes = b"",
) -> bytes:
    """The output of a git command in the repository around `folder`, or the one that the variables
    `chosen` name. It keeps the locks of the descriptors `held` and is `given` this as its input.
    Nothing that the repository names runs. Raises InputError."""
    try:
        command = repository_command(folder, environ, arguments, chosen)
        shield_memory()
        done = subprocess.run(
            command.argv,
            cwd=folder,
            env=command.env,
            input=given,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
            pass_fds=held,
        )
    except ProcessStartError as error:
        raise InputError(error.message, remedy=error.remedy) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"git {arguments[0]} failed: {error}") from error
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip()[-500:]
        raise InputError(f"git {arguments[0]} failed: {why or done.returncode}")
    return done.stdout
