"""The words of a command line, told without a shell."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.config.command_words import pieces, simple_commands


def found(word: str) -> set[str]:
    return set(pieces(word, lambda _count: None))


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("sh \"my tools/srv.sh\" 'a b' c\\ d", [["sh", "my tools/srv.sh", "a b", "c d"]]),
        ('exec ./to""ols/srv', [["exec", "./tools/srv"]]),
        ("cd a && (make -s; ls) | sh &", [["cd", "a"], ["make", "-s"], ["ls"], ["sh"]]),
        ("sh 'unclosed words", [["sh", "unclosed", "words"]]),
        ('"a \\" b" x\\\ny', [['a " b', "xy"]]),
        (" ;; ", []),
    ],
)
def test_a_line_is_told_into_commands_as_a_shell_would(
    line: str, commands: list[list[str]]
) -> None:
    assert list(simple_commands(line)) == commands


@given(st.lists(st.text(alphabet="ab \"'\\;|&$()\n", min_size=1), min_size=1))
def test_words_that_are_quoted_come_out_as_they_went_in(words: list[str]) -> None:
    assert list(simple_commands(shlex.join(words))) == [words]


@given(st.text(alphabet="a.{},/ \"'\\;$()~+=\n"))
def test_of_any_text_the_pieces_come_to_an_end(text: str) -> None:
    assert text[:4096] in found(text) or not text


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ('sh "my tools/srv.sh"', "my tools/srv.sh"),
        ("""bash -c 'sh "my dir/a b.sh"'""", "my dir/a b.sh"),
        ('--main="my dir/a b.py"', "my dir/a b.py"),
        ('exec "$(git rev-parse --show-toplevel)/tools/srv"', "tools/srv"),
        ('node "$ROOT/tools/srv"', "tools/srv"),
        ("node ${ROOT:-x}/tools/srv", "tools/srv"),
        ("sh $NOTHING./srv.sh", "./srv.sh"),
        ("exec sh ~+/tools/srv", "tools/srv"),
        ("exec sh ./srv.{sh,}", "./srv.sh"),
        ("sh {a,b}/{c,d}.sh", "b/c.sh"),
        ("sh sub\\/a.sh", "sub/a.sh"),
    ],
)
def test_what_a_shell_makes_of_a_word_is_among_its_pieces(word: str, path: str) -> None:
    assert path in found(word)


def test_braces_that_stand_for_very_many_words_are_left_as_they_are() -> None:
    assert len(found("{a,b}" * 500)) < 100
