"""Modules that Python runs by `-m`, and those that run another."""

from alhena.shell.arguments import Kind, walk_arguments
from alhena.shell.options import base_name
from alhena.shell.parse.model import Word
from alhena.shell.tables import Effect, interpreter, listed, program


def module_key(words: tuple[Word, ...]) -> str:
    """The name of the table of a module and its arguments."""
    return f"python -m {words[0].text}"


def module_call(words: tuple[Word, ...], at: int) -> tuple[Word, ...]:
    """The call of the module behind the `-m` at this place, as Python's own."""
    return (Word("python"), *words[at:])


def module_words(words: tuple[Word, ...]) -> tuple[Word, ...] | None:
    """The module and its arguments in `python -m MODULE …`, whatever options come before."""
    name = interpreter(base_name(words[0].text))
    table = program(name) if name in listed("modular") else None
    if table is None or table.language is None:
        return None
    for argument in walk_arguments(table.language, words, exact=True):
        if argument.kind is not Kind.OPTION or not argument.word.literal:
            return None
        for found in argument.options:
            if any(table.language.effect_of(each) is Effect.CODE for each in found.names):
                return None
            if found.shown == "-m":
                letters = argument.word.text[1:].partition("m")[2]
                rest = (Word(letters), *words[argument.at + 1 :])
                rest = rest if letters else rest[1:]
                return rest if rest and rest[0].literal else None
    return None


def inner_module(words: tuple[Word, ...]) -> int | None:
    """The index of `-m` among the arguments of a module that runs another, such as coverage."""
    if base_name(words[0].text) not in listed("module_runners"):
        return None
    places = range(1, len(words) - 1)
    return next((at for at in places if words[at].literal and words[at].text == "-m"), None)
