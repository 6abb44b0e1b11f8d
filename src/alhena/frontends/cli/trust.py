"""`alhena trust`: which folders may say anything about how the agent works."""

import os
from collections.abc import Iterable
from pathlib import Path

from alhena.config.effective_settings import Place, TrustLevel, open_place, trust_entries
from alhena.config.home import agent_folders, trusted_folders_path
from alhena.config.layers import LayerKind
from alhena.config.pinned_entries import BoundEntry, bound_entries
from alhena.display_text import escaped
from alhena.errors import InputError, UsageError
from alhena.frontends.shared.arguments import parse_arguments
from alhena.frontends.shared.consent import ConsentList, pending_lines
from alhena.frontends.shared.folder_trust import (
    accept,
    accept_waiting,
    aside_words,
    call_data,
    find_waiting,
    forget_trust,
    set_aside,
    write_trust,
)
from alhena.frontends.shared.streams import write_json, write_lines
from alhena.system.workspace import current_directory

USAGE = """\
usage: alhena trust [PATH] [--parent | --never | --forget | --data FILE]
       alhena trust --status [PATH] [--json]
       alhena trust --list [--json]

Trusts a folder (default: this one) and the folders in it: their settings, hooks, servers, policies,
context and .env files are read. Each hook still needs your approval. Servers, commands and agents
are accepted as they are now; after a change they are held back until this command accepts them
again.

  --parent   trust the parent folder of PATH
  --never    do not trust it, and do not ask again
  --forget   forget the decision and everything accepted
  --data     trust the folder, and treat FILE in it as data of its servers: its changes need no
             approval
  --status   show whether the folder is trusted, why, and what in it needs trust
  --list     list all decisions
  --json     print JSON
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena trust ARGV`; returns the exit code."""
    options = parse_arguments(
        "alhena trust",
        argv,
        "[PATH] --parent --never --forget --data=FILE --status --list --json",
    )
    kinds = ("parent", "never", "forget", "data", "status", "list")
    given = [f"--{kind}" for kind in kinds if getattr(options, kind) not in (None, False)]
    if len(given) > 1:
        raise UsageError(f"{given[0]} contradicts {given[1]}.", remedy="See alhena trust --help.")
    if options.json and not (options.list or options.status):
        raise UsageError("--json needs --list or --status.", remedy="See alhena trust --help.")
    if options.list:
        if options.path is not None:
            raise UsageError("--list takes no path.", remedy="See alhena trust --help.")
        return _list(as_json=options.json)
    folder = _folder(options.path)
    if options.status:
        return _status(folder, as_json=options.json)
    for moved in set_aside(os.environ):
        _say(f"{aside_words(moved)}.")
    if options.forget:
        there = forget_trust(os.environ, folder)
        _say(f"{folder}: {'forgotten' if there else 'nothing was said of it'}.")
        return 0
    if options.data is not None:
        _require_data(folder, options.data)
    level = TrustLevel.DO_NOT_TRUST if options.never else TrustLevel.TRUST_FOLDER
    code = _write_level(folder, TrustLevel.TRUST_PARENT if options.parent else level)
    if options.data is not None:
        _call_data(folder, options.data)
    return code


def _write_level(folder: Path, level: TrustLevel) -> int:
    # Of a folder that is not to be trusted any more nothing is read, however broken it is.
    never = level is TrustLevel.DO_NOT_TRUST
    before = None if never else open_place(folder, os.environ)
    waits = ConsentList(os.environ) if before is None else find_waiting(before)
    file = write_trust(os.environ, folder, level)
    after = open_place(folder, os.environ)
    if before is not None and after.trust.lasting:
        after = accept_waiting(before, waits)
    unread = waits.lines
    word = "trusted" if after.trust.trusted else "not trusted"
    _say(f"{folder} is {word}: {after.trust.reason}.")
    if level is TrustLevel.TRUST_PARENT and after.trust.trusted:
        _say(f"So is what else is in {folder.parent}.")
    if after.trust.trusted and unread:
        _say("From now on these are read:")
        for line in unread:
            _say(f"  {line}")
    _accept_rest(after)
    _accept_agents(after)
    if after.trust.trusted == never:
        _say(f"What was written to {file} does not apply here.")
    return 0


def _accept_agents(place: Place) -> None:
    """Accepts the agents of the folder as they are, and says which are new or changed."""
    folders = agent_folders(place.environ, place.cwd, trusted=place.trust.trusted)
    of_project = [each for each in folders if each[0] == "workspace"]
    if not of_project:
        return
    from alhena.agent.subagents.files import AgentFiles, accept_agents, sources_of

    files = AgentFiles(sources_of(of_project, place.environ, place.cwd), {})
    new = [agent for agent in files.found if agent.is_held]
    if not new:
        return
    accept_agents(place.environ, place.cwd, new)
    _say("These agents are accepted as they are now:")
    shown = ConsentList(place.environ, place.settings.security.environment_variable_redaction)
    for agent in new:
        shown.add(str(agent.path), indent="  ")
        shown.add_agent(agent.definition, place.cwd, given=False, indent="    ")
    for line in shown.lines:
        _say(line)


def _accept_rest(place: Place) -> None:
    """Servers and commands that are not as they were accepted: shows each, and accepts it."""
    if place.pending:
        _say("These servers and commands are accepted as they are now:")
        _tell_pending(place, place.pending)
        accept(place, place.pending)


def _require_data(folder: Path, path: str) -> None:
    """Before anything is accepted: raises InputError where nothing has a file as its own data."""
    place = open_place(folder, os.environ, skip_trust=True)
    variables = dict(place.environ)
    for found in place.env_files:
        variables |= found.variables
    entries = (
        each
        for layer in place.layers
        if layer.kind is LayerKind.WORKSPACE
        for each in bound_entries(layer.written, folder, variables)
    )
    known = sorted({name for each in entries for name in each.loose})
    wanted = os.path.realpath(folder / path)
    if all(os.path.realpath(folder / name) != wanted for name in known):
        raise InputError(
            f"{path} is no file that can be the data of a server or command of {folder}: none "
            "names it, or it may be run, or it is not watched anyway.",
            remedy=f"These can be: {', '.join(known) or 'none'}.",
        )


def _call_data(folder: Path, path: str) -> None:
    """Takes a file for the own data of what names it."""
    for each in call_data(open_place(folder, os.environ), path):
        _say(f"{each.label} may change {', '.join(each.data)}: alhena will not ask about it.")


def _folder(given: str | None) -> Path:
    folder = Path(os.path.abspath(current_directory() / (given or ".")))
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}.", remedy="Name an existing one.")
    return folder


def _status(folder: Path, *, as_json: bool) -> int:
    place = open_place(folder, os.environ)
    trust = place.trust
    if as_json:
        write_json(
            {
                "folder": str(folder),
                "trusted": trust.trusted,
                "known": trust.known,
                "reason": trust.reason,
                "unread": place.unread,
                "pending": {each.key: each.why for each in place.pending},
            }
        )
        return 0
    _say(f"{folder} is {'trusted' if trust.trusted else 'not trusted'}: {trust.reason}.")
    _tell_waiting(place)
    return 0


def _tell_waiting(place: Place) -> None:
    if place.unread:
        _say("These are not read:")
        for line in find_waiting(place).lines:
            _say(f"  {line}")
    if place.pending:
        _say("These servers and commands are held back (alhena trust accepts them):")
        _tell_pending(place, place.pending)


def _tell_pending(place: Place, entries: Iterable[BoundEntry]) -> None:
    for each in entries:
        for line in pending_lines(each, place.settings.security.environment_variable_redaction):
            _say(f"  {line}")


def _list(*, as_json: bool) -> int:
    file = trusted_folders_path(os.environ)
    entries = trust_entries(file)
    if as_json:
        write_json([{"path": path, "level": level} for path, level in entries])
        return 0
    for path, level in entries:
        _say(f"{level:13} {path}")
    if not entries:
        _say("No folder is trusted or distrusted.")
    return 0


def _say(line: str) -> None:
    write_lines([escaped(line)])
