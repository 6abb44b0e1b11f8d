"""Changes of the shell that a command line does not show: of its directory, its variables, and the
meaning of its commands."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from alhena.shell.languages.sed_awk import MAX_SCRIPTS
from alhena.shell.parse.analysis import analyse
from alhena.shell.parse.expansion import PLACE, STAR, UnknownError, Variables
from alhena.shell.parse.model import Part, Word
from alhena.shell.parse.simple_command import DECLARATIONS, DIRECTORY, run_here
from alhena.shell.reach import Reach, reach
from alhena.shell.tables import listed

_RUN_BEFORE = frozenset({"BASH_ENV", "BASHOPTS", "ENV", "PROMPT_COMMAND", "SHELLOPTS"})
_MEANINGS = frozenset({"BASH_ALIASES", "BASH_CMDS"})
_HARMLESS_FLAGS = frozenset("aefuxvbhmnCETo")
_HARMLESS_OPTIONS = frozenset(
    {
        *("allexport", "braceexpand", "errexit", "errtrace", "functrace", "monitor", "noclobber"),
        *("noexec", "noglob", "notify", "nounset", "pipefail", "verbose", "xtrace"),
        *("checkhash", "checkjobs", "dotglob", "extglob", "failglob", "globasciiranges"),
        *("globskipdots", "globstar", "histappend", "huponexit", "inherit_errexit", "nocaseglob"),
        *("nocasematch", "nullglob", "xpg_echo"),
    }
)
"""Options of `set -o` and `shopt` that change neither directories nor the meaning of commands."""


def redefines(words: Sequence[Word]) -> str | None:
    """The reason why a command may change what the names of later commands mean."""
    name = words[0].text
    flags = [word.text for word in words[1:] if word.text[:1] == "-"]
    alias = name == "alias" and any("=" in w.text or not w.literal for w in words[1:])
    if alias or (name == "hash" and any("p" in each for each in flags)):
        return f"{name} changes which program a later command runs"
    if name == "enable" and any("f" in each for each in flags):
        return "enable -f loads code"
    if any(word.text.startswith(tuple(_MEANINGS)) for word in words[1:]) and name != "unset":
        return f"{words[1].text} changes which program a later command runs"
    return None


class ShellChanges:
    """The code of one command line, with all that shells within it are given. `is_own` says
    whether a path from where the line begins lies in the workspace."""

    def __init__(self, command: str, parts: Sequence[Part], is_own: Callable[[str], bool]) -> None:
        self.parts = parts
        self._command = command
        self._is_own = is_own
        self._moving: dict[int, bool] = {}  # parts that may move unseen, as far as looked at

    @cached_property
    def _reaches(self) -> tuple[Reach, ...]:
        return tuple(map(reach, self.parts))

    @cached_property
    def _inner(self) -> tuple[tuple[Part, ...], ...]:
        """The parts of the code within each part."""
        return tuple(
            tuple(part for _, code in each.codes for part in analyse(code).parts)
            for each in self._reaches
        )

    @cached_property
    def commands(self) -> tuple[tuple[Word, ...], ...]:
        """The words of every command of the line, also within others."""
        found = (each for reached in self._reaches for each in reached.commands if each.sure)
        return tuple(each.words for each in found) if not self._long else ()

    @property
    def _long(self) -> bool:
        return len(self._command) > MAX_SCRIPTS

    def variables(self, substituted: Callable[[str], Iterable[str]]) -> Variables:
        """The variables of the line; `substituted` has the texts that a substitution may write."""
        if self._long:
            return Variables((), substituted, known=False)
        known = [part for parts in (self.parts, *self._inner) for part in parts]
        known = [part for part in known if not self._activates(part.words, part.directories)]
        codes = (code for each in self._reaches for _, code in each.codes)
        settings = (
            Part(text="", words=(Word("export"), *command.settings))
            for each in self._reaches
            for command in each.commands
            if command.settings and command.sure
        )
        return Variables((*known, *settings), substituted, texts=(self._command, *codes))

    def defines_functions(self) -> bool:
        """May a name be a function of the line's own?"""
        return self._long or any(part.deferred for part in self.parts)

    def changes_meaning(self, part: Part) -> str | None:
        """The reason why a part changes what commands mean by an assignment."""
        for each in part.assignments:
            if each.name in _MEANINGS:
                return f"{each.source} changes which program a later command runs"
        return None

    def hides_directory(self, part: Part, variables: Variables, *, inside: bool) -> bool:
        """May the shell be in another directory than the line shows when it runs `part`, or code
        `inside` that?"""
        if self._long:
            return True
        places = [at for at, each in enumerate(self.parts) if each == part]
        place = places[-1] if places else len(self.parts)
        late = part.deferred or (inside and bool(part.words) and _runs_late(part.words))
        for at, other in enumerate(self.parts):
            if other.nested and not part.nested:
                continue  # a process of its own
            before = at < place or bool(part.loops) or late or (inside and at == place)
            if before and at not in self._moving:
                self._moving[at] = self._moves_unseen(at, variables)
            if before and self._moving[at]:
                return True
            if late and at > place and _changes_directory(other):
                return True
        return False

    def _moves_unseen(self, at: int, variables: Variables) -> bool:
        part, reached, inner = self.parts[at], self._reaches[at], self._inner[at]
        if part.deferred and _changes_directory(part):
            return True
        names = [name for each in (part, *inner) for name in _names_set(each)]
        names += [w.text.partition("=")[0] for each in reached.commands for w in each.settings]
        if any(name in _RUN_BEFORE for name in names):
            return True
        commands = [each.words for each in reached.commands if each.sure]
        here = [(each.words, each.directories) for each in reached.commands if each.sure]
        here += [(each.words, each.directories) for each in inner]
        for words, directories in here:
            if _may_move(run_here(words), variables) and not self._activates(words, directories):
                return True
        evaluators = listed("evaluators")
        if reached.unread and any(words[0].text in evaluators for words in commands):
            return True
        if any(each.deferred for each in inner) and any(map(_changes_directory, inner)):
            return True
        codes = [code for via, code in reached.codes if via in evaluators]
        return any(_changes_directory(each) for code in codes for each in analyse(code).parts)

    def _activates(self, words: Sequence[Word], directories: Sequence[Word]) -> bool:
        """Does a command source `bin/activate` of a Python environment in the workspace? That sets
        variables of its own, and changes neither others nor the directory."""
        words = run_here(words)
        if len(words) != 2 or words[0].text not in {".", "source"}:
            return False
        path, plain = "", Variables(())
        for word in (*directories, words[1]):
            try:
                texts = plain.texts(word)
            except UnknownError:
                return False
            if len(texts) != 1 or STAR in texts[0]:
                return False
            path = os.path.join(path, texts[0].replace(PLACE, path or "."))
        return path.endswith("/bin/activate") and self._is_own(path)


def _names_set(part: Part) -> Iterator[str]:
    """The variables that a part assigns or declares."""
    yield from (each.name for each in part.assignments)
    words = run_here(part.words)
    if words and words[0].text in DECLARATIONS:
        yield from (word.text.partition("=")[0] for word in words[1:])


def _changes_directory(part: Part) -> bool:
    words = run_here(part.words)
    return bool(words) and words[0].text in DIRECTORY


def _runs_late(words: Sequence[Word]) -> bool:
    return any(word.text == "trap" for word in words[:3])


def _may_move(words: Sequence[Word], variables: Variables) -> bool:
    """May a command run code that is not in the line, or change how the shell finds directories?"""
    if not words:
        return False
    if not words[0].literal:
        own = DIRECTORY | listed("evaluators") | listed("opaque") | {"builtin", "command", "set"}
        return variables.may_run(words, own)
    given = [word.text for word in words[1:]]
    flags = [each for each in given if each[:1] == "-"]
    match words[0].text:
        case "." | "source" | "compgen" | "fc":
            return True
        case "enable":
            return bool(given)
        case "jobs" | "mapfile" | "readarray" as name:
            return any(("x" if name == "jobs" else "C") in flag for flag in flags)
        case "shopt":
            return not _HARMLESS_OPTIONS.issuperset(each for each in given if each not in flags)
        case "set":
            return not _sets_harmlessly(words[1:])
        case _:
            return False


def _sets_harmlessly(words: Sequence[Word]) -> bool:
    named = False
    for word in words:
        text = word.text
        if named and word.literal and text in _HARMLESS_OPTIONS:
            named = False
        elif named or not word.literal:
            return not named and word.source[:1] != "-" and not word.split
        elif text in {"-", "--"} or text[:1] not in {"-", "+"}:
            return True
        elif not _HARMLESS_FLAGS.issuperset(text[1:]):
            return False
        else:
            named = "o" in text
    return True
