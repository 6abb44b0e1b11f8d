"""Does an allowed command do more than the rule names? Finds the program behind wrappers and its
table, by which `hazards.Reading` walks over the arguments."""

from alhena.shell.arguments import is_option, options_in
from alhena.shell.hazards import Reading, any_subcommand, fed, script_effect
from alhena.shell.languages.modules import inner_module, module_call, module_key, module_words
from alhena.shell.options import (
    ANYTHING,
    base_name,
    command_keys,
    first_operands,
    inner_command,
    split_settings,
    unknown_subcommand,
)
from alhena.shell.parse.model import Part, Word
from alhena.shell.tables import (
    Arity,
    Effect,
    Program,
    Style,
    global_options,
    listed,
    main_name,
    program,
)

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
            key = module_key(words)
            table = program(key)
            found = _read(key, words, count, table, part) if table is not None else None
            if found is not None:
                return found
        at = inner_module(words)
        if at is not None:
            found = _hazard(words[:at], count)
            if found is not None:
                return found
            words, count = module_call(words, at), max(count - at + 1, 0)
            continue
        inner = None if module else inner_command(words)
        if inner is None or not inner.starts:
            return _hazard(words, count, part)
        # Options of the wrapper may stand up to the last place where its command may begin.
        start = max(at for at, _ in inner.starts)
        sure = any(likely for _, likely in inner.starts)
        found = _hazard(words[:start] if sure else words, count)
        if found is not None or inner.wrapper.remote:
            return found
        extra = (ANYTHING,) if inner.via in listed("adds_input") else ()
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
    return last if last in listed("cross_tools") else name


def _hazard(words: tuple[Word, ...], count: int, part: Part | None = None) -> str | None:
    name = known_as(words[0].text)
    unsure = unknown_subcommand(words)
    if unsure is not None and unsure >= count:
        return any_subcommand(words[unsure], name)
    if name in listed("options_before"):
        from alhena.shell.languages.git_arguments import HAZARDS

        return HAZARDS[name](words, count)
    for key in command_keys(name, words):
        table = program(key)
        if table is not None and table.judged:
            return _read(key, words, count, table, part)
    return None


def _read(
    key: str, words: tuple[Word, ...], count: int, table: Program, part: Part | None
) -> str | None:
    operand, hidden = None, None
    if table.operand:
        from alhena.shell.languages.operands import HIDDEN, OPERANDS

        operand, hidden = OPERANDS[table.operand], HIDDEN.get(table.operand)
    reading = Reading(key, words, count, table, operand)
    found = reading.hazard() or (_input(reading, part) if part else None)
    if hidden is not None:
        found = found or hidden(words[max(count, 1) :])
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


def _tables_at(words: tuple[Word, ...], at: int) -> list[Program]:
    """The tables that may speak of an option at this place, the most special first; none behind
    the end of options."""
    if any(word.literal and word.text == "--" for word in words[:at]):
        return []
    name = known_as(words[0].text)
    keys = command_keys(name, words)
    if name in listed("options_before"):
        first = next(iter(first_operands(words, global_options(name), 1)), len(words))
        keys = keys[:1] if at > first and len(keys) > 1 else [name]
    return [table for key in keys if (table := program(key)) is not None]


_RUNNING = (Effect.RUNS, Effect.CODE)


def runs_value(words: tuple[Word, ...], at: int) -> bool:
    """Is this word, or what is attached to it, the value of an option that runs or loads it?"""
    before, word = words[at - 1], words[at]
    for table in _tables_at(words, at):
        behind = list(options_in(table, before)) if is_option(before) else []
        options = [n for f in behind if f.value is None for n in f.names if table.takes_next(n)]
        within = list(options_in(table, word)) if is_option(word) else []
        options += [name for found in within if found.value is not None for name in found.names]
        if options:
            return any(table.effect_of(option) in _RUNNING for option in options)
    return False


def may_run_more(words: tuple[Word, ...], at: int) -> bool:
    """May this word, if it begins with a dash, be an option with code attached to it?"""
    before = words[at - 1]
    for table in _tables_at(words, at):
        last = list(options_in(table, before)) if is_option(before) else []
        if any(f.value is None and any(map(table.takes_next, f.names)) for f in last[-1:]):
            return False
        runs = known_as(words[0].text) in listed("attaching") and any(
            option.effect is Effect.RUNS and option.arity is not Arity.FLAG
            for name, option in table.options.items()
            if name not in table.harmless
        )
        if runs or (table.commands is not None and table.style is Style.LETTERS):
            return True
    return False
