"""The tables of options: only what stands in them is known, and what is known only reads."""

import shlex
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.policy.bash.model import Word
from alhena.policy.bash.readonly import git as git_tables
from alhena.policy.bash.readonly import program_tables, system_tables, text_tables
from alhena.policy.bash.readonly.grammar import (
    ATTACHED,
    FLAG,
    Given,
    Grammar,
    read_grammar,
    read_words,
)
from alhena.policy.bash.readonly.tables import git_grammar, grammar_of
from tests.policy.bash.readonly_support import NOT_RUN, Stage, refusals, snapshot

_OTHERS = (text_tables, system_tables, program_tables)
NAMES = [
    *(name for tables in _OTHERS for name in tables.TABLES),
    *(f"git {name}" for name in git_tables.TABLES),
]
# Parts of git that are shell scripts call other programs.
RUNNABLE = [
    name
    for name in NAMES
    if shutil.which(name.split()[0])
    and name.split()[0] not in NOT_RUN
    and name != "git submodule status"
]
VALUES = ["1", "a", "HEAD", "2,3", "auto", "x=y", "%s"]
OPERANDS = ["a", "b", "src", ".", "HEAD", "1", "a b"]


def table(name: str) -> Grammar:
    program, _, subcommand = name.partition(" ")
    grammar = git_grammar(subcommand) if program == "git" else grammar_of(name)
    assert grammar is not None
    return grammar


def read(text: str, line: str) -> Given | str:
    grammar = read_grammar(text, {"more": "--more -m"}.__getitem__)
    return read_words(grammar, "p", [Word(word, source=word) for word in shlex.split(line)])


def names_and_values(given: Given | str) -> list[tuple[str, str | None]]:
    assert isinstance(given, Given)
    return [(name, word and word.text) for name, word in given.options]


def test_no_option_is_both_known_and_refused() -> None:
    for grammar in map(table, NAMES):
        assert not grammar.options.keys() & grammar.refused.keys()
        assert all(option.startswith("-") for option in grammar.options)
        assert grammar.properties <= {"guarded", "leading", "whole", "names"}


def test_no_abbreviation_of_a_long_option_is_known() -> None:
    for name in NAMES:
        grammar = table(name)
        options = {name for name in [*grammar.options, *grammar.refused] if name[:2] == "--"}
        short = {option[:end] for option in options for end in range(3, len(option))}
        for option in short - options:
            for text in (option, f"{option}=x"):
                assert isinstance(read_words(grammar, name, [Word(text)]), str), (name, text)


def test_an_option_refused_for_a_reason_is_refused_anywhere() -> None:
    for name in NAMES:
        for option, reason in table(name).refused.items():
            for words in (option, f"{option}=x", f"{option}x", f"x {option}"):
                assert refusals(f"{name} {words}") != [], (name, words)
            assert any(reason in text for text in refusals(f"{name} {option}"))


def test_every_alias_names_a_table() -> None:
    for tables in _OTHERS:
        assert set(tables.ALIASES.values()) <= set(tables.TABLES)
    assert set(git_tables.ALIASES.values()) <= set(git_tables.TABLES)
    assert refusals("egrep -n foo a") == []
    assert refusals("git annotate a") == []
    assert refusals("pip3 freeze") == []


def test_values_stand_attached_or_next() -> None:
    text = "-ab -k: -U? --key= --color[=] --with=?"
    assert names_and_values(read(text, "-abk1 x")) == [("-a", None), ("-b", None), ("-k", "1")]
    assert names_and_values(read(text, "-k 1")) == [("-k", "1")]
    assert names_and_values(read(text, "-U3 -aU")) == [("-U", "3"), ("-a", None), ("-U", None)]
    assert names_and_values(read(text, "--key=1 --key 2")) == [("--key", "1"), ("--key", "2")]
    assert names_and_values(read(text, "--key=")) == [("--key", "")]
    assert names_and_values(read(text, "--color --color=x")) == [
        ("--color", None),
        ("--color", "x"),
    ]
    assert names_and_values(read(text, "--with")) == [("--with", None)]
    assert names_and_values(read(text, "--with x")) == [("--with", "x")]
    assert read(text, "-k") == "-k lacks its value"
    assert read(text, "--key") == "--key lacks its value"
    assert read(text, "-ac") == "-c is not a known option of p"


def test_operands_are_told_from_options() -> None:
    given = read("-a", "x -a - -- -b --c")
    assert isinstance(given, Given)
    assert [word.text for word in given.operands] == ["x", "-", "-b", "--c"]
    assert read("-a operands=1", "x -- y") == "p with 2 operands may not only read"
    assert read("-a operands=0", "x") == "p with an operand may not only read"
    assert read("leading -a", "x -a") == "-a stands after an operand"
    assert read("-a --flag", "--flag=1") == "--flag takes no value"


def test_numbers_are_options_only_where_the_table_says_so() -> None:
    assert isinstance(read("-NUM -n:", "-20"), Given)
    assert read("-n:", "-20") == "-2 is not a known option of p"
    assert read("-NUM", "-2x") == "-2 is not a known option of p"


def test_a_value_with_a_dash_is_taken_only_where_the_table_says_so() -> None:
    assert read("guarded -k: -o", "-k -o") == "-o could be an option"
    assert names_and_values(read("guarded -e:: --re==", "-e -o --re -o")) == [
        ("-e", "-o"),
        ("--re", "-o"),
    ]
    assert names_and_values(read("guarded -n:", "-n -5")) == [("-n", "-5")]
    assert names_and_values(read("-k:", "-k -o")) == [("-k", "-o")]


def test_whole_options_are_not_clusters() -> None:
    assert read("whole -p -ps -c:", "-psp") == "-psp is not a known option of p"
    assert names_and_values(read("whole -p -ps -c:", "-ps -c16 -c 8")) == [
        ("-ps", None),
        ("-c", "16"),
        ("-c", "8"),
    ]


def test_what_is_needed_and_what_is_shared_are_read_from_the_text() -> None:
    text = "@more\n? --quiet -m may ask\n! -x --exec runs a program\n--quiet"
    assert read(text, "--more") == "p without --quiet or -m may ask"
    assert isinstance(read(text, "-m"), Given)
    assert read(text, "-x") == "-x runs a program"
    assert read(text, "--exec=y") == "--exec runs a program"


@st.composite
def command_lines(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(RUNNABLE))
    words: list[str] = []
    known = sorted(table(name).options.items())
    for option, arity in draw(
        st.lists(st.sampled_from(known), max_size=4) if known else st.just([])
    ):
        value = draw(st.sampled_from(VALUES))
        if option == "-NUM":
            words.append("-2")
        elif arity == FLAG or (arity == ATTACHED and draw(st.booleans())):
            words.append(option)
        elif option.startswith("--"):
            words.extend([f"{option}={value}"] if arity == ATTACHED else [option, value])
        else:
            words.append(option + value)
    words.extend(draw(st.lists(st.sampled_from(OPERANDS), max_size=2)))
    return f"{name} {shlex.join(words)}"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "stage", {name.split()[0] for name in RUNNABLE})


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(lines=st.lists(command_lines(), min_size=20, max_size=20))
def test_known_options_in_any_combination_change_nothing(lines: list[str], stage: Stage) -> None:
    accepted = [line for line in lines if not refusals(line)]
    before = snapshot(stage.work)
    calls = stage.run(accepted)
    assert snapshot(stage.work) == before, accepted
    assert {(accepted[n], name) for n, name in calls if name != accepted[n].split()[0]} == set()
