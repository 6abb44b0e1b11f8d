"""The tables of programs: compiled as they are written, and free of mistakes."""

import pytest

from alhena.shell.tables import (
    Arity,
    Effect,
    Option,
    Style,
    all_programs,
    global_options,
    main_name,
    option_name,
    program,
    wrapper,
)
from tests.shell.tables import compile_programs, compiler


def test_the_compiled_tables_and_rules_are_up_to_date() -> None:
    for path, text in compiler().compiled().items():
        assert path.read_text(encoding="utf-8") == text, path


def test_an_option_has_an_arity_and_an_effect() -> None:
    tables = {"p": {"known": "-ab -k: -U? --color[=]", "writes": "-o: --output=", "code": "-e:"}}
    assert compile_programs(tables)["p"].options == {
        "-a": Option(Arity.FLAG),
        "-b": Option(Arity.FLAG),
        "-k": Option(Arity.VALUE),
        "-U": Option(Arity.ATTACHED),
        "--color": Option(Arity.ATTACHED),
        "-o": Option(Arity.VALUE, Effect.WRITES),
        "--output": Option(Arity.VALUE, Effect.WRITES),
        "-e": Option(Arity.VALUE, Effect.CODE),
    }


def test_the_style_says_what_a_word_behind_a_dash_is() -> None:
    for style in Style:
        options = compile_programs({"p": {"style": style, "runs": "--one-Two="}})["p"].options
        assert list(options) == [option_name("--one-Two", style)]
    assert list(compile_programs({"p": {"style": "words", "known": "-ps -c:"}})["p"].options) == [
        "-ps",
        "-c",
    ]


def test_a_program_takes_over_what_it_uses_and_its_own_word_comes_first() -> None:
    tables = {
        "@shared": {"reads": "-n: --date=", "runs": "--exec="},
        "lists": {"use": "@shared", "reads": "-n"},
        "does": {"use": "@shared", "writes": "-o"},
    }
    found = compile_programs(tables)
    assert found["lists"].options["-n"] == Option(Arity.FLAG, reads=True)
    assert found["lists"].options["--date"] == Option(Arity.VALUE, reads=True)
    assert found["lists"].options["--exec"].effect is Effect.RUNS
    assert not found["does"].reads
    assert found["does"].options["--date"] == Option(Arity.VALUE)


def test_only_an_option_that_holds_code_may_read_and_have_an_effect() -> None:
    table = compile_programs({"p": {"reads": "-e:", "code": "-e:"}})["p"]
    assert table.options["-e"] == Option(Arity.VALUE, Effect.CODE, reads=True)
    with pytest.raises(ValueError, match="-o both reads and writes"):
        compile_programs({"p": {"reads": "-o:", "writes": "-o:"}})


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"p": {"redas": "-a"}}, "unknown keys"),
        ({"p": {"reads": "a"}}, "a is no option"),
        ({"p": {"reads": ""}, "q": {"reads": "", "also": "p"}}, "both a program and another name"),
    ],
)
def test_a_mistake_in_a_table_is_an_error(tables: dict[str, dict[str, str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compile_programs(tables)


def test_every_table_can_be_decoded_and_other_names_lead_to_it() -> None:
    assert all(program(name) is not None for name in all_programs())
    assert program("gsort") is program("sort") or program("gsort") == program("sort")
    assert main_name("podman") == "docker"
    assert wrapper("genv") == wrapper("env") is not None
    assert global_options("oc") == global_options("kubectl")
    assert program("frobnicate") is None


def test_what_a_table_names_exists() -> None:
    from alhena.shell.languages.operands import OPERANDS
    from alhena.shell.languages.reading_checks import CHECKS

    for name in all_programs():
        table = program(name)
        assert table is not None
        assert table.operand in {"", *OPERANDS}
        assert table.check in {"", *CHECKS}
        assert all(program(other) for other in table.hands.values())
