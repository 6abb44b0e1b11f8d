"""Lines that are read without the parser are read as the parser's tree is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.shell.parse.analysis import MAX_LENGTH, read_plain
from alhena.shell.parse.model import Findings, Reading, Scope, Shell, plain_source
from alhena.shell.parse.parser import parse
from alhena.shell.parse.simple_command import ASSIGNING, RESERVED
from alhena.shell.parse.statements import COMPOUNDS, Walk
from tests.support.each import for_each

NAMES = ["git", "cd", "a", "-x", "./b", "1", "..", "test", "command", "builtin", "popd", "pushd"]
NAMES += ["eval", "exec", "source", ".", "trap", "set", "printf", "alias", "break", "x-y_z", "0x1"]
NAMES += ["in", "true", "exit", "[", "let", *sorted(RESERVED), *sorted(ASSIGNING)]
WORDS = ["-a", "--b=c", "a=b", "%1", "1", "a,b", "@x", "+x", "a:b", "..", "-", "--", "then", "in"]
WORDS += ["do", "if", "-eq", "/dev/tcp/h/1", "x==y", "=", "a=b=c", "2", "/", "a/", "-v", "-p", "~"]
blanks = st.sampled_from([" ", "  ", "\t", " \t "])
operators = st.sampled_from(["&&", "||", "|", ";", ";;", "&", "|&", "\n", "&&&", "| |"])


@st.composite
def lines(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(["", " ", "\t"]))
    for number in range(draw(st.integers(1, 4))):
        if number:
            text += draw(operators) + draw(st.sampled_from(["", " ", "\t "]))
        text += draw(st.sampled_from(NAMES))
        for word in draw(st.lists(st.sampled_from([*WORDS, *NAMES]), max_size=3)):
            text += draw(blanks) + word
        text += draw(st.sampled_from(["", " ", "\t"]))
    return text + draw(st.sampled_from(["", ";", "; ", ";;", "&", " |"]))


def by_tree(command: str) -> Findings:
    findings = Findings()
    data = command.encode()
    root = parse(data, findings)
    if root.has_error:
        findings.lost("it does not parse", "")
    reading = Reading(plain_source(command, data), root, findings)
    Walk(reading, COMPOUNDS).program(root, Scope(Shell()))
    return findings


@settings(max_examples=100, deadline=None)
@given(lines() | st.text(alphabet="gita12 -./:,@%+=;&|\t_", max_size=16))
def test_a_plain_line_is_read_as_its_tree_is(command: str) -> None:
    plain = Findings()
    if not read_plain(command, plain):
        assert not plain.parts
        return
    tree = by_tree(command)
    assert not tree.waiting
    if any(reason == "bash may read it in another way" for reason, _ in tree.doubts):
        assert not tree.complete  # the grammar has no place for a word, such as a first `-`
        return
    assert [part.words for part in plain.parts] == [part.words for part in tree.parts]
    if tree.complete:
        assert plain.parts == tree.parts
        assert (plain.doubts, plain.complete) == (tree.doubts, True)
    else:  # a list within a pipeline, which the grammar makes of pipelines in a list
        assert command.count("|") > command.count("||") * 2


def test_a_pipeline_ends_where_a_list_goes_on() -> None:
    findings = Findings()
    assert read_plain("a | b | c && d; e || f | g", findings)
    piped = [(part.text, part.stdin_piped) for part in findings.parts]
    assert piped == [(name, name in "bcg") for name in "abcdefg"]
    assert findings.complete


@pytest.mark.parametrize(
    "command",
    ["git status -s src/1 && npm cmd2 | head -n 3", "cd a; make; cd b || ls", " a | b |c|d; e ;"],
)
def test_everyday_lines_are_plain(command: str) -> None:
    assert read_plain(command, Findings())


@for_each(
    "command",
    [
        *("", " ", "a &", "a > b", "a 'b'", "a $b", "a\nb", "A=1 b", "a*", "~/a", "a # b", "é"),
        *(
            "if a",
            "! a",
            "time a",
            "export a=b",
            "read a",
            "a ;; b",
            "a |& b",
            "a &&",
            "; a",
            "(a)",
        ),
        "a " * MAX_LENGTH,
    ],
)
def test_whatever_might_mean_something_else_is_left_to_the_parser(command: str) -> None:
    assert not read_plain(command, Findings())
