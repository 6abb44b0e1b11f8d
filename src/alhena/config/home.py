"""Paths of the user's files, shared with the reference program."""

import errno
import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Protocol

import msgspec

from alhena.config.documents import read_limited
from alhena.display_text import one_line
from alhena.errors import ConfigError, InputError

_ROOT_MARK = ".project_root"
_FORMER_ROOTS = ".project_former_roots"
PROMPT_HISTORY = "prompt_history.jsonl"
IMAGE_FOLDER = "images"
PROJECT_TEMP = "ALHENA_PROJECT_TEMP"
"""Variable by which an engine of many runs gives a session a `project_temp` of its own."""
BATCH_TASK = "ALHENA_BATCH_TASK"
"""Variable with the id of the batch task that a session works on."""
_HEADER = 1 << 16


class _Header(msgspec.Struct, frozen=True):
    """The location in the first line of a session file."""

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
    """An administrator's settings.json, which overrides all others."""
    given = environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH")
    return Path(given) if given else _system_directory() / "settings.json"


def system_defaults_path(environ: Mapping[str, str]) -> Path:
    """An administrator's defaults, which all others override."""
    given = environ.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH")
    return Path(given) if given else system_settings_path(environ).with_name("system-defaults.json")


def _system_directory() -> Path:
    mac = sys.platform == "darwin"
    return Path("/Library/Application Support/GeminiCli" if mac else "/etc/gemini-cli")


def user_policies_path(environ: Mapping[str, str]) -> Path:
    """The directory of the user's policies."""
    return config_home(environ) / "policies"


def saved_policies_path(environ: Mapping[str, str]) -> Path:
    """The file of saved approvals, among the user's policies."""
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
    """The file of accepted servers and commands of workspaces."""
    return config_home(environ) / "trusted_commands.json"


def installation_id_path(environ: Mapping[str, str]) -> Path:
    """The file of the random installation id used by telemetry."""
    return config_home(environ) / "installation_id"


def workspace_settings_path(project: Path) -> Path:
    """A workspace's own settings.json."""
    return project / ".gemini" / "settings.json"


def path_within(root: Path, name: str | Path) -> Path:
    """The path of a file or folder of ours below the directory `root`, with nothing to follow: for
    all that is written there by a fixed name. Raises InputError if a part of it is a symbolic link:
    whoever made that would choose what is written."""
    place = Path(os.path.realpath(root))
    for part in Path(name).parts:
        place /= part
        if os.path.islink(place):
            raise InputError(
                f"{one_line(str(place))} is a symbolic link; nothing was written.",
                remedy="Put a file or folder of its own in its place.",
            )
    return place


class NamedFolder(Protocol):
    """An extension, as far as its folder counts."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def folder(self) -> Path:
        """Its folder."""
        ...


def skill_folders(
    environ: Mapping[str, str],
    project: Path,
    *,
    trusted: bool,
    extensions: Iterable[NamedFolder] = (),
) -> tuple[tuple[str, Path], ...]:
    """The existing folders of skills, each with its source, the weaker first: those of extensions,
    the user's, and those of a trusted project."""
    home = config_home(environ)
    found = [(each.name, each.folder / "skills") for each in extensions]
    found += [("user", home / "skills"), ("user", home.parent / ".agents" / "skills")]
    if trusted and project != home.parent:
        names = (".gemini", ".agents")
        found += [("workspace", project / name / "skills") for name in names]
    return tuple((source, folder) for source, folder in found if os.path.isdir(folder))


def agent_folders(
    environ: Mapping[str, str],
    project: Path,
    *,
    trusted: bool,
    extensions: Iterable[NamedFolder] = (),
) -> tuple[tuple[str, Path], ...]:
    """The existing folders of agent definitions, each with its source, the stronger first: that of
    a trusted project, the user's, and those of extensions."""
    user = config_home(environ) / "agents"
    own = project / ".gemini" / "agents"
    found = [("user", user)]
    if trusted and os.path.realpath(own) != os.path.realpath(user):
        found.insert(0, ("workspace", own))
    found += [(each.name, each.folder / "agents") for each in extensions]
    return tuple((source, folder) for source, folder in found if os.path.isdir(folder))


def accepted_agents_path(environ: Mapping[str, str]) -> Path:
    """The file of accepted agents of projects; the reference reads and writes the same."""
    return config_home(environ) / "acknowledgments" / "agents.json"


def workspace_policies_path(project: Path) -> Path:
    """The directory of a workspace's own policies."""
    return project / ".gemini" / "policies"


def project_temp(environ: Mapping[str, str], project: Path) -> Path:
    """`~/.gemini/tmp/<slug>`: the data directory of `project`, an absolute path; it need not exist
    before `claim_project_temp` assigns it to the project.

    The slug is the folder's name in lower-case letters, digits and dashes. If another project has a
    folder of the same name (recorded in its `.project_root`), the suffix -1, -2 and so on is added.
    """
    if given := environ.get(PROJECT_TEMP):
        return Path(given)
    base = temps(environ)
    slug = _slug(project.name)
    if root_of(base / slug) == str(project):
        return real_temp(base / slug)
    there = namesakes(environ, project)
    roots = {number: root_of(temp) for number, temp in there.items()}
    for number, temp in there.items():  # its own directory may follow one that was removed
        if roots[number] == str(project):
            return temp
    number = next(number for number in count() if roots.get(number) is None)
    return there.get(number) or _namesake(base, slug, number)


def temps(environ: Mapping[str, str]) -> Path:
    """`~/.gemini/tmp`, which contains the temporary directories of all projects."""
    return config_home(environ) / "tmp"


def namesakes(environ: Mapping[str, str], project: Path) -> dict[int, Path]:
    """The directories of projects whose folder has the same name, by numeric suffix, in order. A
    project that had another name is listed through a symlink."""
    base = temps(environ)
    slug = _slug(project.name)
    found = {number: real_temp(_namesake(base, slug, number)) for number in _numbers(base, slug)}
    return dict(sorted(found.items()))


def link_namesake(environ: Mapping[str, str], project: Path, temp: Path) -> None:
    """Adds a directory to the `namesakes` of a project through a symlink. Raises OSError."""
    taken = namesakes(environ, project)
    number = next(each for each in range(len(taken) + 1) if each not in taken)
    _namesake(temps(environ), _slug(project.name), number).symlink_to(temp.name)


def project_checkpoints(temp: Path) -> Path:
    """The checkpoint directory in a project's temporary directory."""
    return temp / "checkpoints"


def project_history(environ: Mapping[str, str], temp: Path) -> Path:
    """`~/.gemini/history/<slug>`: the project's shadow repository."""
    return config_home(environ) / "history" / temp.name


class TakenError(FileExistsError):
    """Another project has claimed the directory."""


def claimed_project_temp(environ: Mapping[str, str], project: Path) -> Path:
    """`project_temp`, claimed for the project despite concurrent claims. Raises OSError,
    ConfigError."""
    lost: set[Path] = set()
    while True:
        temp = project_temp(environ, project)
        try:
            claim_project_temp(temp, project)
        except TakenError:
            if temp in lost:  # neither it nor any visible directory is the project's
                raise
            lost.add(temp)
        else:
            return temp


def claim_project_temp(temp: Path, project: Path) -> None:
    """Creates the directory named by `project_temp` for the user only and marks it as the
    project's, durably. Raises OSError, and TakenError when another project claimed it first."""
    if root_of(temp) == str(project):
        return
    temp.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _marking(temp):
        _require(temp, None, project)
        if root_of(temp) is None:
            _mark(temp, project)
    with suppress(OSError):  # it may be unreadable
        _synchronise(temp.parent)


def hand_over(
    temp: Path, former: str, project: Path, first: Callable[[], None] = lambda: None
) -> None:
    """Transfers an existing directory of the folder `former` to the project and runs `first`, under
    a lock against other claims. Raises OSError."""
    with _marking(temp):
        _require(temp, former, project)
        first()
        note_former_root(temp, former)
        _mark(temp, project)


def note_former_root(temp: Path, former: str) -> None:
    """Records that a project's directory was in the folder `former`. Raises OSError."""
    known = dict.fromkeys((*former_roots(temp), former))
    _write(temp / _FORMER_ROOTS, "\0".join(known))


def former_roots(temp: Path) -> tuple[str, ...]:
    """The former folders of a project that was moved."""
    try:
        data = read_limited(temp / _FORMER_ROOTS)
    except OSError:
        return ()
    lines = data.decode("utf-8", "surrogateescape").split("\0")
    return tuple(line for line in lines if os.path.isabs(line))


def root_of(temp: Path) -> str | None:
    """The project of a temporary directory; None if unclaimed."""
    try:
        data = read_limited(temp / _ROOT_MARK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:  # unreadable: another user's
        return ""
    text = data.decode("utf-8", "surrogateescape").removesuffix("\n")
    return text if os.path.isabs(text) and "\0" not in text else None


def _mark(temp: Path, project: Path) -> None:
    _write(temp / _ROOT_MARK, str(project))


def _require(temp: Path, former: str | None, project: Path) -> None:
    """Raises TakenError unless the directory is unclaimed, the project's or that of `former`."""
    if root_of(temp) not in (None, former, str(project)):
        raise TakenError(errno.EEXIST, "it has become another project's", str(temp))


def _write(path: Path, text: str) -> None:
    """Writes a file atomically, without concurrent writers. The general function is in a higher
    room and would be loaded before the first request."""
    made = path.with_name(f"{path.name}.new")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    os.replace(made, path)


@contextmanager
def _marking(temp: Path) -> Generator[None]:
    """Locks the marks of directories, where locks are supported, and syncs changes to disk. Raises
    OSError."""
    import fcntl

    directory = os.open(temp, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some network file systems lock no directories
            fcntl.flock(directory, fcntl.LOCK_EX)
        yield
        with suppress(OSError):  # not all file systems can sync directories
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
    """Resolves a link made by `link_namesake`. A link a person made to another place keeps its own
    name."""
    try:
        target = os.readlink(temp)
    except OSError:
        return temp
    return temp if "/" in target or not target.strip(".") else temp.with_name(target)


def project_of(journal: str | Path) -> str:
    """The project named in the first line of a session file; "" if none."""
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
    except OSError:
        return found
    for name in names:
        if name == slug:
            found.append(0)
        number = name.removeprefix(f"{slug}-")
        if number != name and number.isascii() and number.isdecimal() and number[0] != "0":
            found.append(int(number))
    return found


def _namesake(base: Path, slug: str, number: int) -> Path:
    return base / (f"{slug}-{number}" if number else slug)


def _slug(name: str) -> str:
    kept = "".join(char if char.isascii() and char.isalnum() else " " for char in name.lower())
    return "-".join(kept.split()) or "project"
