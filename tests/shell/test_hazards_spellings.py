"""Every option with an effect is seen in each of the spellings that its program takes."""

from collections.abc import Iterator

import pytest

from alhena.shell.beyond import hazard
from alhena.shell.parse.model import Part, Word, WordKind
from alhena.shell.tables import (
    ONE_DASH,
    Effect,
    Program,
    Style,
    all_programs,
    matches,
    program,
)
from tests.support.each import for_each

_CODE = {
    "awk": 'BEGIN{system("x")}',
    **dict.fromkeys(("vim", "ex"), "!x"),
    "gdb": "shell x",
    "mysql": "\\! x",
    "psql": "\\! x",
    **dict.fromkeys(("python -m IPython", "python -m pdb"), "!x"),
    "sed": "1e x",
    "sqlite3": ".shell x",
}
_HARMFUL = (
    "../x",
    "@x",
    "x=@x",
    "x@x",
    "src=/x",
    "movie=x",
    "image x",
    "file:/x",
    "/x",
    "x.json",
    "x",
    "path=../x",
    "go-template-file=x",
)
"""Of these, an option with harmless values takes at least one that is not."""
_VALUES = {Effect.ELSEWHERE: "../x", Effect.LISTS: "../x", Effect.CONNECTS: "evil.example:x"}
_BASES = {
    "cargo --": ["cargo", "test", "--"],
    "cmake --": ["cmake", "--build", "b", "--"],
    "gh repo clone --": ["gh", "repo", "clone", "a/b", "--"],
    "json.tool": ["python", "-m", "json.tool"],
    "unittest": ["python", "-m", "unittest"],
}
_SHORTENED = (Style.LETTERS, Style.NOPT, Style.LONG_ONLY)


def value_of(key: str, option: str, effect: Effect) -> str:
    if effect is Effect.CODE:
        return _CODE[key]
    if key == "pytest" and option in {"-W", "--pythonwarnings"}:
        return "error::evil.Warning"
    value = _VALUES.get(effect, "./x.y:%output{x}")
    table = program(key)
    harmless = table.harmless.get(option) if table else None
    if harmless is None or not matches(harmless, value):
        return value
    return next(each for each in _HARMFUL if not matches(harmless, each))


def spellings(table: Program, option: str, value: str) -> Iterator[list[str]]:
    """The words for an option with a value, each as the style of its table has it."""
    name = option.lstrip("-") + ("x" if option[-1] in ".-" else "")
    valued = table.options[option].takes_next
    behind = [value] if valued else []
    letter = len(name) == 1 or option in table.letter_groups
    if table.style in ONE_DASH:
        for dashes in ("-", "--"):
            yield [f"{dashes}{name}", *behind]
            if valued:
                yield [f"{dashes}{name}={value}"]
        if option in table.joined:
            yield [f"-{name}{value}"]
    elif letter:
        yield [f"-{name}", *behind]
        if valued and table.style is Style.LETTERS:
            yield [f"-{name}{value}"]
        flag = next((c for c in "QZyjJkK" if f"-{c}" not in table.options), "")
        if flag and table.style in (Style.LETTERS, Style.CAMEL):
            yield [f"-{flag}{name}", *behind]
    else:
        yield [f"--{name}", *behind]
        if valued:
            yield [f"--{name}={value}"]
    short = option[:-1]
    known = short in table.options
    if table.style in _SHORTENED and len(name) > 4 and not known and option[:2] == "--":
        yield [f"--{name[:-1]}", *behind]
    joined = option.startswith(table.joined)
    if table.style is Style.LONG_ONLY and len(name) > 4 and not known and not joined:
        yield [f"-{name[:-1]}", *behind]


JUDGED = [
    key
    for key in all_programs()
    if (found := program(key)) and found.judged and key != "gcc -Wp,"  # only handed words
]


@for_each("key", JUDGED)
def test_every_option_of_a_table_is_seen_in_every_spelling(key: str) -> None:
    table = program(key)
    assert table is not None
    base = _BASES.get(key, key.split())
    named = tuple(base)
    missed: list[str] = []
    seen = 0
    effects = {each: known.effect for each, known in table.options.items() if known.effect}
    for option, effect in effects.items():
        for words in spellings(table, option, value_of(key, option, effect)):
            given = Part(text="", words=tuple(map(Word, (*base, *words))))
            seen += 1
            if hazard(given, named) is None:
                missed.append(" ".join((*base, *words)))
    assert missed == []
    assert seen >= len(effects)


@pytest.mark.parametrize(
    "command",
    ["git diff -U {}", "git diff --unified {}", "journalctl -n {}", "journalctl --lines {}"],
)
def test_what_follows_an_option_with_an_attached_value_may_be_an_option(command: str) -> None:
    *words, _ = command.split()
    unsure = Word("", WordKind.EXPANSION, '"$x"')
    given = Part(text="", words=(*map(Word, words), unsure))
    assert hazard(given, tuple(words[:1])) is not None
