"""Where policies come from: packaged, the user's, those named on the command line, an
administrator's; and, to make things stricter only, a workspace's and an extension's."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from alhena.policy.filter import PolicyFilter
from alhena.policy.load import (
    LoadedPolicies,
    PolicyProblem,
    load_directory,
    load_file,
)
from alhena.policy.model import Tier

ADMIN_DIRECTORY = Path("/etc/gemini-cli/policies")
DEFAULTS_DIRECTORY = Path(__file__).parent / "defaults"


def load_policies(
    user_dir: Path | None,
    extra_paths: Iterable[Path] = (),
    admin_dir: Path = ADMIN_DIRECTORY,
    admin_owner: int = 0,
) -> LoadedPolicies:
    """All rules and checkers of all tiers. `extra_paths` are files or directories beside the user's
    own; None for `user_dir` leaves the user's out. `admin_owner` is the user id that has to own an
    administrator's files."""
    parts = [load_directory(DEFAULTS_DIRECTORY, Tier.DEFAULT)]
    if user_dir is not None:
        parts.append(load_directory(user_dir, Tier.USER))
    parts += [load_path(path, Tier.USER) for path in extra_paths]
    parts.append(_administrators(admin_dir, admin_owner))
    return LoadedPolicies.joined(parts)


def load_filter(
    directory: Path, *, layer: str, name: str
) -> tuple[PolicyFilter | None, LoadedPolicies]:
    """The rules of a directory as a filter, None when it holds none; and what else was read there:
    its checkers, which can only be stricter, too, and what is wrong. `layer` is what its rules are
    called (workspace, extension), `name` whose they are."""
    loaded = load_directory(directory, Tier.USER)
    rules = [replace(rule, layer=layer) for rule in loaded.rules]
    checkers = [replace(each, rule=replace(each.rule, layer=layer)) for each in loaded.checkers]
    rest = replace(loaded, rules=(), checkers=tuple(checkers))
    return (PolicyFilter(name, rules) if rules else None), rest


def load_path(path: Path, tier: Tier) -> LoadedPolicies:
    """A file, or all `*.toml` of a directory, that somebody named: it has to be there."""
    return load_directory(path, tier) if path.is_dir() else load_file(path, tier)


def _administrators(directory: Path, owner: int) -> LoadedPolicies:
    """The administrator's rules. A place that others can write to speaks for nobody."""
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".toml"))
    except FileNotFoundError:
        return LoadedPolicies()
    except OSError as error:
        return _skipped(directory, f"cannot be read: {error.strerror or error}")
    parts: list[LoadedPolicies] = []
    for path in (directory, *(directory / name for name in names)):
        doubt = _doubt(path, owner)
        if doubt is not None:
            parts.append(_skipped(path, doubt))
            if path == directory:
                break
        elif path != directory:
            parts.append(load_file(path, Tier.ADMIN))
    return LoadedPolicies.joined(parts)


def _doubt(path: Path, owner: int) -> str | None:
    """Why a file or directory cannot be taken for the administrator's."""
    try:
        found = path.stat()
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if found.st_uid != owner:
        return f"is owned by user {found.st_uid}, not by {owner}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by others than its owner"
    return None


def _skipped(path: Path, message: str) -> LoadedPolicies:
    problem = PolicyProblem(
        file=str(path),
        message=f"{message}; it is skipped",
        remedy="An administrator has to own it, with no right to write for others (chmod go-w).",
    )
    return LoadedPolicies((), (problem,))
