"""Arguments by which an allowed program does more than the rule names."""

from collections.abc import Callable

from alhena.policy.bash.hazards.reading import (
    SINKS,
    Reading,
    fed,
    leads_out,
    named,
    script_effect,
    unknown,
)
from alhena.policy.bash.inner import ANYTHING, INPUT_IN_ARGUMENTS, inner_command
from alhena.policy.bash.model import Part, Word, WordKind
from alhena.policy.bash.options import (
    base_name,
    first_operands,
    is_option,
    split_settings,
)
from alhena.policy.bash.reach import names_command
from alhena.policy.programs import Effect, Program, global_options, interpreter, main_name, program

_PROGRAMS = frozenset({"-f", "--file", "-e", "--source"})
_OPENSSL = {
    **dict.fromkeys(("s_client", "s_server", "s_time", "ocsp"), Effect.CONNECTS),
    **dict.fromkeys(("engine", "rehash", "srp"), Effect.RUNS),
}


def _sed_operand(reading: Reading, word: Word) -> str | None:
    if reading.operands or reading.seen & {"-e", "--expression", "-f", "--file"}:
        return None
    return script_effect("sed", word) if reading.beyond else None


def _awk_operand(reading: Reading, word: Word) -> str | None:
    if reading.operands or reading.seen & _PROGRAMS or not reading.beyond:
        return None
    return script_effect("awk", word)


def _second_written(reading: Reading, word: Word) -> str | None:
    unknown = word.split and not word.literal
    if (reading.operands == 0 and not unknown) or not reading.beyond:
        return None
    if word.literal and word.text in SINKS:
        return None
    return f"{word.source or word.text} is the file that {reading.name} writes"


def _date_operand(reading: Reading, word: Word) -> str | None:
    if word.text.startswith("+") or not reading.beyond:
        return None
    return named(word.source or word.text, "sets the clock")


def _hostname_operand(reading: Reading, word: Word) -> str | None:
    return None if not reading.beyond else named(word.text, "becomes the name of the host")


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


def _property(reading: Reading, word: Word) -> str | None:
    """Properties of mvn, gradle and dotnet name programs, plugins and places."""
    key = word.text.lstrip("-/").partition("=")[0]
    profile = reading.name == "mvn" and word.text.startswith("-P")
    if not reading.beyond or profile or not word.text.startswith(_PROPERTIES):
        return None
    name = key.partition(":")[2] or key[1:]
    if word.literal and name.casefold() in _HARMLESS_PROPERTIES:
        return None
    return named(word.source or word.text, "sets a property, and may run another program")


_TASK = " task"
_PROPERTIES = (
    "-D",
    "-P",
    "-p:",
    "/p:",
    "--property",
    "-property",
    "--define",
    "--system-prop",
    "--project-prop",
)
_HARMLESS_PROPERTIES = frozenset(
    {"skiptests", "test", "it.test", "maven.test.skip", "configuration", "failifnotests"}
)


def _built(reading: Reading, word: Word) -> str | None:
    """A target of gradle or mvn, or one of dotnet's projects; `-p:NAME=VALUE` may be written with
    a slash."""
    return _property(reading, word) or _task_operand(reading, word)


def _inside(reading: Reading, word: Word) -> str | None:
    """What is run or built from a path that leads elsewhere; `file::test` names a test."""
    if not reading.beyond:
        return None
    shown = word.source or word.text
    if word.text.startswith("@"):
        return named(shown, "is a file of further arguments")
    path, source = Word(word.text.partition("::")[0]), word.source.partition("::")[0]
    unsure = word.kind is WordKind.EXPANSION or ".." in source or source[:1] == "~"
    out = leads_out(path) or (unsure and not word.literal)
    return named(shown, Effect.ELSEWHERE) if out else None


def _project(reading: Reading, word: Word) -> str | None:
    return _property(reading, word) or _inside(reading, word)


def _pager_operand(reading: Reading, word: Word) -> str | None:
    if not word.text.startswith("+") or word.text[1:].isdigit() or not reading.beyond:
        return None
    return named(word.text, "is a command, and may run another program")


def _tar_operand(reading: Reading, word: Word) -> str | None:
    """`tar xIf program archive`: the first operand may hold options without a dash."""
    if not reading.beyond:
        return None
    if ":" in word.text.partition("/")[0]:
        return named(word.text, Effect.CONNECTS)
    if reading.operands or reading.at != 1:
        return None
    effects = {c: reading.effect_of(f"-{c}") for c in word.text}
    letters = [c for c, effect in effects.items() if effect not in (Effect.NONE, Effect.CONNECTS)]
    bundled = word.text.isalnum() and word.text[:1] in "AcdrtuxIFfjJzZvphklmnoBCbLMNPsSTUVwWX"
    if not letters or not bundled:
        return None
    return named(f"{word.text} (-{letters[0]})", effects[letters[0]])


def _sysctl_operand(reading: Reading, word: Word) -> str | None:
    if "=" not in word.text or not reading.beyond:
        return None
    return named(word.text, Effect.CHANGES)


def _database_operand(reading: Reading, word: Word) -> str | None:
    """sqlite3's first operand is a file, those behind it are commands."""
    if not reading.beyond:
        return None
    if reading.operands:
        return script_effect(reading.name, word)
    out = leads_out(word) or word.text.startswith("file:")
    return named(word.source or word.text, Effect.ELSEWHERE) if out else None


def _connection_operand(reading: Reading, word: Word) -> str | None:
    """psql takes `host=… dbname=…` and URLs for the name of a database."""
    plain = word.literal and "=" not in word.text and "://" not in word.text
    return None if plain or not reading.beyond else named(word.source or word.text, Effect.CONNECTS)


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


def _process(reading: Reading, word: Word) -> str | None:
    digits = word.text.isdigit() and reading.beyond
    return named(f"{word.text}, which may be a process,", Effect.CHANGES) if digits else None


def _openssl_operand(reading: Reading, word: Word) -> str | None:
    effect = None if reading.operands else _OPENSSL.get(word.text)
    return named(word.text, effect) if effect and reading.beyond else None


def _toolchain(reading: Reading, word: Word) -> str | None:
    """`cargo +TOOLCHAIN`: one with a name of its own may be any compiler."""
    if not word.text.startswith("+") or not reading.beyond:
        return None
    name = word.text[1:].partition("-")[0]
    released = name in {"stable", "beta", "nightly"} or name.replace(".", "").isdigit()
    plain = released and word.literal and "/" not in word.text
    return None if plain else named(word.source or word.text, Effect.RUNS)


def _target(reading: Reading, word: Word) -> str | None:
    """Files that are written stay within the working directory."""
    only_read = reading.name in {"git clone", "split"} and not reading.operands
    if not reading.beyond or only_read:
        return None
    return named(word.source or word.text, Effect.ELSEWHERE) if leads_out(word) else None


OPERANDS: dict[str, Callable[[Reading, Word], str | None]] = {
    "awk": _awk_operand,
    "built": _built,
    "connection": _connection_operand,
    "database": _database_operand,
    "date": _date_operand,
    "editor": _editor_operand,
    "hostname": _hostname_operand,
    "inside": _inside,
    "make": _make_operand,
    "openssl": _openssl_operand,
    "pager": _pager_operand,
    "process": _process,
    "project": _project,
    "second_written": _second_written,
    "sed": _sed_operand,
    "sysctl": _sysctl_operand,
    "tar": _tar_operand,
    "target": _target,
    "task": _task_operand,
    "toolchain": _toolchain,
}
"""What a table names as its `operand` -> what is said of each operand."""

_WITH_PROPERTIES = ("dotnet", "gradle", "mvn")
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
    if name == "git":
        return _git(words, count)
    for key in (*_subcommands(name, words), name):
        table = program(key)
        if table is not None and table.judged:
            return _read(key, words, count, table, part)
    return None


def _read(
    key: str, words: tuple[Word, ...], count: int, table: Program, part: Part | None
) -> str | None:
    if key in _WITH_PROPERTIES:
        walk = Reading(key, words, count, table)
        while walk.at < len(words):
            found = _property(walk, words[walk.at])
            if found is not None:
                return found
            walk.at += 1
    reading = Reading(key, words, count, table, OPERANDS.get(table.operand))
    found = reading.hazard() or (_input(reading, part) if part else None)
    behind = program(f"{key} --")
    if found is not None or behind is None:
        return found
    ended = reading.ended_at
    return Reading(key, words[ended:], max(count - ended, 0), behind).hazard()


def _input(reading: Reading, part: Part) -> str | None:
    """What a program does by the commands it reads from its standard input."""
    console = reading.table.console
    if console is None or reading.seen & set(console.without.split()):
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


_GIT_RUNNERS = {("bisect", "run"), ("submodule", "foreach")}
_EXECUTED_KEYS = (
    *("alias.", "pager", "editor", "command", "fsmonitor", "hookspath", "gitproxy", "askpass"),
    *("external", "textconv", "helper", "program", "filter.", "include", "insteadof", "cmd"),
    *("protocol.", "driver", "packobjectshook", "template", "receivepack", "uploadpack", ".path"),
)


def _git_config(rest: tuple[Word, ...], count: int) -> str | None:
    """`count` words of `rest`, which follow `git config`, are the rule's."""
    beyond = rest[max(count, 0) :]
    file = next((each for each in beyond if each.text.startswith(("-f", "--file"))), None)
    if file is not None:
        return named(file.text, Effect.ELSEWHERE)
    keys = [word for word in beyond if not is_option(word)]
    for word in keys:
        if not word.literal or any(key in word.text.lower() for key in _EXECUTED_KEYS):
            shown = f"git config {word.source or word.text}"
            return named(shown, "may set what git runs") if len(keys) > 1 else None
    return None


def _git(words: tuple[Word, ...], count: int) -> str | None:
    """Options before the subcommand and behind it mean different things."""
    operands = first_operands(words, global_options("git"), 3)
    start = operands[0] if operands else len(words)
    table = program("git")
    if table is not None and (start != 1 or len(words) == 1):
        before = Reading("git", words[: start + (start < len(words))], count, table).hazard()
        if before is not None:
            return before
    if start >= len(words):
        return None
    sub = words[start].text
    if not words[start].literal:
        return None if start < count else unknown(words[start], "git", Effect.RUNS)
    for at, word in enumerate(words[start:], start=start):
        text = word.text
        if at >= count and (text.startswith("ext::") or "=ext::" in text or "://-" in text):
            return named(text, Effect.RUNS)
    rest = words[start + 1 :]
    for at, word in enumerate(rest, start=start + 1):
        if (sub, word.text) in _GIT_RUNNERS and at + 1 >= count:
            return named(f"git {sub} {word.text}", Effect.RUNS)
    if sub == "config":
        return _git_config(rest, count - start - 1)
    key = f"git {sub}"
    inner = program(key)
    if inner is None or not inner.judged:
        return None
    operand = OPERANDS.get(inner.operand)
    return Reading(key, words[start:], max(count - start, 0), inner, operand).hazard()
