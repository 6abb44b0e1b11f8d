"""One walk over the arguments of a program by its table; commands of consoles.

The languages are large, so nothing is parsed. Of the program's own commands those that only show
something are known; of SQL, the words without which a statement stays in the database.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from alhena.policy.bash.model import Part, Word, WordKind
from alhena.policy.bash.options import is_option
from alhena.policy.bash.scripts import ScriptEffect, awk_effect, sed_effect
from alhena.policy.programs import (
    ONE_DASH,
    Arity,
    Console,
    Effect,
    Program,
    Style,
    option_name,
    program,
)

if TYPE_CHECKING:
    import re


def stays_inside(name: str, text: str) -> bool:
    """Does this text, as commands for the program, surely run, write and load nothing else?"""
    refused, lines = _patterns(name)
    if refused is not None and refused.search(text):
        return False
    return lines is None or all(lines.fullmatch(line) for line in text.split("\n"))


@lru_cache(maxsize=32)
def _patterns(name: str) -> "tuple[re.Pattern[str] | None, re.Pattern[str] | None]":
    import re

    table = program(name)
    console = table.console if table and table.console else Console()
    refused = re.compile(console.refused) if console.refused else None
    return refused, re.compile(console.lines) if console.lines else None


def fed(part: Part) -> tuple[Word, ...] | None:
    """What a command reads from its standard input, as far as the line shows it; None when it is
    a file's or another command's text."""
    texts: list[Word] = []
    for redirection in part.redirections:
        target = redirection.target
        if redirection.operator.startswith("<<"):
            texts.append(target or Word(redirection.body or ""))
        elif redirection.operator in {"<", "<>", "<&"} and not _nothing(target):
            return None
    return tuple(texts) if texts or not part.stdin_piped else None


def _nothing(target: Word | None) -> bool:
    return target is not None and target.literal and target.text == "/dev/null"


SINKS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "-"})

_LOCAL = frozenset({"127.0.0.1", "::1"})
_WHOLE = (*ONE_DASH, Style.NOPT)


def named(text: str, effect: str) -> str:
    """An argument does something that the rule does not speak of, as a sentence."""
    return f"{text} {effect}, and the rule does not name it"


def unknown(word: Word, name: str, effect: str) -> str:
    """An argument may become an option with an effect, as a sentence."""
    shown = word.source or word.text or "…"
    effect = effect if effect is not Effect.ELSEWHERE else "works elsewhere"
    return f"{shown} may turn out to be an option by which {name} {effect}"


def leads_out(word: Word) -> bool:
    """May a path lead out of the working directory, or to git's own, going by how it is written?"""
    text = word.text
    if not word.literal or text.startswith(("/", "~", "\\")) or "://" in text or text[1:2] == ":":
        return True
    return not {"..", ".git"}.isdisjoint(text.replace("\\", "/").casefold().split("/"))


def script_effect(name: str, word: Word) -> str | None:
    """What the code that a program is given does, as a sentence."""
    if not word.literal:
        return f"the {name} script holds {word.source or word.text}, which may be any command"
    if name not in {"sed", "awk"}:
        if stays_inside(name, word.text):
            return None
        return f"the commands for {name} may run, write or load something else"
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
        table: Program,
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
        self.vague = False

    @property
    def beyond(self) -> bool:
        """Does the rule not name the word that is looked at?"""
        return self.at >= self.count

    def hazard(self) -> str | None:
        """The first argument with an effect that the rule does not name, as a sentence."""
        if self.table.at_files:
            for word in self.words[max(self.count, 1) :]:
                if word.text.startswith("@"):
                    return named(word.source or word.text, "is a file of further arguments")
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
        return self.table.style not in ONE_DASH

    def _end(self) -> None:
        """Options end here, unless an option that is not known takes the two dashes for a value."""
        before = self.words[self.at - 1]
        known = self.table.options.get(option_name(before.text, self.table.style))
        flag = known is not None and before.literal and not (known.effect or known.takes_next)
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
            and self.table.has_effects
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
        known = self.table.options.get(option)
        if known is None or not known.takes_next or self.at + 1 >= len(self.words):
            return None
        following = self.words[self.at + 1]
        self.end = self.at + 1
        both = is_option(following) and not (following.literal and following.text == "--")
        if not both and (following.literal or not following.split):
            self.at += 1
        return following

    def _whole(self, word: Word) -> str | None:
        text, sign, value = word.text.partition("=")
        option = option_name(text, self.table.style)
        if self.table.style is Style.WORDS:
            option = option.partition(":")[0] or option
        if not word.literal and not sign:
            return self._may_become(word)
        given = Word(value, word.kind) if sign else None
        if option in self.table.options or option in self.table.hands:
            return self._effect(text, option, given or self._next(option))
        for known in () if text[:2] == "--" else self.table.joined:
            if option.startswith(known):
                value = option[len(known) :] + sign + value
                return self._effect(known, known, Word(value, word.kind))
        if self.table.style is Style.NOPT:
            return self._shortened(text, option, given)
        if self.table.style is Style.LONG_ONLY and len(option) > 2:
            return self._abbreviated(text, self._beginnings(option), given)
        self.vague = True
        return None

    def _beginnings(self, text: str) -> list[str]:
        """The options with an effect that begin like this."""
        options = self.table.options.items()
        return [name for name, each in options if each.effect and name.startswith(text)]

    def _abbreviated(self, text: str, names: list[str], given: Word | None) -> str | None:
        """The effect of an option that `text` is the beginning of: any of these."""
        value = given or (self._next(names[0]) if names else None)
        return next(filter(None, (self._effect(text, name, value) for name in names)), None)

    def _shortened(self, text: str, option: str, given: Word | None) -> str | None:
        """npm takes any beginning of a name, and letters together."""
        names = self._beginnings(option) if len(option) > 3 else []
        if names:
            return self._abbreviated(text, names, given)
        bare = text.lstrip("-")
        for letter in bare if text[:2] != "--" else "":
            if self.effect_of(f"-{letter}"):
                return self._effect(text, f"-{letter}", given or self._next(f"-{letter}"))
        beginning = "--registry" if option.endswith(":registry") else option.partition(".")[0]
        return self._effect(text, beginning, given)

    def effect_of(self, name: str) -> Effect:
        """The effect of an option, none for one that is not known."""
        option = self.table.options.get(name)
        return option.effect if option is not None else Effect.NONE

    def _long(self, word: Word) -> str | None:
        text, sign, value = word.text.partition("=")
        if not word.literal and not sign:
            return self._may_become(word)
        name = option_name(text, self.table.style)
        given = Word(value, word.kind) if sign else None
        if name in self.table.options:
            return self._effect(text, name, given or self._next(name))
        names = self._beginnings(name) if self.table.style is not Style.CAMEL else []
        if names:
            return self._abbreviated(text, names, given)
        return self._effect(text, f"{name.partition('.')[0]}.", given)

    def _letters(self, word: Word) -> str | None:
        text = word.text
        apart = self.table.style is Style.APART
        for index, letter in enumerate(text[1:], start=2):
            option = self.table.options.get(f"-{letter}")
            known = option is not None and option.arity is not Arity.FLAG
            if option is None or not (known or option.effect):
                continue
            attached = not apart and (index < len(text) or (known and not word.literal))
            value = Word(text[index:], word.kind) if attached else self._next(f"-{letter}")
            found = self._effect(f"-{letter}", f"-{letter}", value)
            if found is not None or (known and not apart):
                return found
        return None if word.literal else self._may_become(word)

    def _may_become(self, word: Word) -> str | None:
        effects = (option.effect for option in self.table.options.values() if option.effect)
        effect = next(effects, None)
        return unknown(word, self.name, effect) if effect and self.beyond else None

    def _effect(self, shown: str, option: str, value: Word | None) -> str | None:
        self.seen.add(option)
        effect = self.effect_of(option)
        if option in self.table.hands or effect is Effect.CODE:
            return self._code(option, value) if value and self.end >= self.count else None
        if not effect or (value is not None and self._spared(option, effect, value)):
            return None
        # To name an option that runs a program is not yet to name the program.
        naming = effect in _NAMING
        if (self.end if naming else self.start) < self.count:
            return None
        if effect is Effect.ELSEWHERE and value is not None:
            shown = f"{shown} {value.source or value.text}"
        return named(shown, effect)

    def _code(self, option: str, value: Word) -> str | None:
        """What the program does with a value that it takes for commands, or hands on."""
        table = program(self.table.hands.get(option, ""))
        if table is None:
            return script_effect(self.name, value)
        if not value.literal:
            return unknown(value, self.name, Effect.RUNS)
        words = tuple(Word(text) for text in ("", *value.text.split(",")))
        return Reading(self.name, words, 1, table).hazard()

    def _spared(self, option: str, effect: Effect, value: Word) -> bool:
        """Is there no harm in this value?"""
        text = value.text
        if effect is Effect.ELSEWHERE:
            return not leads_out(value)
        if not value.literal:
            return False
        if effect is Effect.WRITES and text in SINKS:
            return True
        harmless = _HARMLESS.get((self.name, option))
        if harmless is not None:
            return harmless(text)
        if effect in (Effect.PLAIN, Effect.CONNECTS):
            local = effect is Effect.CONNECTS and (text in _LOCAL or text[:1] == "/")
            return local or text.replace("-", "").replace("_", "").replace("+", "").isalnum()
        return False


_NAMING = (Effect.RUNS, Effect.ELSEWHERE, Effect.PLAIN, Effect.SETTINGS)
_SSH_SAFE = ("stricthostkeychecking", "batchmode", "connecttimeout", "user", "port", "loglevel")
_MERGING = ("merge", "pull", "rebase")
_STRATEGIES = frozenset({"octopus", "ort", "ours", "recursive", "resolve", "subtree"})
_MODE = frozenset("01234567ugoarwx,+=-X")
_RUSTC = frozenset(
    {"codegen-units", "debug-assertions", "debuginfo", "embed-bitcode", "lto", "metadata"}
    | {"opt-level", "overflow-checks", "panic", "prefer-dynamic", "strip", "target-cpu"}
)
_MESON = frozenset(
    {"b_coverage", "b_lto", "b_ndebug", "b_sanitize", "buildtype", "debug", "default_library"}
    | {"optimization", "strip", "warning_level", "werror", "wrap_mode"}
)
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


def _strategy(text: str) -> bool:
    """Any other is the program git-merge-NAME."""
    return text in _STRATEGIES


def _plain_warning(text: str) -> bool:
    """A category with a dot is imported."""
    return "." not in ":".join(text.split(":")[2:3])


def _plain_mode(text: str) -> bool:
    """Neither setuid nor the like."""
    bits = not text[:1].isdigit() or len(text.lstrip("0")) <= 3
    return bits and set(text) <= _MODE


def _plain_variable(text: str) -> bool:
    name, _, value = text.partition("=")
    safe = not name.upper().startswith(("PROMPT", "HIST", "SHELL"))
    return safe and value.replace("_", "").replace("-", "").isalnum()


def _here(text: str) -> bool:
    """tar takes what stands before a colon for a host."""
    return ":" not in text.partition("/")[0]


def _rustc_codegen(text: str) -> bool:
    return text.partition("=")[0] in _RUSTC


def _meson_option(text: str) -> bool:
    name, _, value = text.partition("=")
    return name in _MESON and value.replace(",", "").isalnum()


_HARMLESS: dict[tuple[str, str], Callable[[str], bool]] = {
    **dict.fromkeys((("ssh", "-o"), ("scp", "-o"), ("sftp", "-o")), _ssh_setting),
    **dict.fromkeys((("go", "-ldflags"), ("go", "-gcflags")), _compiler_flags),
    **dict.fromkeys((("tar", "-f"), ("tar", "--file")), _here),
    **dict.fromkeys((("curl", "-w"), ("curl", "--write-out")), _shown_by_curl),
    ("cmake", "-D"): _cmake_variable,
    **{(f"git {sub}", "--strategy"): _strategy for sub in ("cherry-pick", "revert")},
    **{(f"git {sub}", o): _strategy for sub in _MERGING for o in ("-s", "--strategy")},
    **dict.fromkeys((("install", "-m"), ("install", "--mode")), _plain_mode),
    ("meson", "-D"): _meson_option,
    **{("psql", o): _plain_variable for o in ("-v", "--set", "--variable")},
    ("pytest", "-p"): _plugin_left_out,
    **dict.fromkeys((("pytest", "-W"), ("pytest", "--pythonwarnings")), _plain_warning),
    **{(name, o): _rustc_codegen for name in ("rustc", "cargo --") for o in ("-C", "--codegen")},
}
"""Program and option -> is there no harm in this value of it?"""
