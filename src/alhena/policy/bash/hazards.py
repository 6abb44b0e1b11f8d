"""Arguments by which an allowed program does more than a rule may have meant."""

from alhena.policy.bash.consoles import CONSOLES, fed
from alhena.policy.bash.hazard_builds import BUILDS
from alhena.policy.bash.hazard_operands import CHECKS, OPERANDS
from alhena.policy.bash.hazard_reading import Reading, named, script_effect, unknown
from alhena.policy.bash.hazard_table import READERS, RUNS, SAME, Hazards
from alhena.policy.bash.hazard_tools import TOOLS
from alhena.policy.bash.inner import ANYTHING, INPUT_IN_ARGUMENTS, inner_command
from alhena.policy.bash.literal import split_settings
from alhena.policy.bash.model import Part, Word
from alhena.policy.bash.options import base_name, first_operands, global_options, is_option
from alhena.policy.bash.wrappers import interpreter

HAZARDS: dict[str, Hazards] = {**READERS, **BUILDS, **TOOLS}
"""Program, or program and subcommand -> its options with an effect. Behind `--` stands what the
program hands on."""

_TOO_DEEP = 16


def hazard(part: Part, prefix: tuple[str, ...]) -> str | None:
    """What `part` does by an argument that the rule does not name, as a sentence; else None.

    `prefix` are the words of the rule's prefix, with which the words of `part` begin; empty for a
    rule of another kind. Programs that are no readers to begin with have no hazards.
    """
    words, count = part.words, len(split_settings(prefix)[1])
    for _ in range(_TOO_DEEP):
        if not words or not words[0].literal:
            return None
        start = _module(words)
        inner = inner_command(words) if start is None else None
        if start is None and (inner is None or not inner.starts):
            return _hazard(words, count, part)
        extra: tuple[Word, ...] = ()
        if inner is not None:
            start = inner.starts[-1][0]
            extra = (ANYTHING,) if inner.via in INPUT_IN_ARGUMENTS else ()
            found = _hazard(words[: inner.starts[0][0]], count)
            if found is not None or inner.wrapper.remote:
                return found
        words, count = (*words[start:], *extra), max(count - (start or 0), 0)
    return "it is wrapped too deeply to be looked through"


def _module(words: tuple[Word, ...]) -> int | None:
    """Where the module of `python -m MODULE` stands."""
    if len(words) > 2 and words[1].text == "-m" and words[1].literal and words[2].literal:
        return 2 if interpreter(base_name(words[0].text)) in {"python", "pypy"} else None
    return None


def known_as(program: str) -> str:
    """The name that the tables have for a program: `gcc-12`, `vim.tiny` and
    `arm-none-eabi-gcc` are like others."""
    name = base_name(program)
    for known in (name, name.rstrip("0123456789.-"), name.partition(".")[0]):
        found = SAME.get(known, known)
        if found in HAZARDS:
            return found
    last = name.rstrip("0123456789.-").rpartition("-")[2]
    return last if last in _CROSS else name


_CROSS = frozenset({"ar", "as", "cpp", "g++", "gcc", "gdb", "ld", "nm", "objcopy", "objdump"})


def _hazard(words: tuple[Word, ...], count: int, part: Part | None = None) -> str | None:
    name = known_as(words[0].text)
    if name == "git":
        return _git(words, count, HAZARDS[name])
    for key in (*_subcommands(name, words), name):
        table = HAZARDS.get(key)
        if table is not None:
            return _read(key, words, count, table, part)
    return None


def _read(
    key: str, words: tuple[Word, ...], count: int, table: Hazards, part: Part | None
) -> str | None:
    check = CHECKS.get(key)
    if check is not None:
        walk = Reading(key, words, count, table)
        while walk.at < len(words):
            found = check(walk, words[walk.at])
            if found is not None:
                return found
            walk.at += 1
    reading = Reading(key, words, count, table, OPERANDS.get(key))
    found = reading.hazard() or (_input(reading, part) if part else None)
    behind = HAZARDS.get(f"{key} --")
    if found is not None or behind is None:
        return found
    ended = reading.ended_at
    return Reading(key, words[ended:], max(count - ended, 0), behind).hazard()


def _input(reading: Reading, part: Part) -> str | None:
    """What a program does by the commands it reads from its standard input."""
    console = CONSOLES.get(reading.name)
    if console is None or reading.seen & console.without:
        return None
    if reading.operands >= console.operands and not reading.vague:
        return None
    texts = fed(part)
    if texts is None:
        return f"{reading.name} takes its input for commands, and these are not known"
    return next(filter(None, (script_effect(reading.name, text) for text in texts)), None)


def _subcommands(name: str, words: tuple[Word, ...]) -> list[str]:
    """The program with its subcommands, the longest first, where tables speak of them."""
    if name not in _WITH_SUBCOMMANDS:
        return []
    found = first_operands(words, global_options(name), 2)
    texts = [words[at].text for at in found]
    return [" ".join((name, *texts[:length])) for length in range(len(texts), 0, -1)]


_WITH_SUBCOMMANDS = frozenset(key.split(" ")[0] for key in HAZARDS if " " in key)

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
    if start != 1 or len(words) == 1:
        before = Reading("git", words[: start + (start < len(words))], count, table).hazard()
        if before is not None or start >= len(words):
            return before
    sub = words[start].text
    if not words[start].literal:
        return None if start < count else unknown(words[start], "git", RUNS)
    for at, word in enumerate(words[start:], start=start):
        if word.text.startswith(("ext::", "--upload-pack=ext::")) and at >= count:
            return named("ext::", RUNS)
    rest = words[start + 1 :]
    for at, word in enumerate(rest, start=start + 1):
        if (sub, word.text) in _GIT_RUNNERS and at + 1 >= count:
            return named(f"git {sub} {word.text}", RUNS)
    if sub == "config":
        keys = [w for at, w in enumerate(rest, start + 1) if at >= count and not is_option(w)]
        for word in keys:
            if not word.literal or any(k in word.text.lower() for k in _EXECUTED_KEYS):
                shown = f"git config {word.source or word.text}"
                return named(shown, "may set what git runs") if len(keys) > 1 else None
        return None
    inner = HAZARDS.get(f"git {sub}")
    if inner is None:
        return None
    return Reading(f"git {sub}", words[start:], max(count - start, 0), inner).hazard()
