"""Every option with an effect is seen in each of the spellings that its program takes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from alhena.policy.bash.hazards.judge import HAZARDS, hazard
from alhena.policy.bash.hazards.table import CODE, CONNECTS, ELSEWHERE, SAME, Hazards, Style
from alhena.policy.bash.model import Part, Word

_CODE = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), 'BEGIN{system("x")}'),
    **dict.fromkeys(("vim", "ex"), "!x"),
    "gdb": "shell x",
    "mysql": "\\! x",
    "psql": "\\! x",
    "sed": "1e x",
    "sqlite3": ".shell x",
}
_VALUES = {ELSEWHERE: "../x", CONNECTS: "evil.example:x"}
_BASES = {
    "cargo --": ["cargo", "test", "--"],
    "cmake --": ["cmake", "--build", "b", "--"],
    "json.tool": ["python", "-m", "json.tool"],
    "unittest": ["python", "-m", "unittest"],
}
_DASHED = (Style.WORDS, Style.FOLDED, Style.LONG_ONLY)
_SHORTENED = (Style.LETTERS, Style.NOPT, Style.LONG_ONLY)


def value_of(key: str, option: str, effect: str) -> str:
    if effect is CODE:
        return _CODE[key]
    if key == "pytest" and option in {"W", "pythonwarnings"}:
        return "error::evil.Warning"
    return _VALUES.get(effect, "./x.y:%output{x}")


def spellings(table: Hazards, option: str, value: str) -> Iterator[list[str]]:
    """The words for an option with a value, each as the style of its table has it."""
    name = option.lstrip("-") + ("x" if option.endswith(".") else "")
    valued = option in table.values
    behind = [value] if valued else []
    letter = len(name) == 1
    if table.style in _DASHED:
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
        flag = next(
            (c for c in "QZyjJkK" if not {c} & {*table.values, *table.attached, *table.effects}), ""
        )
        if flag and table.style in (Style.LETTERS, Style.CAMEL):
            yield [f"-{flag}{name}", *behind]
    else:
        yield [f"--{name}", *behind]
        if valued:
            yield [f"--{name}={value}"]
    known = {*table.values, *table.harmless, *table.effects}
    short = option[:-1]
    if table.style in _SHORTENED and len(name) > 4 and short not in known and name == option:
        yield [f"--{name[:-1]}", *behind]
    joined = option.startswith(table.joined)
    if table.style is Style.LONG_ONLY and len(name) > 4 and short not in known and not joined:
        yield [f"-{name[:-1]}", *behind]


@pytest.mark.parametrize("key", sorted(HAZARDS))
def test_every_option_of_a_table_is_seen_in_every_spelling(key: str) -> None:
    table = HAZARDS[key]
    base = _BASES.get(key, key.split())
    named = tuple(base)
    missed: list[str] = []
    seen = 0
    for option, effect in table.effects.items():
        for words in spellings(table, option, value_of(key, option, effect)):
            given = Part(text="", words=tuple(map(Word, (*base, *words))))
            seen += 1
            if hazard(given, named) is None:
                missed.append(" ".join((*base, *words)))
    assert missed == []
    assert seen >= len(table.effects)


@pytest.mark.parametrize("program", sorted(SAME))
def test_another_name_of_a_program_has_its_table(program: str) -> None:
    assert SAME[program] in {key.split(" ")[0] for key in HAZARDS}


def test_the_policy_page_names_the_programs_that_have_a_table() -> None:
    modules = {"json.tool", "unittest"}
    names = {key.split(" ")[0] for key in HAZARDS} | set(SAME)
    wanted = sorted(f"python -m {name}" if name in modules else name for name in names)
    page = (Path(__file__).parents[3] / "docs/policy.md").read_text(encoding="utf-8")
    listed = page.partition("Programs with a table: ")[2].partition("\n\n")[0]
    found = [" ".join(name.split()) for name in re.findall(r"`([^`]+)`", listed)]
    assert found == wanted, ", ".join(f"`{name}`" for name in wanted)
