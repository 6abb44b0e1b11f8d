"""The one command that has to run outside: ending what this session runs."""

import re
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alhena.system.processes import ProcessGroups

_PLAIN = re.compile(r"[A-Za-z0-9 \t-]+")
_TARGET = re.compile(r"-?[0-9]{1,10}")


def ends_own(command: str, groups: "ProcessGroups | None") -> bool:
    """Whether a command line does nothing but end what `groups` has kept of this session."""
    if groups is None or not command.lstrip().startswith("kill"):
        return False
    return only_ends(command, frozenset(groups.pgids), frozenset(groups.members))


def only_ends(command: str, groups: frozenset[int], members: frozenset[int]) -> bool:
    """Whether a command line is one `kill` of processes of this session and nothing else.

    Inside a sandbox the numbers of processes are others (bwrap), or signals stay inside
    (Landlock). `-N` needs N to be in `groups`, N in `members`. Pure.
    """
    words = command.split()
    if not words or words[0] != "kill" or not _PLAIN.fullmatch(command):
        return False
    targets = words[1:]
    if targets[:1] == ["-s"]:
        if len(targets) < 2 or not _is_signal(targets[1]):
            return False
        targets = targets[2:]
    elif targets[:1] != ["--"] and targets and targets[0].startswith("-"):
        if not _is_signal(targets[0][1:]):
            return False
        targets = targets[1:]
    if targets[:1] == ["--"]:
        targets = targets[1:]
    return bool(targets) and all(
        _TARGET.fullmatch(word) is not None
        and abs(int(word)) in (groups if word.startswith("-") else members)
        for word in targets
    )


def _is_signal(word: str) -> bool:
    if word.isdigit():
        return int(word) in signal.valid_signals()
    name = word.upper()
    return (name if name.startswith("SIG") else f"SIG{name}") in signal.Signals.__members__
