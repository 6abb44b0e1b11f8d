"""Arguments by which an allowed program does more than a rule may have meant."""

from collections.abc import Callable

from alhena.policy.bash.hazard_table import CHANGES, HAZARDS, RUNS, SAME, WRITES, Hazards
from alhena.policy.bash.inner import ANYTHING, INPUT_IN_ARGUMENTS, inner_command
from alhena.policy.bash.literal import split_settings
from alhena.policy.bash.model import Part, Word, WordKind
from alhena.policy.bash.options import base_name, first_operands, global_options, is_option
from alhena.policy.bash.scripts import ScriptEffect, awk_effect, sed_effect
from alhena.policy.bash.spellings import ONE_DASH

_SINKS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "-"})
_TOO_DEEP = 16


def hazard(part: Part, named: tuple[str, ...]) -> str | None:
    """What `part` does by an argument that the rule does not name, as a sentence; else None.

    `named` are the words of the rule's prefix, with which the words of `part` begin; empty for a
    rule of another kind. Programs that are no readers to begin with have no hazards.
    """
    words, count = part.words, len(split_settings(named)[1])
    for _ in range(_TOO_DEEP):
        if not words or not words[0].literal:
            return None
        found = _hazard(words, count)
        if found is not None:
            return found
        inner = inner_command(words)
        if inner is None or not inner.starts or inner.wrapper.remote:
            return None
        start = inner.starts[-1][0]
        extra = (ANYTHING,) if inner.via in INPUT_IN_ARGUMENTS else ()
        words, count = (*words[start:], *extra), max(count - start, 0)
    return "it is wrapped too deeply to be looked through"


def _hazard(words: tuple[Word, ...], count: int) -> str | None:
    name = base_name(words[0].text)
    name = SAME.get(name, name)
    table = HAZARDS.get(name) or _of_subcommand(name, words)
    if table is None:
        return None
    if name == "git":
        return _git(words, count, table)
    operand = _OPERANDS.get(name)
    return _Reading(name, words, count, table, operand).hazard()


def _of_subcommand(name: str, words: tuple[Word, ...]) -> Hazards | None:
    if name != "gh":
        return None
    found = first_operands(words, global_options(name), 1)
    return HAZARDS.get(f"{name} {words[found[0]].text}") if found else None


def _named(text: str, effect: str) -> str:
    return f"{text} {effect}, and the rule does not name it"


def _unknown(word: Word, name: str, effect: str) -> str:
    return (
        f"{word.source or word.text or '…'} may turn out to be an option by which {name} {effect}"
    )


class _Reading:
    """One walk over the arguments of a program with hazards."""

    def __init__(
        self,
        name: str,
        words: tuple[Word, ...],
        count: int,
        table: Hazards,
        operand: "Callable[[_Reading, Word], str | None] | None",
    ) -> None:
        self.name, self.words, self.count, self.table = name, words, count, table
        self.operand = operand
        self.seen: set[str] = set()
        self.operands = 0
        self.at = 1
        self.start = 1

    def hazard(self) -> str | None:
        ended = False
        while self.at < len(self.words):
            word = self.words[self.at]
            found = None
            if word.literal and word.text == "--" and self.name not in ONE_DASH:
                ended = True
            elif not ended and self._optional(word):
                found = self._option(word)
            else:
                found = self.operand(self, word) if self.operand else None
                self.operands += 1
            if found is not None:
                return found
            self.at += 1
        return None

    def _optional(self, word: Word) -> bool:
        """Is this an option, or may it become one?"""
        if is_option(word):
            return True
        return (
            not word.literal
            and word.text in {"", "-"}
            and not (word.kind is WordKind.PATTERN and word.source.startswith("~"))
            and bool(self.table.effects)
        )

    def _option(self, word: Word) -> str | None:
        self.start = self.at
        text = word.text
        if self.name in ONE_DASH:
            name, sign, value = text.partition("=")
            name = f"-{name.lstrip('-')}"
            given = Word(value, word.kind) if sign else self._next(name)
            if word.literal or sign:
                return self._effect(name, name, given)
            return self._may_become(word)
        return self._long(word) if text.startswith("--") else self._letters(word)

    def _next(self, option: str) -> Word | None:
        """The next word, when it is the value of this option; it is passed over then."""
        if option not in self.table.values or self.at + 1 >= len(self.words):
            return None
        following = self.words[self.at + 1]
        if following.literal or not following.split:
            self.at += 1
        return following

    def _long(self, word: Word) -> str | None:
        name, sign, value = word.text[2:].partition("=")
        if not word.literal and not sign:
            return self._may_become(word)
        given = Word(value, word.kind) if sign else None
        if name in self.table.harmless:
            return None
        if name in self.table.values:
            return self._effect(f"--{name}", name, given or self._next(name))
        for option in (*self.table.effects, *_SCRIPTED.get(self.name, ())):
            if len(option) > 1 and option[0] != "-" and option.startswith(name):
                return self._effect(f"--{name}", option, given or self._next(option))
        return None

    def _letters(self, word: Word) -> str | None:
        text = word.text
        for index, letter in enumerate(text[1:], start=2):
            known = letter in self.table.values
            if not known and letter not in self.table.effects:
                continue
            attached = index < len(text) or (known and not word.literal)
            value = Word(text[index:], word.kind) if attached else self._next(letter)
            found = self._effect(f"-{letter}", letter, value)
            if found is not None or known:
                return found
        return None if word.literal else self._may_become(word)

    def _may_become(self, word: Word) -> str | None:
        if self.at < self.count or not self.table.effects:
            return None
        return _unknown(word, self.name, next(iter(self.table.effects.values())))

    def _effect(self, shown: str, option: str, value: Word | None) -> str | None:
        self.seen.add(option)
        scripted = option in _SCRIPTED.get(self.name, ()) and self.at >= self.count
        if value is not None and scripted:
            found = _script(self.name, value)
            if found is not None:
                return found
        effect = self.table.effects.get(option)
        if effect is None:
            return None
        if effect is WRITES and value is not None and value.literal and value.text in _SINKS:
            return None
        # To name an option that runs a program is not yet to name the program.
        end = self.at if effect is RUNS else self.start
        if end < self.count:
            return None
        if self.name in _SSH and option == "o" and value is not None:
            return _ssh_setting(shown, value)
        return _named(shown, effect)


_SCRIPTED = {"sed": frozenset({"e", "expression"}), "gawk": frozenset({"e", "source"})}


def _script(name: str, word: Word) -> str | None:
    """What a script of sed or awk does."""
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


_SSH = frozenset({"ssh", "scp", "sftp"})
_SSH_SAFE = ("stricthostkeychecking", "batchmode", "connecttimeout", "user", "port", "loglevel")


def _ssh_setting(shown: str, value: Word) -> str | None:
    key = value.text.partition("=")[0].split(" ")[0].lower()
    if key in _SSH_SAFE or key.startswith("serveralive"):
        return None
    return _named(f"{shown} {value.text}", RUNS)


def _sed_operand(reading: _Reading, word: Word) -> str | None:
    if reading.operands or reading.seen & {"e", "expression", "f", "file"}:
        return None
    return _script("sed", word) if reading.at >= reading.count else None


def _awk_operand(reading: _Reading, word: Word) -> str | None:
    if reading.operands or reading.seen & {"f", "file"} or reading.at < reading.count:
        return None
    return _script("awk", word)


def _second_written(reading: _Reading, word: Word) -> str | None:
    unknown = word.split and not word.literal
    if (reading.operands == 0 and not unknown) or reading.at < reading.count:
        return None
    if word.literal and word.text in _SINKS:
        return None
    return f"{word.source or word.text} is the file that {reading.name} writes"


def _date_operand(reading: _Reading, word: Word) -> str | None:
    if word.text.startswith("+") or reading.at < reading.count:
        return None
    return _named(word.source or word.text, "sets the clock")


def _hostname_operand(reading: _Reading, word: Word) -> str | None:
    return None if reading.at < reading.count else _named(word.text, "becomes the name of the host")


def _make_operand(reading: _Reading, word: Word) -> str | None:
    name, sign, value = word.text.partition("=")
    if not sign or reading.at < reading.count:
        return None
    plain = word.literal and value.replace("-", "").replace(".", "").replace("_", "").isalnum()
    if (plain or not value) and name.rstrip(":?+") not in {"SHELL", "MAKE", "MAKEFLAGS"}:
        return None
    return _named(f"{name}=", "replaces a variable, and may run another program")


def _pager_operand(reading: _Reading, word: Word) -> str | None:
    if not word.text.startswith("+") or word.text[1:].isdigit() or reading.at < reading.count:
        return None
    return _named(word.text, "is a command, and may run another program")


def _tar_operand(reading: _Reading, word: Word) -> str | None:
    """`tar xIf program archive`: the first operand may hold options without a dash."""
    if reading.operands or reading.at != 1 or reading.at < reading.count:
        return None
    letters = [letter for letter in "IF" if letter in word.text]
    bundled = word.text.isalnum() and word.text[:1] in "AcdrtuxIFfjJzZvphklmnoBCbLMNPsSTUVwWX"
    return _named(f"{word.text} (-{letters[0]})", RUNS) if letters and bundled else None


def _sysctl_operand(reading: _Reading, word: Word) -> str | None:
    if "=" not in word.text or reading.at < reading.count:
        return None
    return _named(word.text, CHANGES)


_OPERANDS: dict[str, Callable[[_Reading, Word], str | None]] = {
    "awk": _awk_operand,
    "date": _date_operand,
    "gawk": _awk_operand,
    "hostname": _hostname_operand,
    "less": _pager_operand,
    "make": _make_operand,
    "mawk": _awk_operand,
    "more": _pager_operand,
    "nawk": _awk_operand,
    "sed": _sed_operand,
    "sysctl": _sysctl_operand,
    "tar": _tar_operand,
    "uniq": _second_written,
    "xxd": _second_written,
}

_GIT_RUNNERS = {("bisect", "run"), ("submodule", "foreach")}
_EXECUTED_KEYS = (
    *("alias.", "pager", "editor", "command", "fsmonitor", "hookspath", "gitproxy", "askpass"),
    *("external", "textconv", "helper", "program", "filter.", "include", "insteadof", "cmd"),
    *("protocol.", "driver", "packobjectshook", "template", "receivepack", "uploadpack", ".path"),
)


def _git(words: tuple[Word, ...], count: int, table: Hazards) -> str | None:
    """Options before the subcommand and behind it mean different things."""
    operands = first_operands(words, global_options("git"), 3)
    start = operands[0] if operands else len(words)
    before = _Reading("git", words[: start + (start < len(words))], count, table, None).hazard()
    if before is not None or start >= len(words):
        return before
    sub = words[start].text
    if not words[start].literal:
        return None if start < count else _unknown(words[start], "git", RUNS)
    for at, word in enumerate(words[start:], start=start):
        if word.text.startswith(("ext::", "--upload-pack=ext::")) and at >= count:
            return _named("ext::", RUNS)
    rest = words[start + 1 :]
    for at, word in enumerate(rest, start=start + 1):
        if (sub, word.text) in _GIT_RUNNERS and at + 1 >= count:
            return _named(f"git {sub} {word.text}", RUNS)
    if sub == "config":
        keys = [w for at, w in enumerate(rest, start + 1) if at >= count and not is_option(w)]
        for word in keys:
            if not word.literal or any(k in word.text.lower() for k in _EXECUTED_KEYS):
                shown = f"git config {word.source or word.text}"
                return _named(shown, "may set what git runs") if len(keys) > 1 else None
        return None
    inner = HAZARDS.get(f"git {sub}")
    if inner is None:
        return None
    return _Reading(f"git {sub}", words[start:], max(count - start, 0), inner, None).hazard()
