"""Arguments by which an allowed program does more than the rule names.

One walk over the arguments of a program by its table. The languages of consoles are large, so
nothing is parsed: of the program's own commands those that only show something are known; of SQL,
the words without which a statement stays in the database.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from alhena.policy.bash.model import Part, Word, WordKind
from alhena.policy.bash.options import (
    ANYTHING,
    INPUT_IN_ARGUMENTS,
    base_name,
    first_operands,
    inner_command,
    inner_module,
    is_option,
    module_words,
    options_in,
    split_settings,
    unknown_subcommand,
)
from alhena.policy.bash.reach import names_command
from alhena.policy.bash.scripts import could_be_awk, strange_awk, strange_sed, writes_as_sed
from alhena.policy.programs import (
    ONE_DASH,
    Console,
    Effect,
    Program,
    Style,
    global_options,
    main_name,
    matches,
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
    """The standard input of a command, as far as the line shows it; None when it is a file's or
    another command's text."""
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


def any_subcommand(word: Word, name: str) -> str:
    """A word in the place of a subcommand is not known, as a sentence."""
    return f"{word.source or word.text} may be any subcommand of {name}; write it out"


def leads_out(word: Word) -> bool:
    """May a path lead out of the working directory, or to git's own, going by how it is written?"""
    text = word.text
    if not word.literal or text.startswith(("/", "~", "\\")) or "://" in text or text[1:2] == ":":
        return True
    return not {"..", ".git"}.isdisjoint(text.translate(_SEPARATED).casefold().split("/"))


_SEPARATED = str.maketrans(dict.fromkeys("\\:;,=", "/"))
"""Marks that end the name of a directory, in paths and in lists of them."""


def script_effect(name: str, word: Word) -> str | None:
    """The effect of the code that a program is given, as a sentence."""
    if not word.literal:
        return f"the {name} script holds {word.source or word.text}, which may be any command"
    if name not in {"sed", "awk"}:
        if stays_inside(name, word.text):
            return None
        return f"the commands for {name} may run, write or load something else"
    read = strange_sed if name == "sed" else strange_awk
    strange = read(word.text, by_rule=True)
    if strange is None:
        return None
    return f"{strange!r} in the {name} script may write, run or load something"


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
        self.doubtful = 0

    @property
    def beyond(self) -> bool:
        """Does the rule not name the word that is looked at?"""
        return self.at >= self.count

    def hazard(self) -> str | None:
        """The first argument with an effect that the rule does not name, as a sentence."""
        if self.table.at_files and self.table.script is None:
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
                found = self._beside_pattern(word)
                if found is None and self.operand:
                    found = self.operand(self, word)
                self.operands += 1
                if found is None and self._is_script(word):
                    return None
            if found is not None:
                return found
            self.at += 1
        return None

    def _is_script(self, word: Word) -> bool:
        """Are the words behind this operand arguments of the program that it names?"""
        more, subcommands = self.table.script, self.name.count(" ")
        if more is None or self.operands <= subcommands:
            return False
        return word.literal and not matches(more, word.text)

    def _beside_pattern(self, word: Word) -> str | None:
        """The effect of an operand that is not like the program's harmless ones."""
        for clause, pattern in self.table.operand_pattern.items() if self.beyond else ():
            if not matches(pattern, word.text, known=word.literal):
                return named(word.source or word.text, clause)
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
        whole = word.text.startswith("--") or self.table.style in _WHOLE
        if whole and not word.literal and "=" not in word.text:
            return self._may_become(word)
        attached = word.literal or whole
        for found in options_in(self.table, word):
            attached = attached or found.value is not None
            value = found.value or (self._next(found.names[0]) if found.names else None)
            effects = (self.effect(found.shown, name, value) for name in found.names)
            effect = next(filter(None, effects), None)
            if effect is None and not found.names and found.value is not None:
                effect = self._beside_pattern(found.value)
            if effect is not None:
                return effect
            self.vague = self.vague or (whole and not found.names)
        return None if attached else self._may_become(word)

    def _next(self, option: str) -> Word | None:
        """The next word, when it is the value of this option. It is passed over then, but one that
        looks like an option is read as such, too: programs and their versions differ in which
        options take a value."""
        if not self.table.takes_next(option) or self.at + 1 >= len(self.words):
            return None
        following = self.words[self.at + 1]
        self.end = self.at + 1
        both = is_option(following) and not (following.literal and following.text == "--")
        if not both and (following.literal or not following.split):
            self.at += 1
        elif both:
            self.doubtful = self.end
        return following

    def _may_become(self, word: Word) -> str | None:
        effects = (option.effect for option in self.table.options.values() if option.effect)
        effect = next(effects, None)
        return unknown(word, self.name, effect) if effect and self.beyond else None

    def effect(self, shown: str, option: str, value: Word | None) -> str | None:
        """The effect of an option with its value, if the rule does not name it."""
        if self.start != self.doubtful:
            self.seen.add(option)
        effect = self.table.effect_of(option)
        if option in self.table.hands or effect is Effect.CODE:
            return self._code(option, value) if value and self.end >= self.count else None
        if not effect or (value is not None and self._spared(option, effect, value)):
            return None
        if value is None and effect is Effect.ELSEWHERE and self.table.takes_next(option):
            return None  # no path is given
        # To name an option that runs a program is not yet to name the program.
        naming = effect in _NAMING
        if (self.end if naming else self.start) < self.count:
            return None
        if effect is Effect.ELSEWHERE and value is not None:
            shown = f"{shown} {value.source or value.text}"
        return named(shown, effect)

    def _code(self, option: str, value: Word) -> str | None:
        """The effect of a value that the program takes for commands, or hands on."""
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
        if effect is Effect.WRITES and value.literal and text in SINKS:
            return True
        harmless = self.table.harmless.get(option)
        if harmless is not None:
            return value.literal and matches(harmless, text)
        if effect is Effect.ELSEWHERE:
            # `-f=../x` is a spelling of `-f ../x` for some.
            return not (leads_out(value) or leads_out(Word(text.removeprefix("="), value.kind)))
        if not value.literal:
            return False
        if effect in (Effect.PLAIN, Effect.CONNECTS):
            local = effect is Effect.CONNECTS and (text in _LOCAL or text[:1] == "/")
            return local or text.replace("-", "").replace("_", "").replace("+", "").isalnum()
        return False


_NAMING = (Effect.RUNS, Effect.ELSEWHERE, Effect.PLAIN, Effect.SETTINGS)


_GIVES_SCRIPT = frozenset({"-e", "--expression", "-f", "--file"})
_IN_PLACE = frozenset({"-i", "-I", "--in-place"})


def _sed_operand(reading: Reading, word: Word) -> str | None:
    """The first operand of sed is a script, unless an option gives one. BSD takes the word behind
    `-i` for a suffix, and the next for the script."""
    empty = word.literal and not word.text
    if reading.operands == 0 and not reading.seen & _GIVES_SCRIPT:
        reading.operands -= empty
        return script_effect("sed", word) if reading.beyond else None
    if reading.operands > 1 or not reading.beyond or reading.seen.isdisjoint(_IN_PLACE):
        return None
    return f"sed may take {word.text} for its script" if writes_as_sed(word.text) else None


def _awk_operand(reading: Reading, word: Word) -> str | None:
    """The first operand of awk is a program. Versions differ in their options and what these take,
    so that any other word may be it."""
    if reading.operands or not reading.seen.isdisjoint({"-f", "--file"}) or not reading.beyond:
        return None
    given = word.literal and not reading.seen.isdisjoint({"-e", "--source"})
    return None if given else script_effect("awk", word)


def _hidden_program(words: tuple[Word, ...]) -> str | None:
    """The effect of a word that some awk may take for its program."""
    programs = (word for word in words if word.literal and could_be_awk(word.text))
    return next(filter(None, (script_effect("awk", word) for word in programs)), None)


def _second_written(reading: Reading, word: Word) -> str | None:
    unsure = word.split and not word.literal
    if (reading.operands == 0 and not unsure) or not reading.beyond:
        return None
    if word.literal and word.text in SINKS:
        return None
    return f"{word.source or word.text} is the file that {reading.name} writes"


_NOT_PLAIN = frozenset({"SHELL", "MAKE", "MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS", "MAKEFILES"})
_TOOLS = frozenset(
    {"AR", "AS", "CARGO", "CC", "CPP", "CXX", "FC", "GO", "INSTALL", "JAVA", "LD", "LEX", "NM"}
    | {"NODE", "NPM", "OBJCOPY", "OBJDUMP", "PYTHON", "RANLIB", "RM", "RUSTC", "STRIP", "YACC"}
)


def _names_program(variable: str) -> bool:
    """Do recipes of make run what this variable holds, such as `CC`, `HOSTCC` or `BUILD_CC`?"""
    tool = variable.rpartition("_")[2].removeprefix("HOST")
    return variable in _NOT_PLAIN or tool in _TOOLS or names_command(variable)


def _make_operand(reading: Reading, word: Word) -> str | None:
    name, sign, value = word.text.partition("=")
    if not sign:
        return _task_operand(reading, word)
    if not reading.beyond:
        return None
    plain = word.literal and value.replace("-", "").replace(".", "").replace("_", "").isalnum()
    if (plain or not value) and not _names_program(name.rstrip(":?+!")):
        return None
    return named(f"{name}=", "replaces a variable, and may run another program")


def _task_operand(reading: Reading, word: Word) -> str | None:
    """To name one target, or several, is not to name others."""
    if not reading.beyond:
        reading.seen.add(_TASK)
        return None
    if _TASK not in reading.seen or word.text.replace(".", "").isdigit():
        return None
    return named(word.source or word.text, "is another target")


_TASK = " task"


def _inside(reading: Reading, word: Word) -> str | None:
    """Refuses a path to run or build from that leads elsewhere; `file::test` names a test."""
    if not reading.beyond:
        return None
    shown = word.source or word.text
    if word.text.startswith("@"):
        return named(shown, "is a file of further arguments")
    path, source = Word(word.text.partition("::")[0]), word.source.partition("::")[0]
    unsure = word.kind is WordKind.EXPANSION or ".." in source or source[:1] == "~"
    out = leads_out(path) or (unsure and not word.literal)
    return named(shown, Effect.ELSEWHERE) if out else None


def _tar_operand(reading: Reading, word: Word) -> str | None:
    """`tar xIf program archive`: the first operand may hold options without a dash, and their
    values follow it."""
    if reading.beyond and ":" in word.text.partition("/")[0]:
        return named(word.text, Effect.CONNECTS)
    bundled = word.text.isalnum() and word.text[:1] in "AcdrtuxIFfjJzZvphklmnoBCbLMNPsSTUVwWX"
    if reading.operands or reading.at != 1 or not bundled:
        return None
    values = iter(range(2, len(reading.words)))
    for letter in word.text:
        valued = reading.table.takes_next(f"-{letter}")
        reading.end = next(values, reading.at) if valued else reading.at
        value = reading.words[reading.end] if valued else None
        found = reading.effect(f"{word.text} (-{letter})", f"-{letter}", value)
        if found is not None:
            return found
    return None


def _database_operand(reading: Reading, word: Word) -> str | None:
    """sqlite3's first operand is a file, those after it are commands."""
    if not reading.beyond:
        return None
    if reading.operands:
        return script_effect(reading.name, word)
    out = leads_out(word) or word.text.startswith("file:")
    return named(word.source or word.text, Effect.ELSEWHERE) if out else None


def _editor_operand(reading: Reading, word: Word) -> str | None:
    """`+COMMAND` of vim, or `!COMMAND` of ed."""
    if not reading.beyond:
        return None
    if reading.name == "ed":
        harmless = word.text[:1] not in {"!", ""}
        return None if harmless else named(word.source or word.text, Effect.RUNS)
    if "://" in word.text:
        return named(word.text, Effect.CONNECTS)
    return script_effect("vim", _behind(word)) if word.text.startswith("+") else None


def _behind(word: Word) -> Word:
    return Word(word.text[1:], word.kind, word.source)


def _target(reading: Reading, word: Word) -> str | None:
    """Files that are written stay within the working directory."""
    only_read = reading.name in {"git clone", "split"} and not reading.operands
    if not reading.beyond or only_read:
        return None
    return named(word.source or word.text, Effect.ELSEWHERE) if leads_out(word) else None


def _first_target(reading: Reading, word: Word) -> str | None:
    return None if reading.operands else _target(reading, word)


def _sources(reading: Reading, word: Word) -> str | None:
    """Sources for cmake, of which `..` is where a directory to build in usually has them; with
    `--help-full` and the like, the file that it writes."""
    if reading.beyond and any(name.startswith("--help-") for name in reading.seen):
        return f"{word.source or word.text} is the file that {reading.name} writes"
    return None if word.text in {"..", "../"} else _inside(reading, word)


def _remote(reading: Reading, word: Word) -> str | None:
    """The first operand is a repository: a name, or the address of a host."""
    if reading.operands or not reading.beyond:
        return None
    elsewhere = ":" in word.text or leads_out(Word(word.text))
    return named(word.source or word.text, Effect.CONNECTS) if elsewhere else None


OPERANDS: dict[str, Callable[[Reading, Word], str | None]] = {
    "awk": _awk_operand,
    "database": _database_operand,
    "editor": _editor_operand,
    "first_target": _first_target,
    "inside": _inside,
    "make": _make_operand,
    "remote": _remote,
    "second_written": _second_written,
    "sed": _sed_operand,
    "sources": _sources,
    "tar": _tar_operand,
    "target": _target,
    "task": _task_operand,
}
"""Values of `operand` in a table -> the function that judges each operand."""

_TOO_DEEP = 16


def hazard(part: Part, prefix: tuple[str, ...]) -> str | None:
    """The effect of an argument of `part` that the rule does not name, as a sentence; else None.

    `prefix` are the words of the rule's prefix, with which the words of `part` begin; empty for a
    rule of another kind. Programs that are no readers to begin with have no hazards.
    """
    words, count = part.words, len(split_settings(prefix)[1])
    for _ in range(_TOO_DEEP):
        if not words or not words[0].literal:
            return None
        module = module_words(words)
        if module is not None:
            words, count = module, max(count - len(words) + len(module), 0)
            key = f"python -m {words[0].text}"
            table = program(key)
            found = _read(key, words, count, table, part) if table is not None else None
            if found is not None:
                return found
        at = inner_module(words)
        if at is not None:
            found = _hazard(words[:at], count)
            if found is not None:
                return found
            words, count = (Word("python"), *words[at:]), max(count - at + 1, 0)
            continue
        inner = None if module else inner_command(words)
        if inner is None or not inner.starts:
            return _hazard(words, count, part)
        found = _hazard(words[: inner.starts[0][0]], count)
        if found is not None or inner.wrapper.remote:
            return found
        start = inner.starts[-1][0]
        extra = (ANYTHING,) if inner.via in INPUT_IN_ARGUMENTS else ()
        words, count = (*words[start:], *extra), max(count - start, 0)
    return "it is wrapped too deeply to be looked through"


def known_as(head: str) -> str:
    """The name that the tables have for a program: `gcc-12`, `vim.tiny` and
    `arm-none-eabi-gcc` are like others."""
    name = base_name(head)
    for known in (name, name.rstrip("0123456789.-"), name.partition(".")[0]):
        table = program(known)
        if table is not None and (table.judged or table.subcommands):
            return main_name(known)
    last = name.rstrip("0123456789.-").rpartition("-")[2]
    return last if last in _CROSS else name


_CROSS = frozenset({"ar", "as", "cpp", "g++", "gcc", "gdb", "ld", "nm", "objcopy", "objdump"})


def _hazard(words: tuple[Word, ...], count: int, part: Part | None = None) -> str | None:
    name = known_as(words[0].text)
    unsure = unknown_subcommand(words)
    if unsure is not None and unsure >= count:
        return any_subcommand(words[unsure], name)
    if name == "git":
        from alhena.policy.bash.git_arguments import git_hazard

        return git_hazard(words, count)
    for key in (*_subcommands(name, words), name):
        table = program(key)
        if table is not None and table.judged:
            return _read(key, words, count, table, part)
    return None


def _read(
    key: str, words: tuple[Word, ...], count: int, table: Program, part: Part | None
) -> str | None:
    reading = Reading(key, words, count, table, OPERANDS.get(table.operand))
    found = reading.hazard() or (_input(reading, part) if part else None)
    if table.operand == "awk":
        found = found or _hidden_program(words[max(count, 1) :])
    behind = program(f"{key} --")
    if found is not None or behind is None:
        return found
    ended = reading.ended_at
    return Reading(key, words[ended:], max(count - ended, 0), behind).hazard()


def _input(reading: Reading, part: Part) -> str | None:
    """The effect of the commands that a program reads from its standard input."""
    console = reading.table.console
    if console is None or reading.seen & set(console.without.split()):
        return None
    if console.needs and not reading.vague and reading.seen.isdisjoint(console.needs.split()):
        return None
    if reading.operands >= console.operands and not reading.vague:
        return None
    texts = fed(part)
    if texts is None:
        return f"{reading.name} takes its input for commands, and these are not known"
    return next(filter(None, (script_effect(reading.name, text) for text in texts)), None)


def _subcommands(name: str, words: tuple[Word, ...]) -> list[str]:
    """The program with its subcommands, the longest first, where tables speak of them."""
    table = program(name)
    if table is None or not table.subcommands:
        return []
    found = first_operands(words, global_options(name), 2)
    texts = [words[at].text for at in found]
    return [" ".join((name, *texts[:length])) for length in range(len(texts), 0, -1)]
