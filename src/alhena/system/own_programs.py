"""The programs that alhena starts on its own account: git, Python, and others by their names.

None of them takes a program, a module or a path from the folder that it works in.
"""

import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from alhena.config.environment import CREDENTIALS, own_environment, without_repository
from alhena.system.errors import ProcessStartError, printable

_SECTIONS = (
    "browser|difftool|filter|guitool|hook|include(if)?|instaweb|man|mergetool|pager|protocol|"
    "sendemail|url|web"
)
"""Sections of git's configuration whose every key may name a program, or other configuration."""
_KEYS = (
    "askpass|cmd|command|difffilter|driver|editor|exec|external|fsmonitor|gitproxy|helper|hook|"
    "pager|program|receivepack|signature|templatedir|textconv|tunnel|uploadpack|vcs"
)
_NEVER_USED = frozenset({"alias", "include", "includeif", "protocol", "url"})
"""Sections that run nothing in the commands started here: they are git's own and have no remote."""
_SAFE = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
)
_CONFIG_LIMIT_S = 30.0


class MissingGitError(ProcessStartError):
    """There is no git."""


class OwnCommand(NamedTuple):
    """Arguments and environment of a program to start."""

    argv: tuple[str, ...]
    env: dict[str, str]


def search_path(environ: Mapping[str, str], excluded: Iterable[Path] = ()) -> str:
    """The PATH for programs of our own: without relative entries, entries in the `excluded`
    directories (a project's own `bin` does not decide what git is), and entries that everybody can
    write."""
    directories = tuple(Path(os.path.realpath(each)) for each in excluded)
    kept: list[str] = []
    for entry in environ.get("PATH", os.defpath).split(os.pathsep):
        if not os.path.isabs(entry):
            continue
        real = Path(os.path.realpath(entry))
        with suppress(OSError):  # missing or not accessible
            own = not real.stat().st_mode & stat.S_IWOTH
            if own and not any(map(real.is_relative_to, directories)):
                kept.append(entry)
    return os.pathsep.join(kept)


def find_program(
    name: str, environ: Mapping[str, str], excluded: Iterable[Path] = ()
) -> str | None:
    """The path of a program on `search_path`; None if it is not there. A name with a slash is
    returned as it is. The user's home is never excluded: programs of theirs are there."""
    from shutil import which

    if os.sep in name:
        return name
    path = search_path(environ, _without_home(excluded, environ))
    return which(name, path=path) if path else None


def python_command(
    module: str, *arguments: str, environ: Mapping[str, str] | None = None
) -> OwnCommand:
    """Runs one of our modules in this Python, which imports nothing from the working directory:
    `-P` leaves it out, and relative entries of PYTHONPATH would be it."""
    env = dict(os.environ if environ is None else environ)
    given = env.pop("PYTHONPATH", "").split(os.pathsep)
    if kept := [entry for entry in given if os.path.isabs(entry)]:
        env["PYTHONPATH"] = os.pathsep.join(kept)
    return OwnCommand((sys.executable, "-P", "-m", module, *arguments), env)


_BROWSE = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"


def begin_browser(url: str) -> bool:
    """Opens a page in the person's browser; False if none could be started. Blocks until the
    starter of the browser ends."""
    import subprocess

    from alhena.system.environment import shield_memory

    command = OwnCommand(
        (sys.executable, "-P", "-c", _BROWSE, url), user_variables(os.environ, (Path.cwd(),))
    )
    try:
        shield_memory()
        done = subprocess.run(command.argv, env=command.env, check=False)
    except (OSError, ProcessStartError):
        return False
    return not done.returncode


def git_command(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    chosen: Mapping[str, str] | None = None,
    *,
    settings: Iterable[str] = (),
    protocols: Iterable[str] = (),
) -> OwnCommand:
    """A git command, which contacts others only by these `protocols`, asks nothing and runs no
    hooks or monitors. It works in the repository of its directory, whatever repository `environ`
    names (as in a git hook), unless the variables `chosen` name another (GIT_DIR …). What a
    repository's configuration names is `repository_command`'s subject. Raises ProcessStartError
    without git."""
    git = find_program("git", environ)
    if git is None:
        raise MissingGitError(
            "git is not installed.", remedy="Install git; PATH decides which git runs."
        )
    options = (word for each in (*_SAFE, *settings) for word in ("-c", each))
    env = {
        **without_repository(environ),
        **(chosen or {}),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": ":".join(protocols) or "none",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": ":",
    }
    return OwnCommand((git, *options, *arguments), env)


def user_variables(environ: Mapping[str, str], excluded: Iterable[Path] = ()) -> dict[str, str]:
    """The environment of a git command: the user's own, without the credentials of models and
    without programs in the `excluded` directories."""
    own = own_environment(environ)
    kept = {name: value for name, value in own.items() if name not in CREDENTIALS}
    return {**kept, "PATH": search_path(own, _without_home(excluded, own))}


def _without_home(excluded: Iterable[Path], environ: Mapping[str, str]) -> list[Path]:
    home = Path(os.path.realpath(environ.get("HOME") or os.sep))
    return [each for each in excluded if not home.is_relative_to(os.path.realpath(each))]


def repository_command(
    directory: Path,
    environ: Mapping[str, str],
    arguments: Sequence[str],
    chosen: Mapping[str, str] | None = None,
) -> OwnCommand:
    """A git command in `directory` that runs nothing which the repository there names: each of its
    settings that may name a program (filters, drivers, helpers …) has the user's own value instead,
    or none. The variables `chosen` name another repository (GIT_DIR …). Blocks for one call of git.
    Raises ProcessStartError."""
    own = user_variables(environ, (_project_around(directory),))
    named = chosen or {}
    overrides = _override_settings(_scoped_settings(directory, own, named))
    return git_command(arguments, own, {**named, **overrides})


def _project_around(directory: Path) -> Path:
    """The top of the repository around a directory, or the directory."""
    place = Path(os.path.realpath(directory))
    return next((each for each in (place, *place.parents) if os.path.lexists(each / ".git")), place)


def may_name_program(key: str) -> bool:
    """True for a key of git's configuration, section and name in lower case, that may name a
    program, or further configuration."""
    section, _, name = key.partition(".")
    last = name.rpartition(".")[2]
    if section == "lfs" and ("transfer" in name or "extension" in name):
        return True
    return re.fullmatch(_SECTIONS, section) is not None or (
        section != "color" and re.search(_KEYS, last) is not None
    )


def _scoped_settings(
    directory: Path, environ: Mapping[str, str], chosen: Mapping[str, str]
) -> list[tuple[str, str, str]]:
    """The scope, key and value of each setting of git in a directory, in order."""
    import subprocess

    from alhena.system.environment import shield_memory

    command = git_command(("config", "--list", "--show-scope", "--null"), environ, chosen)
    shield_memory()
    try:
        done = subprocess.run(
            command.argv,
            cwd=directory,
            env=command.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CONFIG_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProcessStartError(f"git cannot be started: {error}.") from error
    if done.returncode:
        why = done.stderr.decode("utf-8", "replace").strip()[-500:]
        raise ProcessStartError(f"git cannot read its configuration: {printable(why)}.")
    fields = os.fsdecode(done.stdout).split("\0")
    found: list[tuple[str, str, str]] = []
    for scope, setting in zip(fields[::2], fields[1::2], strict=False):
        key, _, value = setting.partition("\n")
        found.append((scope, key, value))
    return found


def _override_settings(settings: Sequence[tuple[str, str, str]]) -> dict[str, str]:
    """Variables that give what a repository names the values of the user: an empty one first, since
    some settings are lists, which it empties."""
    local = dict.fromkeys(
        key
        for scope, key, _ in settings
        if scope in {"local", "worktree"}
        and key.partition(".")[0] not in _NEVER_USED
        and may_name_program(key)
    )
    pairs: list[tuple[str, str]] = []
    for key in local:
        own = [value for scope, each, value in settings if each == key and scope in _OWN_SCOPES]
        pairs += [(key, ""), *((key, value) for value in own)]
    if not pairs:
        return {}
    found = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


_OWN_SCOPES = frozenset({"system", "global", "command"})
