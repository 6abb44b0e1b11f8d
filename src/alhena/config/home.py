"""Where the user's files live: the reference's places, so that both programs share them."""

import errno
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from alhena.config.documents import read_limited
from alhena.config.errors import ConfigError

MAX_NAMESAKES = 1_000
_ROOT_MARK = ".project_root"
_FORMER_ROOTS = ".project_former_roots"
PROMPT_HISTORY = "prompt_history.jsonl"
_HEADER = 1 << 16
_TRIES, _PAUSE_S = 200, 0.05
_LINKS = 40
# Network file systems lock only what is open for writing (EBADF), which no directory is.
_NO_LOCKS = (
    *(errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL),
    errno.EBADF,
)
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EROFS, errno.EACCES)


class _Header(msgspec.Struct, frozen=True):
    """What the first line of a session says of where it is."""

    project: str = ""


def config_home(environ: Mapping[str, str]) -> Path:
    """`~/.gemini`, below GEMINI_CLI_HOME when that is set. Need not exist."""
    base = environ.get("GEMINI_CLI_HOME") or environ.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(base):
        raise ConfigError(
            f"the home directory {base!r} is not an absolute path.",
            remedy="Set HOME (or GEMINI_CLI_HOME) to an absolute path.",
        )
    return Path(base) / ".gemini"


def user_settings_path(environ: Mapping[str, str]) -> Path:
    """The user's settings.json."""
    return config_home(environ) / "settings.json"


def system_settings_path(environ: Mapping[str, str]) -> Path:
    """An administrator's settings.json, which comes above all others."""
    given = environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH")
    return Path(given) if given else _system_directory() / "settings.json"


def system_defaults_path(environ: Mapping[str, str]) -> Path:
    """An administrator's defaults, which all others come above."""
    given = environ.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH")
    return Path(given) if given else system_settings_path(environ).with_name("system-defaults.json")


def _system_directory() -> Path:
    mac = sys.platform == "darwin"
    return Path("/Library/Application Support/GeminiCli" if mac else "/etc/gemini-cli")


def user_policies_path(environ: Mapping[str, str]) -> Path:
    """The directory of the user's policies."""
    return config_home(environ) / "policies"


def saved_policies_path(environ: Mapping[str, str]) -> Path:
    """The file of what a person approved for good, among the user's policies."""
    return user_policies_path(environ) / "auto-saved.toml"


def user_checkers_path(environ: Mapping[str, str]) -> Path:
    """The directory of the user's own safety checkers."""
    return config_home(environ) / "checkers"


def trusted_folders_path(environ: Mapping[str, str]) -> Path:
    """The user's list of folders that are trusted or not."""
    given = environ.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH")
    return Path(given) if given else config_home(environ) / "trustedFolders.json"


def trusted_hooks_path(environ: Mapping[str, str]) -> Path:
    """The user's list of hooks of projects that may run."""
    return config_home(environ) / "trusted_hooks.json"


def trusted_commands_path(environ: Mapping[str, str]) -> Path:
    """What the user has accepted of the servers and commands of workspaces."""
    return config_home(environ) / "trusted_commands.json"


def installation_id_path(environ: Mapping[str, str]) -> Path:
    """The file of the random number by which telemetry knows this installation."""
    return config_home(environ) / "installation_id"


def workspace_settings_path(project: Path) -> Path:
    """A workspace's own settings.json."""
    return project / ".gemini" / "settings.json"


def workspace_policies_path(project: Path) -> Path:
    """The directory of a workspace's own policies."""
    return project / ".gemini" / "policies"


def user_memory_path(environ: Mapping[str, str], name: str = "GEMINI.md") -> Path:
    """The user's memory file, which every session reads. `name` is what settings call it."""
    return config_home(environ) / name


def project_temp(environ: Mapping[str, str], project: Path) -> Path:
    """`~/.gemini/tmp/<slug>`: where what belongs to `project`, an absolute path, is kept, or would
    be once `claim_project_temp` has made it the project's.

    The slug is the folder's name in lower-case letters, digits and dashes. A folder of the same
    name that is another project's (its `.project_root` says so) gets -1, -2 and so on behind it.
    """
    base = temps(environ)
    slug = _slug(project.name)
    if _marked(base / slug) == str(project):
        return real_temp(base / slug)
    there = namesakes(environ, project)
    roots = {number: root_of(temp) for number, temp in there.items()}
    for number, temp in there.items():  # one of its own, also behind one that was removed
        if roots[number] == str(project):
            return temp
    for number in range(MAX_NAMESAKES):
        if roots.get(number) is None:
            return there.get(number) or _namesake(base, slug, number)
    raise ConfigError(
        f"{base} holds the folders of {MAX_NAMESAKES} other projects named {slug}.",
        remedy="Remove those that are of no use any more.",
    )


def temps(environ: Mapping[str, str]) -> Path:
    """`~/.gemini/tmp`, which holds the temporary directories of all projects."""
    return config_home(environ) / "tmp"


def namesakes(environ: Mapping[str, str], project: Path) -> dict[int, Path]:
    """The directories that there are of projects whose folder is called like this one's, by the
    numbers behind their names, in order. That of a project which was called otherwise has a symlink
    there."""
    base = temps(environ)
    slug = _slug(project.name)
    found = {number: real_temp(_namesake(base, slug, number)) for number in _numbers(base, slug)}
    return dict(sorted(found.items()))


def link_namesake(environ: Mapping[str, str], project: Path, temp: Path) -> None:
    """Has a directory be among the `namesakes` of a project. Raises OSError."""
    taken = namesakes(environ, project)
    number = next(each for each in range(len(taken) + 1) if each not in taken)
    _namesake(temps(environ), _slug(project.name), number).symlink_to(temp.name)


def project_checkpoints(temp: Path) -> Path:
    """Where the checkpoints of the project are whose temporary directory this is."""
    return temp / "checkpoints"


def project_history(environ: Mapping[str, str], temp: Path) -> Path:
    """`~/.gemini/history/<slug>`: the shadow repository of that project."""
    return config_home(environ) / "history" / temp.name


class TakenError(FileExistsError):
    """The directory has become another project's."""


def claimed_project_temp(environ: Mapping[str, str], project: Path) -> Path:
    """`project_temp`, made the project's, whoever else wants one at the same moment. Raises
    OSError, ConfigError."""
    lost: set[Path] = set()
    while True:
        temp = project_temp(environ, project)
        try:
            claim_project_temp(temp, project)
        except TakenError:
            if temp in lost:  # it is none, and none of those that can be seen
                raise
            lost.add(temp)
        else:
            return temp


def claim_project_temp(temp: Path, project: Path) -> None:
    """Makes the directory that `project_temp` named, for the user alone, and marks it as the
    project's; on the disk when it returns. Raises OSError, and TakenError where another project
    was faster."""
    if _marked(temp) == str(project):
        return
    temp.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _marking(temp):
        _require(temp, None, project)
        if _marked(temp) is None:
            _mark(temp, project)
    with suppress(OSError):  # it may be one that cannot be read
        _synchronise(temp.parent)


def hand_over(
    temp: Path, former: str, project: Path, first: Callable[[], None] = lambda: None
) -> None:
    """Makes a directory that belongs to the folder `former` the project's, which was there before,
    and does `first` what has to be done: nobody makes it his meanwhile. Raises OSError."""
    with _marking(temp):
        _require(temp, former, project)
        first()
        note_former_root(temp, former)
        _mark(temp, project)


def note_former_root(temp: Path, former: str) -> None:
    """Notes in a project's directory that it was in the folder `former` before. Raises OSError."""
    known = dict.fromkeys((*former_roots(temp), former))
    _write(temp / _FORMER_ROOTS, "\0".join(known))


def former_roots(temp: Path) -> tuple[str, ...]:
    """The folders in which the project was before it was moved."""
    try:
        data = read_limited(temp / _FORMER_ROOTS)
    except OSError:
        return ()
    lines = data.decode("utf-8", "surrogateescape").split("\0")
    return tuple(line for line in lines if os.path.isabs(line))


def root_of(temp: Path) -> str | None:
    """The project whose temporary directory this is; None when it is nobody's. Where the mark is
    gone or was never written, it is that of the session that was last at work in it."""
    root = _marked(temp)
    return _recorded(temp) if root is None else root


def _marked(temp: Path) -> str | None:
    """What the mark of a directory says; None where there is none, or what is there names no
    folder: it was never written to its end."""
    try:
        data = read_limited(temp / _ROOT_MARK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:  # unreadable: somebody's, and not ours
        return ""
    text = data.decode("utf-8", "surrogateescape").removesuffix("\n")
    return text if os.path.isabs(text) and "\0" not in text else None


def _mark(temp: Path, project: Path) -> None:
    """Writes the mark, at whose end one newline more may stand than the folder's name has."""
    said = str(project)
    _write(temp / _ROOT_MARK, f"{said}\n" if said.endswith("\n") else said)


def _require(temp: Path, former: str | None, project: Path) -> None:
    """Raises TakenError unless the directory is nobody's, the project's or that of `former`."""
    if root_of(temp) not in (None, former, str(project)):
        raise TakenError(errno.EEXIST, "it has become another project's", str(temp))


def _write(path: Path, text: str) -> None:
    """Writes a file in one step, where nobody else does so now. What does that for others stands
    above this room, and would be loaded before the first request."""
    made = path.with_name(f"{path.name}.new")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        file.flush()
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise
    os.replace(made, path)


@contextmanager
def _marking(temp: Path) -> Generator[None]:
    """Nobody else marks a directory meanwhile, where there are locks; on the disk is then what was
    done. Raises OSError."""
    import fcntl

    directory = os.open(temp, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _ in range(_TRIES):
            try:
                fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_PAUSE_S)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                break
        else:
            said = "another process has been marking it for too long"
            raise OSError(errno.EAGAIN, said, str(temp))
        yield
        with suppress(OSError):  # not every file system can, and what was done is in its place
            os.fsync(directory)
    finally:
        os.close(directory)


def _synchronise(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def real_temp(temp: Path) -> Path:
    """The directory that a link stands for which `link_namesake` made. One that a person has linked
    to a place elsewhere is called as the link is."""
    for _ in range(_LINKS):
        try:
            target = os.readlink(temp)
        except OSError:
            break
        if target in (".", "..") or target != os.path.basename(target):
            break
        temp = temp.with_name(target)
    return temp


def _recorded(temp: Path) -> str | None:
    """The project of the session that was last at work in a directory, as its header says."""
    last: tuple[float, str] | None = None
    try:
        with os.scandir(temp / "sessions") as entries:
            for entry in entries:
                if not entry.name.endswith(".jsonl"):
                    continue
                project = project_of(entry.path)
                with suppress(OSError):
                    when = entry.stat(follow_symlinks=False).st_mtime
                    if project and (last is None or when > last[0]):
                        last = (when, project)
    except OSError:
        return None
    return None if last is None else last[1]


def project_of(journal: str | Path) -> str:
    """The project that the first line of a session's record names, "" when it names none."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(journal, flags)
        with open(descriptor, "rb") as file:
            line = file.readline(_HEADER)
    except OSError:
        return ""
    try:
        project = msgspec.json.decode(line, type=_Header).project
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return project if os.path.isabs(project) else ""


def _numbers(base: Path, slug: str) -> list[int]:
    found: list[int] = []
    try:
        names = os.listdir(base)
    except FileNotFoundError:
        return found
    except OSError:  # it cannot be listed, but may be entered
        every = range(MAX_NAMESAKES)
        return [each for each in every if os.path.lexists(_namesake(base, slug, each))]
    for name in names:
        if name == slug:
            found.append(0)
        number = name.removeprefix(f"{slug}-")
        if number != name and number.isascii() and number.isdecimal() and number[0] != "0":
            found.append(int(number))
    return [each for each in found if each < MAX_NAMESAKES]


def _namesake(base: Path, slug: str, number: int) -> Path:
    return base / (f"{slug}-{number}" if number else slug)


def _slug(name: str) -> str:
    kept = "".join(char if char.isascii() and char.isalnum() else " " for char in name.lower())
    return "-".join(kept.split()) or "project"
