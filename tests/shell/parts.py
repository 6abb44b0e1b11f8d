"""Parts of command lines, and what rules make of them."""

from alhena.shell.parse.analysis import analyse
from alhena.shell.parse.model import Part
from alhena.shell.prefix import Match, restricts
from alhena.shell.reach import Reach, reach


def part(command: str) -> Part:
    """The one part of a command line."""
    (only,) = analyse(command).parts
    return only


def reaches(command: str) -> tuple[Reach, ...]:
    """Reach of each part of a command line."""
    return tuple(reach(p) for p in analyse(command).parts)


def texts(command: str, *, sure: bool = True) -> set[str]:
    """The commands that a line surely comes down to, or the guesses."""
    return {c.text for r in reaches(command) for c in r.commands if c.sure is sure}


def complete(command: str) -> bool:
    """Is all that the line may run in sight?"""
    analysis = analyse(command)
    return analysis.complete and all(reach(p).complete for p in analysis.parts)


def meant(prefix: str, command: str) -> Match:
    """Match of a restricting rule with this prefix against a command line."""
    found = [restricts(prefix, c) for r in reaches(command) for c in r.commands]
    best = max(found, default=Match.NO)
    return best if complete(command) else max(best, Match.MAYBE)
