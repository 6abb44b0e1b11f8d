"""Modules that Python runs by `-m`, and those that run another."""

from alhena.shell.options import Takes, base_name, is_option, takes
from alhena.shell.parse.model import Word
from alhena.shell.tables import interpreter, listed, program


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
    known = table.language if table and table.language else None
    at = 1
    while known is not None and at < len(words) and is_option(words[at]) and words[at].literal:
        text = words[at].text
        letters = "" if text.startswith("--") else text[1:]
        stop = next((i for i, c in enumerate(letters) if c in f"{known.letters}{known.code}m"), -1)
        if stop >= 0 and letters[stop] == "m":
            rest = (Word(letters[stop + 1 :]), *words[at + 1 :])
            rest = rest if rest[0].text else rest[1:]
            return rest if rest and rest[0].literal else None
        if stop >= 0 and letters[stop] in known.code:
            return None
        at += 1 + (takes(text, known) is Takes.NEXT)
    return None


def inner_module(words: tuple[Word, ...]) -> int | None:
    """The index of `-m` among the arguments of a module that runs another, such as coverage."""
    if base_name(words[0].text) not in listed("module_runners"):
        return None
    places = range(1, len(words) - 1)
    return next((at for at in places if words[at].literal and words[at].text == "-m"), None)
