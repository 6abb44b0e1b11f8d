"""Do the prefixes of rules hold for a command? Strictly to allow it, generously to restrict it."""

from fnmatch import fnmatchcase
from functools import lru_cache

from alhena.policy.bash.arguments import Match, match_words
from alhena.policy.bash.covers import unreached, useless_prefix
from alhena.policy.bash.literal import divided_prefix, prefix_words
from alhena.policy.bash.model import Part, Word
from alhena.policy.bash.options import base_name
from alhena.policy.bash.reach import Command, Reach

__all__ = [
    "Match",
    "allows",
    "prefix_words",
    "programs_of",
    "restricts",
    "unreached",
    "useless_prefix",
]


@lru_cache(maxsize=4096)
def prefix_name(prefix: str) -> str | None:
    """The program a restricting prefix is about, as `command_name` spells it; None when it may be
    any. Of two names neither of which is None, only equal ones can match: rules can be looked up
    by it."""
    found = divided_prefix(prefix)
    return _name(found.words[0]) if found is not None and found.words else None


def command_name(command: Command) -> str | None:
    """The program a command runs, without its directory and in lower case; None when any may."""
    head = command.words[0]
    return _name(head.text) if head.literal else None


def programs_of(reach: Reach) -> frozenset[str | None]:
    """The programs that may run, as `prefix_name` spells them; None is among them when any may."""
    names = [command_name(command) for command in reach.commands]
    return frozenset(names if reach.complete else [*names, None])


def _name(text: str) -> str:
    return base_name(text).casefold().removesuffix(".exe")


def restricts(prefix: str, command: Command) -> Match:
    """Is a deny or ask rule with this prefix meant for the command, however it is written?

    Programs compare without their directory; options between the words, their order and their
    spelling do not matter. MAYBE where an expansion, an unknown option or a guess leaves it open.
    """
    name, wanted = command_name(command), prefix_name(prefix)
    if name != wanted and name is not None and wanted is not None:
        return Match.NO
    divided = divided_prefix(prefix)
    if divided is None:
        found = _restricts_pattern(prefix, command)
    elif not divided.words:
        return Match.NO
    else:
        found = match_words(divided.words, command.words)
        if found is not Match.NO:
            found = min([found, *(_setting(text, command) for text in divided.settings)])
    return found if command.sure else min(found, Match.MAYBE)


def _setting(text: str, command: Command) -> Match:
    name = text.partition("=")[0]
    best = Match.NO
    for word in command.settings:
        if word.literal and word.text == text:
            best = Match.YES
        elif not word.literal and word.text.startswith(f"{name}=") and best is Match.NO:
            best = Match.MAYBE
    return best


def _restricts_pattern(prefix: str, command: Command) -> Match:
    """For a prefix that is no literal words: its globs are matched, the rest is compared as
    written."""
    wanted, whole = _pattern_words(prefix)
    if not wanted:
        normal = " ".join(prefix.split())
        written = " ".join(word.source or word.text for word in command.words)
        return Match.YES if normal and written.startswith(normal) else Match.NO
    if len(command.words) < len(wanted) and command.literal:
        return Match.NO
    best = Match.YES if whole else Match.MAYBE
    for index, (want, word) in enumerate(zip(wanted, command.words, strict=False)):
        best = min(best, _pattern_word(want, word, first=index == 0))
        if not word.literal and best is Match.MAYBE and word.source != want.source:
            return Match.MAYBE
    return best if len(command.words) >= len(wanted) else min(best, Match.MAYBE)


def _pattern_word(want: Word, word: Word, *, first: bool) -> Match:
    if want.source and want.source == word.source:
        return Match.YES
    if not word.literal:
        return Match.MAYBE
    text = base_name(word.text) if first else word.text
    if want.literal:
        return Match.YES if text == (base_name(want.text) if first else want.text) else Match.NO
    return Match.YES if fnmatchcase(text, want.source) else Match.NO


@lru_cache(maxsize=1024)
def _pattern_words(prefix: str) -> tuple[tuple[Word, ...], bool]:
    """The words of the first command of a prefix, and whether they are all of it."""
    from alhena.policy.bash.reader import analyse

    analysis = analyse(prefix)
    parts = [part for part in analysis.parts if part.words]
    if not parts:
        return (), False
    first = parts[0]
    whole = analysis.complete and len(analysis.parts) == 1
    return first.words, whole and not first.redirections and not first.assignments


def allows(prefix: str, part: Part) -> bool:
    """Does an allow rule with this prefix reach to everything that decides what `part` runs?

    Assignments and words have to be the prefix's, word for word. Of a wrapper, the prefix has to
    hold the command inside it; of a shell, its whole code; what evaluates its arguments is never
    allowed. Redirections and hazardous arguments are the caller's to look at.
    """
    divided = divided_prefix(prefix)
    if divided is None or not divided.words or len(part.words) < len(divided.words):
        return False
    settings, wanted = divided.settings, divided.words
    for want, word in zip(wanted, part.words, strict=False):
        if word.text != want or not word.literal:
            return False
    if not _same_settings(settings, part):
        return False
    return unreached(part.words, len(wanted)) is None


def _same_settings(settings: tuple[str, ...], part: Part) -> bool:
    if not part.assignments:
        return not settings
    given = tuple(f"{a.name}={a.value.text}" for a in part.assignments if a.value.literal)
    plain = all(a.source.startswith(f"{a.name}=") for a in part.assignments)
    return plain and given == settings and len(given) == len(part.assignments)
