"""One walk over the arguments of a program by whose options more happens than reading."""

from collections.abc import Callable

from alhena.policy.bash.hazard_table import (
    ELSEWHERE,
    NOT_PLAIN,
    RUNS,
    SETTINGS,
    WRITES,
    Hazards,
    Style,
    option_name,
)
from alhena.policy.bash.model import Word, WordKind
from alhena.policy.bash.options import is_option
from alhena.policy.bash.scripts import ScriptEffect, awk_effect, sed_effect

SINKS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "-"})

SCRIPTED = {
    "sed": frozenset({"e", "expression"}),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), frozenset({"e", "source"})),
}
"""Program -> its options whose value is a script."""

_WHOLE = (Style.WORDS, Style.FOLDED, Style.NOPT)


def named(text: str, effect: str) -> str:
    """An argument does something that the rule does not speak of, as a sentence."""
    return f"{text} {effect}, and the rule does not name it"


def unknown(word: Word, name: str, effect: str) -> str:
    """An argument may become an option with an effect, as a sentence."""
    shown = word.source or word.text or "…"
    effect = effect if effect is not ELSEWHERE else "works elsewhere"
    return f"{shown} may turn out to be an option by which {name} {effect}"


def leads_out(word: Word) -> bool:
    """May a path lead out of the working directory, going by how it is written?"""
    text = word.text
    if not word.literal or text.startswith(("/", "~", "\\")) or "://" in text or text[1:2] == ":":
        return True
    return ".." in text.replace("\\", "/").split("/")


def script_effect(name: str, word: Word) -> str | None:
    """What a script of sed or awk does, as a sentence."""
    if not word.literal:
        return f"the {name} script holds {word.source or word.text}, which may be any command"
    match sed_effect(word.text) if name == "sed" else awk_effect(word.text):
        case ScriptEffect.NONE:
            return None
        case ScriptEffect.WRITES:
            return f"the {name} script writes a file"
        case ScriptEffect.RUNS:
            return f"the {name} script runs another program"
        case ScriptEffect.UNKNOWN:
            return f"the {name} script cannot be read with certainty"


class Reading:
    """The walk. `count` words, from the first, are named by the rule; `operand` judges what is no
    option."""

    def __init__(
        self,
        name: str,
        words: tuple[Word, ...],
        count: int,
        table: Hazards,
        operand: "Callable[[Reading, Word], str | None] | None" = None,
    ) -> None:
        self.name, self.words, self.count, self.table = name, words, count, table
        self.operand = operand
        self.seen: set[str] = set()
        self.operands = 0
        self.at = 1
        self.start = self.end = 1
        self.ended_at = len(words)
        self._ended = self._surely = False

    @property
    def beyond(self) -> bool:
        """Does the rule not name the word that is looked at?"""
        return self.at >= self.count

    def hazard(self) -> str | None:
        """The first argument with an effect that the rule does not name, as a sentence."""
        while self.at < len(self.words):
            word = self.words[self.at]
            found = None
            if not self._ended and word.literal and word.text == "--" and self._ends():
                self._end()
            elif self._is_option(word):
                found = self._option(word)
            else:
                found = self.operand(self, word) if self.operand else None
                self.operands += 1
            if found is not None:
                return found
            self.at += 1
        return None

    def _ends(self) -> bool:
        return self.table.style not in (Style.WORDS, Style.FOLDED)

    def _end(self) -> None:
        """Options end here, unless an option that is not known takes the two dashes for a value."""
        before = self.words[self.at - 1]
        flag = option_name(before.text, self.table.style) in self.table.harmless
        letter = len(before.text) == 2 and self.table.style is not Style.NOPT
        self._ended, self.ended_at = True, self.at
        self._surely = self.at == 1 or not is_option(before) or "=" in before.text or flag or letter

    def _is_option(self, word: Word) -> bool:
        """Is this an option, or may it become one?"""
        if self._ended and (self._surely or not word.literal or word.text == "--"):
            return False
        if is_option(word):
            return True
        return (
            not word.literal
            and word.text in {"", "-"}
            and not (word.kind is WordKind.PATTERN and word.source.startswith("~"))
            and bool(self.table.effects)
        )

    def _option(self, word: Word) -> str | None:
        self.start = self.end = self.at
        if self.table.style in _WHOLE:
            return self._whole(word)
        return self._long(word) if word.text.startswith("--") else self._letters(word)

    def _next(self, option: str) -> Word | None:
        """The next word, when it is the value of this option. It is passed over then, but one that
        looks like an option is read as such, too: programs and their versions differ in which
        options take a value."""
        if option not in self.table.values or self.at + 1 >= len(self.words):
            return None
        following = self.words[self.at + 1]
        self.end = self.at + 1
        both = is_option(following) and not (following.literal and following.text == "--")
        if not both and (following.literal or not following.split):
            self.at += 1
        return following

    def _pass_over(self, option: str, given: Word | None) -> None:
        if given is None:
            self._next(option)

    def _whole(self, word: Word) -> str | None:
        text, sign, value = word.text.partition("=")
        option = option_name(text, self.table.style)
        if self.table.style is Style.WORDS:
            option = option.partition(":")[0] or option
        if not word.literal and not sign:
            return self._may_become(word)
        given = Word(value, word.kind) if sign else None
        if option in self.table.harmless:
            return self._pass_over(option, given)
        if option in self.table.effects or option in self.table.values:
            return self._effect(text, option, given or self._next(option))
        if self.table.style is Style.NOPT:
            return self._shortened(text, option, given)
        return None

    def _shortened(self, text: str, option: str, given: Word | None) -> str | None:
        """npm takes any beginning of a name, and letters together."""
        for known in self.table.effects:
            if len(option) > 1 and known.startswith(option):
                return self._effect(text, known, given or self._next(known))
        bare = text.lstrip("-")
        for letter in bare if text[:2] != "--" else "":
            if letter in self.table.effects:
                return self._effect(text, letter, given or self._next(letter))
        beginning = "registry" if option.endswith(":registry") else option.partition(".")[0]
        return self._effect(text, beginning, given) if beginning in self.table.effects else None

    def _long(self, word: Word) -> str | None:
        text, sign, value = word.text[2:].partition("=")
        if not word.literal and not sign:
            return self._may_become(word)
        name = option_name(f"--{text}", self.table.style)
        given = Word(value, word.kind) if sign else None
        if name in self.table.harmless:
            return self._pass_over(name, given)
        if name in self.table.values or name in self.table.effects:
            return self._effect(f"--{text}", name, given or self._next(name))
        shortened = self.table.style is not Style.CAMEL
        for option in (*self.table.effects, *SCRIPTED.get(self.name, ())) if shortened else ():
            if len(option) > 1 and option[0] != "-" and option.startswith(name):
                return self._effect(f"--{text}", option, given or self._next(option))
        dotted = f"{name.partition('.')[0]}."
        return self._effect(f"--{text}", dotted, given) if dotted in self.table.effects else None

    def _letters(self, word: Word) -> str | None:
        text = word.text
        apart = self.table.style is Style.APART
        for index, letter in enumerate(text[1:], start=2):
            known = letter in self.table.values or letter in self.table.attached
            if not known and letter not in self.table.effects:
                continue
            attached = not apart and (index < len(text) or (known and not word.literal))
            value = Word(text[index:], word.kind) if attached else self._next(letter)
            found = self._effect(f"-{letter}", letter, value)
            if found is not None or (known and not apart):
                return found
        return None if word.literal else self._may_become(word)

    def _may_become(self, word: Word) -> str | None:
        if not self.beyond or not self.table.effects:
            return None
        return unknown(word, self.name, next(iter(self.table.effects.values())))

    def _effect(self, shown: str, option: str, value: Word | None) -> str | None:
        self.seen.add(option)
        scripted = option in SCRIPTED.get(self.name, ()) and self.end >= self.count
        if value is not None and scripted:
            found = script_effect(self.name, value)
            if found is not None:
                return found
        effect = self.table.effects.get(option)
        if effect is None or (value is not None and self._spared(option, effect, value)):
            return None
        # To name an option that runs a program is not yet to name the program.
        naming = effect in (RUNS, ELSEWHERE, NOT_PLAIN, SETTINGS)
        if (self.end if naming else self.start) < self.count:
            return None
        if effect is ELSEWHERE and value is not None:
            shown = f"{shown} {value.source or value.text}"
        return named(shown, effect)

    def _spared(self, option: str, effect: str, value: Word) -> bool:
        """Is there no harm in this value?"""
        text = value.text
        if effect is ELSEWHERE:
            return not leads_out(value)
        if not value.literal:
            return False
        if effect is WRITES and text in SINKS:
            return True
        if effect is NOT_PLAIN:
            return text.replace("-", "").replace("_", "").isalnum()
        harmless = _HARMLESS.get((self.name, option))
        return harmless is not None and harmless(text)


_SSH_SAFE = ("stricthostkeychecking", "batchmode", "connecttimeout", "user", "port", "loglevel")
_COMPILER_FLAGS = frozenset({"-s", "-w", "-m", "-N", "-l", "-e", "-S", "-X", "-buildid="})
_CMAKE_VARIABLES = (
    "CMAKE_BUILD_TYPE",
    "BUILD_TESTING",
    "BUILD_SHARED_LIBS",
    "CMAKE_EXPORT_COMPILE",
)


def _ssh_setting(text: str) -> bool:
    key = text.partition("=")[0].split(" ")[0].lower()
    return key in _SSH_SAFE or key.startswith("serveralive")


def _compiler_flags(text: str) -> bool:
    """Are these flags of go's tools that name no file and no program?"""
    words = text.removeprefix("all=").replace("'", " ").replace('"', " ").split()
    return all(
        word in _COMPILER_FLAGS or word.startswith("-X=") or words[max(at - 1, 0)] == "-X"
        for at, word in enumerate(words)
    )


def _plugin_left_out(text: str) -> bool:
    return text.startswith("no:")


def _shown_by_curl(text: str) -> bool:
    """Since 8.3 a format may name the file it is written to."""
    return "%output" not in text and text[:1] != "@"


def _cmake_variable(text: str) -> bool:
    return text.startswith(_CMAKE_VARIABLES)


_HARMLESS: dict[tuple[str, str], Callable[[str], bool]] = {
    **dict.fromkeys((("ssh", "o"), ("scp", "o"), ("sftp", "o")), _ssh_setting),
    **dict.fromkeys((("go", "-ldflags"), ("go", "-gcflags")), _compiler_flags),
    **dict.fromkeys((("curl", "w"), ("curl", "write-out")), _shown_by_curl),
    ("cmake", "D"): _cmake_variable,
    ("pytest", "p"): _plugin_left_out,
}
"""Program and option -> is there no harm in this value of it?"""
