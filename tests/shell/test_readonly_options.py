"""The tables of options: only what stands in them is known, and what is known only reads."""

import shlex
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.shell.parse.model import Word
from alhena.shell.strict_reading import Given, read_words
from alhena.shell.tables import Arity, Program, all_programs, program
from tests.shell.readonly_support import NOT_RUN, Stage, refusals, snapshot
from tests.shell.tables import reading

NAMES = [name for name in all_programs() if (found := program(name)) and found.reads]
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


def table(name: str) -> Program:
    found = program(name)
    assert found is not None
    return found


def known_options(name: str) -> dict[str, Arity]:
    """The options with which a program only reads."""
    return {name: option.arity for name, option in table(name).options.items() if option.reads}


def read(reads: str, line: str, **keys: object) -> Given | str:
    words = [Word(word, source=word) for word in shlex.split(line)]
    return read_words(reading(reads, **keys), "p", words)


def names_and_values(given: Given | str) -> list[tuple[str, str | None]]:
    assert isinstance(given, Given)
    return [(name, word and word.text) for name, word in given.options]


def test_no_option_is_both_known_and_refused() -> None:
    for name in NAMES:
        assert not known_options(name).keys() & table(name).refuses.keys()
        assert all(option.startswith("-") for option in known_options(name))
        assert {*table(name).form} <= {"expression", "guarded", "leading", "names", "subcommand"}


def test_no_abbreviation_of_a_long_option_is_known() -> None:
    for name in NAMES:
        options = {
            each for each in [*table(name).options, *table(name).refuses] if each[:2] == "--"
        }
        short = {option[:end] for option in options for end in range(3, len(option))}
        for option in short - options:
            for text in (option, f"{option}=x"):
                assert isinstance(read_words(table(name), name, [Word(text)]), str), (name, text)


def test_an_option_refused_for_a_reason_is_refused_anywhere() -> None:
    for name in NAMES:
        effects = {each: o.effect for each, o in table(name).options.items() if not o.reads}
        for option, reason in {**effects, **table(name).refuses}.items():
            for words in (option, f"{option}=x", f"{option}x", f"x {option}"):
                assert refusals(f"{name} {words}") != [], (name, words)
            assert any(reason in text for text in refusals(f"{name} {option}")), (name, option)


def test_another_name_of_a_program_has_its_table() -> None:
    assert refusals("egrep -n foo a") == []
    assert refusals("git annotate a") == []
    assert refusals("pip3 freeze") == []
    assert refusals("gsed -n 1p a") == []
    assert refusals("gsed 1e a") != []


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
    assert read("-a", "x -- y", operands=1) == "p with 2 operands may not only read"
    assert read("-a", "x", operands=0) == "p with an operand may not only read"
    assert read("-a", "x -a", form="leading") == "-a comes after an operand"
    assert read("-a --flag", "--flag=1") == "--flag takes no value"


def test_numbers_are_options_only_where_the_table_says_so() -> None:
    assert isinstance(read("-NUM -n:", "-20"), Given)
    assert read("-n:", "-20") == "-2 is not a known option of p"
    assert read("-NUM", "-2x") == "-2 is not a known option of p"


def test_a_value_with_a_dash_is_taken_only_where_the_table_says_so() -> None:
    assert read("-k: -o", "-k -o", form="guarded") == "-o could be an option"
    assert names_and_values(read("-e:: --re==", "-e -o --re -o", form="guarded")) == [
        ("-e", "-o"),
        ("--re", "-o"),
    ]
    assert names_and_values(read("-n:", "-n -5", form="guarded")) == [("-n", "-5")]
    assert names_and_values(read("-k:", "-k -o")) == [("-k", "-o")]


def test_whole_options_are_not_clusters() -> None:
    assert read("-p -ps -c:", "-psp", style="words") == "-psp is not a known option of p"
    assert names_and_values(read("-p -ps -c:", "-ps -c16 -c 8", style="words")) == [
        ("-ps", None),
        ("-c", "16"),
        ("-c", "8"),
    ]


def test_what_is_needed_and_what_is_used_are_read_from_the_table() -> None:
    keys = {
        "use": "@more",
        "needs": {"may ask": "--quiet -m"},
        "refuses": {"never ends": "-f"},
        "runs": "-x --exec=",
    }
    assert read("--quiet", "--more", **keys) == "p without --quiet or -m may ask"
    assert isinstance(read("--quiet", "-m", **keys), Given)
    assert read("--quiet", "-f", **keys) == "-f never ends"
    assert read("--quiet", "-x", **keys) == "-x runs another program"
    assert read("--quiet", "--exec=y", **keys) == "--exec runs another program"


@st.composite
def command_lines(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(RUNNABLE))
    words: list[str] = []
    options = sorted(known_options(name).items())
    for option, arity in draw(
        st.lists(st.sampled_from(options), max_size=4) if options else st.just([])
    ):
        value = draw(st.sampled_from(VALUES))
        if option == "-NUM":
            words.append("-2")
        elif arity is Arity.FLAG or (arity is Arity.ATTACHED and draw(st.booleans())):
            words.append(option)
        elif option.startswith("--"):
            words.extend([f"{option}={value}"] if arity is Arity.ATTACHED else [option, value])
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
