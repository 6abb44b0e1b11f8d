"""The policy of a session from all its sources."""

import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from alhena.config.effective_settings import folder_trust
from alhena.config.home import (
    saved_policies_path,
    user_checkers_path,
    user_policies_path,
    workspace_policies_path,
)
from alhena.config.settings import Settings
from alhena.policy.engine import PolicyFilter
from alhena.policy.load import (
    LoadedPolicies,
    PolicyProblem,
    load_directory,
    load_file,
)
from alhena.policy.model import PolicyOutcome, PolicyRule, Tier
from alhena.policy.settings_rules import ToolNames, settings_policy, with_slips
from alhena.values import Value

if TYPE_CHECKING:
    from alhena.config.extensions import Extension
    from alhena.policy.checker import SafetyChecker

ADMIN_DIRECTORY = Path("/etc/gemini-cli/policies")
DEFAULTS = Path(__file__).parent / "defaults" / "defaults.json"


def load_policies(
    user_dir: Path | None,
    extra_paths: Iterable[Path] = (),
    admin_dir: Path = ADMIN_DIRECTORY,
    admin_owner: int = 0,
) -> LoadedPolicies:
    """All rules and checkers of all tiers. `extra_paths` are files or directories beside the user's
    own; None for `user_dir` leaves the user's out. `admin_owner` is the user id that has to own an
    administrator's files."""
    parts = [default_policies()]
    if user_dir is not None:
        parts.append(load_directory(user_dir, Tier.USER))
    parts += [load_path(path, Tier.USER) for path in extra_paths]
    parts.append(_administrators(admin_dir, admin_owner))
    return LoadedPolicies.join(parts)


@cache
def default_policies() -> LoadedPolicies:
    """The rules that come with the package (`defaults/*.toml`, compiled by
    scripts/compile_policy.py, which checks them): read once, for all sessions of the process."""
    return LoadedPolicies(msgspec.json.decode(DEFAULTS.read_bytes(), type=tuple[PolicyRule, ...]))


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


def unread_restrictions(folder: Path, known: Collection[str]) -> tuple[str, ...]:
    """The problems of the policies in the folder of an extension: runs continue without those
    rules, so what they would restrict is not restricted. `known`: the names of built-in tools."""
    loaded = with_slips(load_directory(folder / "policies", Tier.USER), known)
    return tuple(
        f"{str(each).rstrip('.')}. What it would restrict is not restricted."
        if each.is_error and each.weakens
        else str(each)
        for each in loaded.problems
    )


def load_path(path: Path, tier: Tier) -> LoadedPolicies:
    """A file, or all `*.toml` of a directory, that was named: it has to exist."""
    return load_directory(path, tier) if path.is_dir() else load_file(path, tier)


def _administrators(directory: Path, owner: int) -> LoadedPolicies:
    """The administrator's rules. A place that others can write to is not used."""
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".toml"))
    except FileNotFoundError:
        return LoadedPolicies()
    except OSError as error:
        return _skip_file(directory, f"cannot be read: {error.strerror or error}")
    parts: list[LoadedPolicies] = []
    for path in (directory, *(directory / name for name in names)):
        doubt = _doubt(path, owner)
        if doubt is not None:
            parts.append(_skip_file(path, doubt))
            if path == directory:
                break
        elif path != directory:
            parts.append(load_file(path, Tier.ADMIN))
    return LoadedPolicies.join(parts)


def _doubt(path: Path, owner: int) -> str | None:
    """The reason why a file or directory cannot be taken for the administrator's."""
    try:
        found = path.stat()
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if found.st_uid != owner:
        return f"is owned by user {found.st_uid}, not by {owner}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "can be written by others than its owner"
    return None


def _skip_file(path: Path, message: str) -> LoadedPolicies:
    problem = PolicyProblem(
        file=str(path),
        message=f"{message}; it is skipped",
        remedy="An administrator has to own it, with no right to write for others (chmod go-w).",
    )
    return LoadedPolicies((), (problem,))


_MOST_TOLD = 8


class PolicyRequest(Value, frozen=True, kw_only=True):
    """Whose policy is wanted: a workspace at `cwd`, with these settings and variables.

    `paths` are those of `--policy`, relative to `cwd`; `rules` a program's own; `extensions` the
    name and policy directory of each, `excluded` the tools that they exclude.
    """

    cwd: Path
    environ: Mapping[str, str]
    settings: Settings
    tool_names: ToolNames = ToolNames()
    paths: tuple[str | os.PathLike[str], ...] = ()
    rules: tuple[PolicyRule, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    skip_trust: bool = False
    extensions: tuple[tuple[str, Path], ...] = ()
    excluded: frozenset[str] = frozenset()


class GatheredPolicy(Value, frozen=True, kw_only=True):
    """The policy of a session. `checkers` look at calls behind rules and filters. `named_errors`
    are the errors in what `--policy` named. `notes` are for people who look closer: what was left
    out, and why."""

    rules: tuple[PolicyRule, ...]
    filters: tuple[PolicyFilter, ...]
    problems: tuple[PolicyProblem, ...]
    named_errors: tuple[PolicyProblem, ...]
    trusted: bool
    notes: tuple[str, ...] = ()
    checkers: tuple["SafetyChecker", ...] = ()

    @property
    def fatal(self) -> tuple[PolicyProblem, ...]:
        """The problems that end a run: errors in what was named, and those that may
        have dropped a restriction."""
        weaker = (each for each in self.problems if each.is_error and each.weakens)
        return tuple(dict.fromkeys((*self.named_errors, *weaker)))


def excluded_tools(extensions: Iterable["Extension"]) -> frozenset[str]:
    """The tools that extensions exclude, as they are written."""
    return frozenset(name for each in extensions for name in each.manifest.exclude_tools)


def join_problems(problems: Sequence[PolicyProblem]) -> str:
    """Problems as one sentence, each with its remedy, the first few by name."""
    told = [str(each).rstrip(".") for each in problems[:_MOST_TOLD]]
    more = len(problems) - len(told)
    return "; ".join([*told, *([f"and {more} more such problems"] if more else [])])


def gather_policy(request: PolicyRequest) -> GatheredPolicy:
    """Reads all sources. What is wrong in files is among the problems.

    Raises ConfigError for settings, or a list of trusted folders, that cannot be used.
    """
    settings, environ = request.settings, request.environ
    extra = (request.cwd / path for path in settings.policy_paths)
    known = {*request.tool_names.declared, *request.tool_names.accepted}
    own = with_slips(
        LoadedPolicies.join(
            (
                load_policies(user_policies_path(environ), extra),
                *(
                    load_path(request.cwd / path, Tier.ADMIN)
                    for path in settings.admin_policy_paths
                ),
            )
        ),
        known,
    )
    named = with_slips(
        LoadedPolicies.join(load_path(request.cwd / path, Tier.USER) for path in request.paths),
        known,
    )
    trust = folder_trust(
        request.cwd,
        environ,
        enabled=settings.security.folder_trust.enabled,
        skip=request.skip_trust,
    )
    written = settings_policy(
        settings,
        request.tool_names,
        request.allowed_tools,
        trusted=trust.trusted,
        foreign=request.excluded,
    )
    filters, limits, notes = _filters(request, trusted=trust.trusted, why=trust.reason)
    checkers = (*own.checkers, *named.checkers, *limits.checkers)
    programs = (replace(rule, tier=Tier.USER) for rule in request.rules)
    rules = (*written.rules, *programs, *own.rules, *named.rules)
    if settings.security.disable_always_allow:
        saved = saved_policies_path(environ)
        rules = tuple(rule for rule in rules if not is_saved_approval(rule, saved))
    return GatheredPolicy(
        rules=rules,
        filters=(*written.filters, *filters),
        problems=(
            *own.problems,
            *named.problems,
            *written.problems,
            *limits.problems,
            *_without_program(checkers, environ),
        ),
        named_errors=named.errors,
        trusted=trust.trusted,
        notes=tuple(notes),
        checkers=checkers,
    )


def _filters(
    request: PolicyRequest, *, trusted: bool, why: str
) -> tuple[list[PolicyFilter], LoadedPolicies, list[str]]:
    """The filters of the workspace and of extensions, their checkers and problems, and notes."""
    directory = workspace_policies_path(request.cwd)
    known = {*request.tool_names.declared, *request.tool_names.accepted}
    notes: list[str] = []
    sources = [
        (path, "extension", f"the extension {name} ({path})") for name, path in request.extensions
    ]
    # In the home directory these are the user's own, and hold already.
    if os.path.realpath(directory) != os.path.realpath(user_policies_path(request.environ)):
        if trusted:
            sources.insert(0, (directory, "workspace", f"the workspace ({directory})"))
        elif directory.is_dir():
            notes.append(f"{directory} is not read: the folder is not trusted ({why}).")
    filters: list[PolicyFilter] = []
    rest: list[LoadedPolicies] = []
    for path, layer, name in sources:
        found, beside = load_filter(path, layer=layer, name=name)
        beside = with_slips(beside, known)
        if layer == "extension":  # said when it is installed, and by `alhena extensions list`
            notes += (f"policy of {name}: {each}" for each in beside.problems)
            beside = replace(beside, problems=())
        rest.append(beside)
        if found is not None:
            filters.append(found)
    return filters, LoadedPolicies.join(rest), notes


def _without_program(
    checkers: tuple["SafetyChecker", ...], environ: Mapping[str, str]
) -> tuple[PolicyProblem, ...]:
    if not checkers:
        return ()
    from alhena.policy.safety_checks import CheckerRegistry

    return CheckerRegistry(user_checkers_path(environ)).problems(checkers)


IN_SESSION = "approved for this session"
FOR_GOOD = "approved permanently"
"""Sources of the rules that approvals add."""


def is_saved_approval(rule: PolicyRule, saved: Path) -> bool:
    """True when a rule is an approval of the file `saved`."""
    return (
        rule.decision is PolicyOutcome.ALLOW
        and rule.file is not None
        and os.path.realpath(rule.file) == os.path.realpath(saved)
    )
