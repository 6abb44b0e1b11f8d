"""Do the prefixes of rules hold for a command? Strictly to allow it, generously to restrict it."""

from fnmatch import fnmatchcase
from functools import lru_cache

import msgspec

from alhena.policy.bash.arguments import Match, match_words
from alhena.policy.bash.inner import ANYTHING, INPUT_IN_ARGUMENTS, inner_command
from alhena.policy.bash.literal import prefix_words, split_settings
from alhena.policy.bash.model import Part, Word
from alhena.policy.bash.options import base_name
from alhena.policy.bash.programs import FIND_ACTIONS, FINDERS
from alhena.policy.bash.reach import Command, shell_arguments
from alhena.policy.bash.wrappers import CODE_IN_DATA, EVALUATORS, OPAQUE, SHELLS

__all__ = ["Match", "allows", "prefix_words", "restricts", "unreached", "useless_prefix"]


class _Prefix(msgspec.Struct, frozen=True):
    settings: tuple[str, ...]
    words: tuple[str, ...]


@lru_cache(maxsize=4096)
def _divided(prefix: str) -> _Prefix | None:
    words = prefix_words(prefix)
    return None if words is None else _Prefix(*split_settings(words))


@lru_cache(maxsize=4096)
def prefix_name(prefix: str) -> str | None:
    """The program a restricting prefix is about, as `command_name` spells it; None when it may be
    any. Of two names neither of which is None, only equal ones can match: rules can be looked up
    by it."""
    found = _divided(prefix)
    return _name(found.words[0]) if found is not None and found.words else None


def command_name(command: Command) -> str | None:
    """The program a command runs, without its directory and in lower case; None when any may."""
    head = command.words[0]
    return _name(head.text) if head.literal else None


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
    divided = _divided(prefix)
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
    divided = _divided(prefix)
    if divided is None or not divided.words or len(part.words) < len(divided.words):
        return False
    settings, wanted = divided.settings, divided.words
    if part.words[0].text != wanted[0]:
        return False
    given = tuple(f"{a.name}={a.value.text}" for a in part.assignments if a.value.literal)
    plain = all(a.source.startswith(f"{a.name}=") for a in part.assignments)
    if not plain or given != settings or len(given) != len(part.assignments):
        return False
    same = all(
        word.literal and word.text == want for want, word in zip(wanted, part.words, strict=False)
    )
    return same and unreached(part.words, len(wanted)) is None


def useless_prefix(prefix: str) -> str | None:
    """Why an allow rule with this prefix can never allow anything; None when it can."""
    divided = _divided(prefix)
    if divided is None:
        return "it is more than literal words, and only those are compared"
    if not divided.words:
        return f"it names no program, only {' '.join(divided.settings)}"
    return unreached(tuple(Word(text) for text in divided.words), len(divided.words))


def unreached(words: tuple[Word, ...], length: int) -> str | None:
    """Why the first `length` words, all literal, do not yet say what `words` run; None when they
    do."""
    start = 0
    while True:
        rest = words[start:]
        head = rest[0]
        name = base_name(head.text)
        if not head.literal or not head.text or name in EVALUATORS | OPAQUE:
            return f"{name or 'an empty word'} makes later words mean something else"
        if head.text in CODE_IN_DATA - _HARMLESS_BUILTINS:
            return f"{name} can run code hidden in its arguments"
        if name in SHELLS:
            return _shell_reaches(rest, length - start)
        if name in FINDERS:
            return _actions_reach(rest, length - start)
        inner = inner_command(rest)
        if inner is None or inner.alone or inner.wrapper.remote:
            return None
        last = max((at for at, _ in inner.starts), default=len(rest))
        if not inner.certain or last >= length - start:
            return f"{inner.via} runs another command, and the prefix does not name it"
        if len(inner.starts) > 1 or inner.wrapper.code:
            # More than one reading: all of them have to be in the prefix to their end.
            return None if len(rest) == length - start else f"{inner.via} can be read in two ways"
        start += last
        if inner.via in INPUT_IN_ARGUMENTS:
            words = (*words, ANYTHING)


def _actions_reach(words: tuple[Word, ...], length: int) -> str | None:
    """The commands of `find -exec` within the prefix; those behind it are hazards."""
    for at, word in enumerate(words[:length]):
        if word.text in FIND_ACTIONS:
            left = length - at - 1
            found = unreached((*words[at + 1 :], ANYTHING), left)
            if found is not None or left < 1:
                return found or f"{word.text} runs a command that the prefix does not name"
    return None


_HARMLESS_BUILTINS = frozenset({"[", "test", "printf", "wait", "jobs"})


def _shell_reaches(words: tuple[Word, ...], length: int) -> str | None:
    name = base_name(words[0].text)
    found = shell_arguments(words)
    if found.informs and len(words) <= length:
        return None
    if found.operand is None or found.operand >= length or found.reads_input or not found.certain:
        return f"{name} runs any command, and the prefix does not name the script or the code"
    if found.code is not None and len(words) != length:
        return f"{name} -c runs code that may use the words behind it"
    script = words[found.operand].text
    if found.code is None and (script == "-" or script.startswith(("/dev/", "/proc/"))):
        return f"{name} runs what it reads from {script}"
    return None
