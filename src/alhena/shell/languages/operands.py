"""Operands by which an allowed program does more than the rule names."""

from collections.abc import Callable, Sequence

from alhena.shell.hazards import (
    SINKS,
    TARGET,
    Reading,
    describe_excess,
    is_secret,
    leads_out,
    script_effect,
)
from alhena.shell.languages.runners import names_command
from alhena.shell.languages.sed_awk import could_be_awk, writes_as_sed
from alhena.shell.parse.model import Word, WordKind
from alhena.shell.tables import Effect

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


def _path(reading: Reading, word: Word) -> str | None:
    """Files of a comparison, which may be shown whole."""
    literal = word.literal or word.source[:1] == "~"
    out = reading.beyond and literal and (leads_out(word) or is_secret(word))
    return describe_excess(word.source or word.text, Effect.ELSEWHERE) if out else None


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
    return describe_excess(f"{name}=", "replaces a variable, and may run another program")


def _task_operand(reading: Reading, word: Word) -> str | None:
    """To name one target, or several, is not to name others."""
    if not reading.beyond:
        reading.seen.add(TARGET)
        return None
    if TARGET not in reading.seen or word.text.replace(".", "").isdigit():
        return None
    return describe_excess(word.source or word.text, "is another target")


def _address(reading: Reading, word: Word) -> str | None:
    """To name one address is not to name others."""
    if not reading.beyond:
        reading.seen.add(TARGET)
    elif TARGET in reading.seen:
        return describe_excess(word.source or word.text, "is another address")
    return None


def _inside(reading: Reading, word: Word) -> str | None:
    """Refuses a path to run or build from that leads elsewhere; `file::test` names a test."""
    if not reading.beyond:
        return None
    shown = word.source or word.text
    if word.text.startswith("@"):
        return describe_excess(shown, "is a file of further arguments")
    path, source = Word(word.text.partition("::")[0]), word.source.partition("::")[0]
    unsure = word.kind is WordKind.EXPANSION or ".." in source or source[:1] == "~"
    out = leads_out(path) or (unsure and not word.literal)
    return describe_excess(shown, Effect.ELSEWHERE) if out else None


def _tar_operand(reading: Reading, word: Word) -> str | None:
    """An archive before whose colon there is no slash is another host's."""
    remote = reading.beyond and ":" in word.text.partition("/")[0]
    return describe_excess(word.text, Effect.CONNECTS) if remote else None


def _database_operand(reading: Reading, word: Word) -> str | None:
    """sqlite3's first operand is a file, those after it are commands."""
    if not reading.beyond:
        return None
    if reading.operands:
        return script_effect(reading.name, word)
    out = leads_out(word) or word.text.startswith("file:")
    return describe_excess(word.source or word.text, Effect.ELSEWHERE) if out else None


def _editor_operand(reading: Reading, word: Word) -> str | None:
    """`+COMMAND` of vim, or `!COMMAND` of ed."""
    if not reading.beyond:
        return None
    if reading.name == "ed":
        harmless = word.text[:1] not in {"!", ""}
        return None if harmless else describe_excess(word.source or word.text, Effect.RUNS)
    if "://" in word.text:
        return describe_excess(word.text, Effect.CONNECTS)
    return script_effect("vim", _drop_plus(word)) if word.text.startswith("+") else None


def _drop_plus(word: Word) -> Word:
    return Word(word.text[1:], word.kind, word.source)


def _target(reading: Reading, word: Word) -> str | None:
    """Files that are written stay within the working directory."""
    only_read = reading.name in {"git clone", "split"} and not reading.operands
    if not reading.beyond or only_read:
        return None
    return describe_excess(word.source or word.text, Effect.ELSEWHERE) if leads_out(word) else None


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
    return describe_excess(word.source or word.text, Effect.CONNECTS) if elsewhere else None


def _hidden_awk(words: Sequence[Word]) -> str | None:
    """The effect of a word that some awk may take for its program."""
    programs = (word for word in words if word.literal and could_be_awk(word.text))
    return next(filter(None, (script_effect("awk", word) for word in programs)), None)


HIDDEN: dict[str, Callable[[Sequence[Word]], str | None]] = {"awk": _hidden_awk}
"""Values of `operand` -> the function that judges all words, as any may hold code."""
OPERANDS: dict[str, Callable[[Reading, Word], str | None]] = {
    "address": _address,
    "awk": _awk_operand,
    "database": _database_operand,
    "editor": _editor_operand,
    "first_target": _first_target,
    "inside": _inside,
    "make": _make_operand,
    "path": _path,
    "remote": _remote,
    "second_written": _second_written,
    "sed": _sed_operand,
    "sources": _sources,
    "tar": _tar_operand,
    "target": _target,
    "task": _task_operand,
}
"""Values of `operand` in a table -> the function that judges each operand."""
